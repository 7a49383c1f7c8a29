"""Programs that aggregate in two stages give the results of one stage."""

from __future__ import annotations

import pytest

from penstock.common import Time
from penstock.datastream import OutputTag, ProcessWindowFunction
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
)
from penstock.errors import InvalidProgramError
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults
from penstock.windowing import TumblingEventTimeWindows
from tests.builders.scripted import MONOTONOUS, collect, environment, read
from tests.builders.two_stages import ASSIGNERS, TUMBLING, Total, add_up, key_of

EVENTS = [(f"k{n % 3}", n) for n in range(90)]


def events(env, late=()):
    """Two splits of many batches, one batch per epoch; elements that are too late come at the end of the first."""
    values = [[(e, e[1]) for e in EVENTS[n::2]] for n in range(2)]
    splits = [[part[at : at + 10] for at in range(0, len(part), 10)] for part in values]
    splits[0].append([(e, e[1]) for e in late] or splits[0].pop())
    return read(env, *splits, strategy=MONOTONOUS)


class Stamp(ProcessWindowFunction):
    def process(self, key, context, elements):
        (total,) = elements
        yield key, context.window().start, total


def build(stream, assigner, kind, **options):
    windows = stream.key_by(key_of).window(assigner)
    if kind == "reduce":
        return windows.reduce(add_up, **options)
    if kind == "aggregate":
        return windows.aggregate(Total(), **options)
    return windows.aggregate(Total(), Stamp(), **options)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("kind", ["reduce", "aggregate", "window function"])
@pytest.mark.parametrize("assigner", [ASSIGNERS[0], ASSIGNERS[2]], ids=["tumbling", "sliding"])
def test_programs_give_the_same_in_one_stage_and_two(assigner, kind, parallelism):
    found = []
    for local_global in (False, True):
        with MiniCluster():
            env = environment(parallelism, checkpoints=10)
            late = [("k0", 1), ("k1", 2)]
            stream = build(events(env, late), assigner, kind, local_global=local_global)
            found.append(sorted(collect(stream)))
    assert found[0] == found[1]
    assert len(found[0]) > 20


def test_a_program_in_two_stages_survives_a_crash():
    expected = sorted(
        (f"k{k}", sum(mine), len(mine))
        for k in range(3)
        for start in range(0, 90, 5)
        for mine in [[n for n in range(start, start + 5) if n % 3 == k]]
        if mine
    )
    fault = StepFault("before write_manifest", 3)
    with MiniCluster(), protocol_faults(fault) as faults:
        stream = build(
            events(environment(3, checkpoints=10)), TUMBLING, "aggregate", local_global=True
        )
        assert sorted(collect(stream)) == expected
    assert faults.struck == [fault]


def test_only_accumulators_cross_the_exchange():
    with MiniCluster() as cluster:
        env = environment(2)
        collect(
            build(events(env), TumblingEventTimeWindows(1000, 0), "aggregate", local_global=True)
        )
    (job,) = cluster.masters
    sent = {
        operator.name: job.metrics[operator.operator_id]["numRecordsOut"][1]
        for vertex in job.job.job_graph.vertices
        for operator in vertex.operators
    }
    assert sent["Source: in"] == 90
    assert sent["Local TumblingEventTimeWindows"] <= 6
    assert sent["TumblingEventTimeWindows"] == 3


def test_first_stage_is_chained_to_the_upstream_operator():
    env = environment(3)
    timed = MONOTONOUS.with_timestamp_assigner(lambda value, _: value[1])
    stream = env.from_collection([("a", 1)]).assign_timestamps_and_watermarks(timed)
    stream.set_parallelism(1)
    with MiniCluster() as cluster:
        collect(build(stream, TUMBLING, "aggregate", local_global=True))
    names = [vertex.name for vertex in cluster.masters[0].job.job_graph.vertices]
    assert names[0] == (
        "Source: Collection Source -> Timestamps/Watermarks -> Local TumblingEventTimeWindows"
    )


def test_a_uid_is_given_to_both_stages():
    env = environment(2)
    result = build(events(env), TUMBLING, "aggregate", local_global=True).uid("totals")
    local = result.transformation.inputs[0].inputs[0]
    assert (result.transformation.uid, local.uid) == ("totals", "totals/local")


class Unmerged(Total):
    def merge(self, acc_a, acc_b):
        pass


class Documented(Total):
    def merge(self, acc_a, acc_b):
        """Merge is not needed here."""


class Raising(Total):
    def merge(self, acc_a, acc_b):
        raise NotImplementedError("sessions are not supported")


@pytest.mark.parametrize(
    ("use", "why"),
    [
        pytest.param(lambda w: w.trigger(CountTrigger.of(2)).aggregate(Total(), local_global=True), "CountTrigger", id="a trigger"),
        pytest.param(lambda w: w.evictor(CountEvictor.of(2)).reduce(add_up, local_global=True), "evictor", id="an evictor"),
        pytest.param(lambda w: w.allowed_lateness(5).aggregate(Total(), local_global=True), "lateness", id="allowed lateness"),
        pytest.param(lambda w: w.side_output_late_data(OutputTag("late")).reduce(add_up, local_global=True), "late", id="a side output for late elements"),
        pytest.param(lambda w: w.aggregate(Unmerged(), local_global=True), "merge", id="an empty merge"),
        pytest.param(lambda w: w.aggregate(Documented(), local_global=True), "merge", id="an empty merge with a docstring"),
        pytest.param(lambda w: w.aggregate(Raising(), local_global=True), "merge", id="a merge that raises"),
    ],
)  # fmt: skip
def test_unsupported_two_stage_windows_are_rejected(use, why):
    windows = events(environment()).key_by(key_of).window(TUMBLING)
    with pytest.raises(InvalidProgramError, match="two stages") as caught:
        use(windows)
    assert why in caught.value.detail
    assert "local_global" in caught.value.hint


def test_other_windows_are_refused():
    stream = events(environment())
    sessions = stream.key_by(key_of).window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    with pytest.raises(InvalidProgramError, match="two stages"):
        sessions.reduce(add_up, local_global=True)
    with pytest.raises(InvalidProgramError, match="two stages"):
        stream.window_all(TUMBLING).reduce(add_up, local_global=True)


def test_the_default_trigger_may_be_named():
    windows = events(environment()).key_by(key_of).window(TUMBLING)
    stream = windows.trigger(EventTimeTrigger.create()).reduce(add_up, local_global=True)
    assert stream.get_name() == "TumblingEventTimeWindows"
