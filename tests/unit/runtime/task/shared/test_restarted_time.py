"""Time after a start from a checkpoint: valves start empty, and no watermark goes back."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream import ProcessFunction
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.operator_specs import (
    MapSpec,
    ProcessSpec,
    SourceSpec,
    TimestampsAndWatermarksSpec,
)
from penstock.graph.partitioning import Forward
from penstock.runtime.network.buffers import BufferedRow, decode
from penstock.runtime.network.messages import BARRIER, DATA, STATUS, WATERMARK, BarrierMessage
from tests.builders import stages
from tests.builders.pipes import Numbers, buffer, edge, gate, level, reads, run, vertex

NONE = WatermarkStrategy.no_watermarks()
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


class Now(ProcessFunction):
    """Emits the watermark that it sees."""

    def process_element(self, value, ctx):
        yield ctx.timer_service().current_watermark()


def control(kind, content, channel=0, sequence=0):
    return BufferedRow(0, 1, 0, channel, sequence, kind, pickle.dumps(content))


def former(watermark, floor=-(2**63), **operators):
    states = {
        "valve": (watermark, False, [(watermark, False, True)]),
        "floor": floor,
        "finished": False,
        "operators": operators,
    }
    return pickle.dumps(states)


def restored(*formers, number=1, just_restored=True, own=False):
    return SubtaskRestore(
        local=formers[0] if own else None,
        former={f"v{number}.0": formers},
        just_restored=just_restored,
    )


def sent(rows, kind):
    return [pickle.loads(row.payload) for row in rows if row.kind == kind and row.vertex >= 0]


@pytest.mark.parametrize("own", [True, False], ids=["unchanged", "rescaled"])
@pytest.mark.parametrize(
    ("reported", "seen"), [(5, 100), (100, 100), (120, 120)], ids=["behind", "equal", "ahead"]
)
def test_a_watermark_behind_the_time_of_the_checkpoint_counts_as_that_time(reported, seen, own):
    receiver = vertex(
        1, ProcessSpec(Now()), gates=[gate(0)], edges=[edge(2)], partitionings=[Forward()]
    )
    deployment = level(1, receiver, next_slots=1, restore={(1, 0): restored(former(100), own=own)})
    rows = [
        control(WATERMARK, reported),
        BufferedRow(0, 1, 0, 0, 1, DATA, buffer(["x"], [130])),
        control(BARRIER, BarrierMessage(1, "a", False), sequence=2),
    ]
    out = run(deployment, rows=rows)
    assert [decode(row.payload).values for row in out if row.kind == DATA] == [[seen]]
    # What was sent before is sent again: the receiver's valve may be a new one.
    assert sent(out, WATERMARK) == [seen]


def test_the_time_of_the_checkpoint_survives_the_next_one():
    receiver = vertex(1, ProcessSpec(Now()), gates=[gate(0)])
    barrier = control(BARRIER, BarrierMessage(1, "a", False))
    first = run(level(1, receiver, restore={(1, 0): restored(former(100))}), rows=[barrier])
    ack = pickle.loads(first[-1].payload)
    assert ack.watermark == 100
    assert pickle.loads(ack.local)["floor"] == 100


def source(*specs, state=None):
    chain = vertex(
        1, *specs, level=0, edges=[edge(2, operator=len(specs) - 1)], partitionings=[Forward()]
    )
    restore = SubtaskRestore() if state is None else restored(former(-(2**63), **state))
    return level(
        0,
        chain,
        next_slots=1,
        restore={(1, 0): restore},
        assignments={(1, 0): reads([], no_more_splits=False)},
    )


def test_restarted_source_repeats_its_watermark_and_status():
    state = {"v1.0": {"emitted": 70, "idle": True}}
    rows = run(source(SourceSpec(Numbers(bounded=False), MONOTONOUS), state=state))
    # The source was active again as it has a split now; the watermark is the old one.
    assert sent(rows, WATERMARK) == [70]


def test_restarted_watermark_generator_repeats_its_watermark():
    state = {"v1.1": {"emitted": 50, "idle": True}}
    specs = SourceSpec(Numbers(bounded=False), NONE), TimestampsAndWatermarksSpec(MONOTONOUS)
    rows = run(source(*specs, state=state))
    assert sent(rows, WATERMARK) == [50]
    assert sent(rows, STATUS) == [True]


def test_who_said_nothing_yet_says_nothing():
    rows = run(source(SourceSpec(Numbers(bounded=False), MONOTONOUS)))
    assert sent(rows, WATERMARK) == []
    assert sent(rows, STATUS) == []


NO_SPLITS = reads(no_more_splits=False)


@pytest.mark.parametrize(
    ("was_idle", "assignment", "reported"),
    [
        (True, reads([], no_more_splits=False), [(STATUS, True), (STATUS, False)]),
        (True, replace(NO_SPLITS, idle=True), [(STATUS, True)]),
        (False, replace(NO_SPLITS, idle=True), [(STATUS, True)]),
        (False, reads([], no_more_splits=False), []),
    ],
    ids=["idle, now it has a split", "idle", "now it has no split", "active"],
)
def test_a_source_that_stays_repeats_its_time_before_splits_change_its_status(
    was_idle, assignment, reported
):
    """The status that counts comes last: a source that reads is never taken for idle, and one that is idle has sent its watermark."""
    reader = vertex(
        1,
        SourceSpec(Numbers(bounded=False), MONOTONOUS),
        level=0,
        edges=[edge(2)],
        partitionings=[Forward()],
    )
    after = vertex(2, MapSpec(str), gates=[gate(1)])
    state = {"v1.0": {"emitted": 70, "idle": was_idle}}
    deployment = stages.stage(
        reader,
        after,
        elsewhere={(2, 0): 1},
        restore={(1, 0): restored(former(-(2**63), **state), own=True)},
        assignments={(1, 0): assignment},
    )
    with stages.Stepped(deployment) as slot:
        slot.rest()
        assert slot.sent(2) == [(WATERMARK, 70), *reported]
