"""A slot's event loop: whole stages by hand, slots as threads, the real network between them."""

from __future__ import annotations

import dataclasses
import os
import pickle
import sys

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.connectors.base.source import SourceAssignment, SourceSplit, SplitProgress
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph.operator_specs import FlatMapSpec, KeyedProcessSpec, MapSpec, SourceSpec
from penstock.graph.partitioning import Hash
from penstock.graph.stage import NetworkSettings
from penstock.graph.task_id import TaskId
from penstock.runtime.operators.functions.stateless import MapOperator
from penstock.runtime.task.pipelined.slot_messages import AssignSplits, SlotRunning
from tests.builders import pipes, stages

SEEN = []


def note(value):
    SEEN.append(value)
    return value


def parity(value):
    return value % 10


class Sums(KeyedProcessFunction):
    """Emits (key, sum so far)."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        yield ctx.get_current_key(), total


def sums(slots, splits, *, bounded=True, **options):
    """A source, a keyed operator and an end that notes what it gets, each with a subtask per slot."""
    SEEN.clear()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    source = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(bounded=bounded), strategy),
        level=0,
        parallelism=slots,
        edges=[pipes.edge(1, "HASH", targets=slots)],
        partitionings=[Hash(parity)],
    )
    keyed = pipes.vertex(
        1,
        KeyedProcessSpec(Sums()),
        parallelism=slots,
        gates=[pipes.gate(0, "HASH", sources=slots)],
        edges=[pipes.edge(2, "FORWARD", targets=slots)],
        partitionings=[None],
        keyed=[0],
    )
    end = pipes.vertex(
        2,
        MapSpec(note),
        level=2,
        parallelism=slots,
        gates=[pipes.gate(1, "FORWARD", sources=slots)],
    )
    assignments = {(0, index): pipes.reads(*each) for index, each in enumerate(splits)}
    return stages.stage(source, keyed, end, assignments=assignments, **options)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_bounded_job_runs_to_its_end(slots):
    count = 3000
    splits = [[[(n, n) for n in range(slot, count, slots)]] for slot in range(slots)]
    with stages.Running(sums(slots, splits)) as run:
        run.until(lambda: len(run.finished_sources()) == slots)
        acks = run.checkpoint(1)
        assert not run.failed
        run.leave()
    assert all(ack.finished for ack in acks.values())
    # Sinks name what they write by the attempt: no two subtasks of a vertex have the same.
    assert len({acks[2, index].attempt for index in range(slots)}) == slots
    expected = {key: sum(range(key, count, 10)) for key in range(10)}
    finals = {}
    for key, total in SEEN:
        finals[key] = max(total, finals.get(key, 0))
    assert finals == expected
    assert len(SEEN) == count


def test_subtasks_downstream_have_their_turns_first():
    """What they take makes room for what those before them emit."""
    with stages.Stepped(sums(1, [[]])) as slot:
        assert [task.id.vertex for task in slot.loop.tasks] == ["v2", "v1", "v0"]


def test_checkpoints_flow_through_a_running_job_and_a_restart_goes_on_from_one():
    """Slots read splits without an end; what was not in the checkpoint is read again after it."""
    splits = [[[(n, n) for n in range(slot, 400, 2)]] for slot in range(2)]
    with stages.Running(sums(2, splits, bounded=False)) as run:
        run.until(lambda: len(SEEN) == 400)
        acks = run.checkpoint(1)
        later = run.checkpoint(2)
        assert not run.failed
    assert not any(ack.finished for ack in acks.values())
    assert {ack.task for ack in later.values()} == {ack.task for ack in acks.values()}
    restore = {task: pipes.restore_of(ack, just_restored=True) for task, ack in later.items()}
    again = sums(2, [], bounded=False, restore=restore, next_checkpoint=3)
    more = {(0, index): SourceAssignment(list(later[0, index].progress)) for index in range(2)}
    again.assignments.update({TaskId(f"v{at}", index): each for (at, index), each in more.items()})
    with stages.Running(again) as run:
        progress = SplitProgress(SourceSplit("more", [(1_000_000, 500)], 0), 0)
        run.tell(0, AssignSplits(TaskId("v0", 0), (progress,)))
        run.until(lambda: SEEN)
        run.checkpoint(3)
    assert [(0, sum(range(0, 400, 10)) + 1_000_000)] == SEEN


def fail_on_seven(value):
    if value == 7:
        raise ValueError("seven")
    return value


def leave_on_seven(value):
    if value == 7:
        sys.exit(3)
    return value


def failing(function, slots=2):
    source = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(bounded=False), WatermarkStrategy.no_watermarks()),
        level=0,
        parallelism=slots,
        edges=[pipes.edge(1, "REBALANCE", targets=slots)],
        partitionings=[None],
    )
    target = pipes.vertex(
        1,
        MapSpec(function),
        parallelism=slots,
        gates=[pipes.gate(0, "REBALANCE", sources=slots)],
    )
    assignments = {(0, 0): pipes.reads([(n, n) for n in range(10)])}
    return stages.stage(source, target, assignments=assignments)


def test_user_exception_is_reported_as_in_epoch_mode():
    with stages.Running(failing(fail_on_seven)) as run:
        run.until(lambda: run.failed)
        (failed,) = run.failed
    failure = failed.failure
    assert failure.message == "ValueError: seven"
    assert failure.detail == "in operator 'v1.0', subtask 2 of 2, record 7"
    assert failure.task == TaskId("v1", 1)
    assert failure.operator == "v1.0"
    assert 'raise ValueError("seven")' in failure.traceback
    assert "penstock/runtime" not in failure.traceback
    assert isinstance(pickle.loads(failure.error), ValueError)
    assert failed.slot == 1


def test_a_program_that_ends_itself_fails_its_slot_only():
    with stages.Running(failing(leave_on_seven)) as run:
        run.until(lambda: run.failed)
        (failed,) = run.failed
    assert "sys.exit()" in failed.failure.message


class FailsToOpen(KeyedProcessFunction):
    def open(self, runtime_context):
        raise RuntimeError("no door")

    def process_element(self, value, ctx):
        return ()


def test_a_function_that_cannot_be_opened_fails_its_slot():
    deployment = sums(1, [[]])
    vertices = list(deployment.vertices)
    vertices[1] = pipes.vertex(
        1,
        KeyedProcessSpec(FailsToOpen()),
        gates=[pipes.gate(0, "HASH")],
        edges=[pipes.edge(2)],
        partitionings=[None],
        keyed=[0],
    )
    with stages.Running(dataclasses.replace(deployment, vertices=tuple(vertices))) as run:
        run.until(lambda: run.failed)
        assert run.failed[0].failure.message == "RuntimeError: no door"
        assert not run.of(SlotRunning)


def many(value):
    return [value] * 500


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(NetworkSettings(), id="as it is"),
        pytest.param(
            NetworkSettings(channel_bytes=1, gate_bytes=1, slot_bytes=1), id="almost no room"
        ),
    ],
)
def test_slots_that_all_send_to_each_other_come_to_an_end(network):
    slots, count = 3, 120
    source = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(), WatermarkStrategy.no_watermarks()),
        FlatMapSpec(many),
        level=0,
        parallelism=slots,
        edges=[pipes.edge(1, "REBALANCE", targets=slots, operator=1)],
        partitionings=[None],
    )
    middle = pipes.vertex(
        1,
        MapSpec(fail_on_none),
        parallelism=slots,
        gates=[pipes.gate(0, "REBALANCE", sources=slots)],
        edges=[pipes.edge(2, "HASH", targets=slots)],
        partitionings=[Hash(parity)],
    )
    end = pipes.vertex(
        2,
        KeyedProcessSpec(Sums()),
        level=2,
        parallelism=slots,
        gates=[pipes.gate(1, "HASH", sources=slots)],
        keyed=[0],
    )
    assignments = {
        (0, slot): pipes.reads([(n, n) for n in range(slot, count, slots)]) for slot in range(slots)
    }
    deployment = stages.stage(source, middle, end, assignments=assignments, network=network)
    with stages.Running(deployment) as run:
        run.until(lambda: len(run.finished_sources()) == slots, 60)
        acks = run.checkpoint(1)
    totals = {}
    for index in range(slots):
        for part in acks[2, index].keyed["v2.0"]:
            totals |= pickle.loads(part)["state/sum"].written
    assert totals == {key: 500 * sum(range(key, count, 10)) for key in range(10)}


def fail_on_none(value):
    assert value is not None
    return value


def spoil(record):
    record.append("spoilt")
    return record


def test_function_that_modifies_records_does_not_affect_other_consumers():
    """Two consumers in the same slot, and one in another, get the same lists."""
    SEEN.clear()
    slots = 2
    source = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(), WatermarkStrategy.no_watermarks()),
        level=0,
        parallelism=slots,
        edges=[
            pipes.edge(1, "BROADCAST", targets=slots),
            pipes.edge(2, "BROADCAST", index=1, targets=slots),
        ],
        partitionings=[None, None],
    )
    spoiling = pipes.vertex(
        1,
        MapSpec(spoil),
        parallelism=slots,
        gates=[pipes.gate(0, "BROADCAST", sources=slots)],
    )
    noting = pipes.vertex(
        2,
        MapSpec(note),
        parallelism=slots,
        gates=[pipes.gate(0, "BROADCAST", sources=slots)],
    )
    assignments = {(0, 0): pipes.reads([([n], n) for n in range(3)])}
    with stages.Running(stages.stage(source, spoiling, noting, assignments=assignments)) as run:
        run.until(lambda: len(SEEN) == 6)
        run.checkpoint(1)
    assert sorted(SEEN) == [[0], [0], [1], [1], [2], [2]]


def test_an_operator_is_woken_by_a_file_that_can_be_read(monkeypatch):
    reading, writing = os.pipe()
    open_operator = MapOperator.open

    def opened(self, context):
        open_operator(self, context)
        context.slot.watch(reading)

    def woken(self):
        SEEN.append(os.read(reading, 10))
        self.context.slot.watch(None)

    SEEN.clear()
    monkeypatch.setattr(MapOperator, "open", opened)
    monkeypatch.setattr(MapOperator, "on_wakeup", woken, raising=False)
    with stages.Running(sums(1, [[]], bounded=False)) as run:
        os.write(writing, b"ring")
        run.until(lambda: SEEN)
        os.write(writing, b"again")
        run.checkpoint(1)  # by now the slot would have heard of it
    for each in (reading, writing):
        os.close(each)
    assert SEEN == [b"ring"]
