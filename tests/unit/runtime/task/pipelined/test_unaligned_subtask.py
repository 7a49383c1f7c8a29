"""Unaligned checkpoints of a subtask in the loop of its slot: what its snapshot holds, and what a restore makes of it."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.operator_specs import KeyedProcessSpec, MapSpec
from penstock.graph.stage import BarrierSettings, NetworkSettings
from penstock.runtime.network.channels import BufferOrEvent, ChannelId, Inputs
from penstock.runtime.network.messages import BARRIER, DATA, WATERMARK, BarrierMessage
from penstock.runtime.records import RowBatch
from penstock.runtime.task.pipelined import task_checkpoints
from penstock.runtime.task.pipelined.slot_messages import (
    CancelCheckpoint,
    DeclineCheckpoint,
    TriggerBarrier,
)
from penstock.runtime.task.shared.in_flight import InFlight
from penstock.testing import ManualClock
from tests.builders import pipes, stages
from tests.builders.pipelined_tasks import reading

SEEN = []


def note(value):
    SEEN.append(value)
    return value


@pytest.fixture(autouse=True)
def time(monkeypatch):
    """The wall clock of the slot. Nothing was seen yet."""
    SEEN.clear()
    clock = ManualClock(1_000_000)
    monkeypatch.setattr(task_checkpoints, "now", lambda: clock() / 1000)
    return clock


class Sums(KeyedProcessFunction):
    """Emits the sum so far."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        yield total


def summing(sources=2, timeout_ms=0, **options):
    """A keyed sum that is fed by subtasks of other slots, and sends to one elsewhere."""
    target = pipes.vertex(
        1,
        KeyedProcessSpec(Sums()),
        MapSpec(note),
        gates=[pipes.gate(0, "HASH", sources=sources)],
        edges=[pipes.edge(2, operator=1)],
        partitionings=[None],
        keyed=[0],
    )
    after = pipes.vertex(2, MapSpec(note), level=2, gates=[pipes.gate(1)])
    elsewhere = {(0, index): 1 + index for index in range(sources)} | {(2, 0): 1}
    barriers = BarrierSettings(unaligned=True, aligned_timeout_ms=timeout_ms)
    return stages.stage(target, after, elsewhere=elsewhere, barriers=barriers, **options)


def batch(*values):
    return RowBatch(list(values), None, ["k"] * len(values))


def barrier(checkpoint, **options):
    return BarrierMessage(checkpoint, "up", False, triggered_ms=1_000_000, **options)


def overtake(slot, source, message):
    slot.task(1).inputs.channels[0, source].put_first(BufferOrEvent(BARRIER, message, 0))


def in_flight(ack):
    """Values by channel."""
    found = InFlight.load(ack.in_flight)
    return {
        source: [value for payload in payloads for value in RowBatch.decode(payload).values]
        for (_, source), payloads in found.inputs.items()
    }


def restore_from(ack, sources=2):
    """What a subtask that took this snapshot starts from."""
    handles = {"v1": (ack.in_flight,), "v0": (None,) * sources, "v2": (None,)}
    keyed = {operator: (chain,) for operator, chain in ack.keyed.items()}
    return {
        (1, 0): SubtaskRestore(keyed=keyed, local=ack.local, just_restored=True, in_flight=handles)
    }


def test_overtaking_barrier_captures_the_overtaken_records():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.rest()
        slot.put(1, 0, DATA, batch(2))
        slot.put(1, 0, WATERMARK, 5)
        slot.put(1, 1, DATA, batch(4))
        overtake(slot, 0, barrier(1))
        slot.put(1, 0, DATA, batch(100))
        slot.rest()
        assert SEEN[0] == 1
        assert max(SEEN) == 107
        assert slot.acks(1) == {}  # the other barrier may be behind more records
        slot.put(1, 1, DATA, batch(8))
        slot.put(1, 1, BARRIER, barrier(1))
        slot.put(1, 1, DATA, batch(200))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
    assert in_flight(ack) == {0: [2], 1: [4, 8]}
    assert ack.upstream == {("v0", 0): "up", ("v0", 1): "up"}
    assert ack.figures.unaligned
    assert ack.figures.persisted_in_flight > 0
    SEEN.clear()
    with stages.Stepped(summing(restore=restore_from(ack))) as slot:
        slot.put(1, 0, DATA, batch(1000))
        slot.rest()
    assert SEEN[-1] == 1 + 2 + 4 + 8 + 1000
    assert SEEN[0] in {1 + 2, 1 + 4}


def test_the_rest_of_a_buffer_that_is_processed_in_parts_is_in_flight():
    with stages.Stepped(summing()) as slot:
        slot.task(1).reading._portion.size = 2
        slot.task(1).outputs.filled()  # it stops after one part
        slot.put(1, 0, DATA, batch(1, 2, 4, 8))
        slot.task(1).reading.read()
        assert SEEN == [1, 3]
        overtake(slot, 0, barrier(1))
        slot.put(1, 0, DATA, batch(100))
        overtake(slot, 1, barrier(1))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
        assert in_flight(ack) == {0: [4, 8]}
        slot.task(1).outputs.emptied()
        slot.rest()
        assert SEEN == [1, 3, 7, 15, 115]


def test_portion_is_not_smaller_than_a_worthwhile_batch(monkeypatch):
    monkeypatch.setattr(RowBatch, "LEAST_PORTION", 3)
    with stages.Stepped(summing()) as slot:
        slot.task(1).reading._portion.size = 2
        slot.task(1).outputs.filled()  # it stops after one part
        slot.put(1, 0, DATA, batch(1, 2, 4, 8))
        slot.task(1).reading.read()
        assert SEEN == [1, 3, 7]


def test_records_in_parts_before_a_barrier_that_others_have_overtaken_are_kept_part_by_part():
    with stages.Stepped(summing()) as slot:
        slot.task(1).reading._portion.size = 2
        overtake(slot, 1, barrier(1))
        slot.turn()
        slot.put(1, 0, DATA, batch(1, 2, 4, 8, 16))
        slot.put(1, 0, BARRIER, barrier(1))
        slot.rest()
        assert in_flight(slot.acks(1, 1)[1, 0]) == {0: [1, 2, 4, 8, 16]}


def test_unprocessed_restored_records_are_in_flight_again():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, DATA, batch(1))
        overtake(slot, 0, barrier(1))
        overtake(slot, 1, barrier(1))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
    with stages.Stepped(summing(restore=restore_from(ack), next_checkpoint=2)) as slot:
        overtake(slot, 0, barrier(2))
        overtake(slot, 1, barrier(2))
        slot.rest()
        again = slot.acks(2, 1)[1, 0]
    assert in_flight(again) == in_flight(ack) == {0: [1]}


@pytest.mark.parametrize("overtakes", [True, False])
def test_no_barrier_comes_before_records_of_another_parallelism(overtakes):
    """A checkpoint of theirs and of new ones would not know which come first if other channels bring the new ones."""
    with stages.Stepped(summing(sources=3)) as slot:
        slot.put(1, 2, DATA, batch(1, 2))
        for source in range(3):
            overtake(slot, source, barrier(1))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
    assert in_flight(ack) == {2: [1, 2]}
    SEEN.clear()
    restore = restore_from(ack, sources=3)
    with stages.Stepped(summing(restore=restore, next_checkpoint=2)) as slot:
        slot.task(1).reading._portion.size = 1
        slot.task(1).outputs.filled()  # it stops after one part
        for source in (0, 1):
            slot.put(1, source, DATA, batch(4))
            if overtakes:
                overtake(slot, source, barrier(2))
            else:
                slot.put(1, source, BARRIER, barrier(2))
        slot.rest()
        slot.task(1).reading.read()
        slot.rest()
        assert (SEEN, slot.acks(2)) == ([1], {})
        slot.task(1).outputs.emptied()
        slot.rest()
        again = slot.acks(2, 1)[1, 0]
    assert SEEN == [1, 3, 7, 11]
    # Barriers that overtake do so as soon as the moved records are processed.
    assert again.in_flight is None or in_flight(again) == {0: [4], 1: [4]}
    assert (again.in_flight is None) != overtakes


def test_barriers_wait_until_the_time_is_over(time):
    with stages.Stepped(summing(timeout_ms=100)) as slot:
        slot.put(1, 0, BARRIER, barrier(1))
        slot.put(1, 0, DATA, batch(100))
        slot.put(1, 1, DATA, batch(4))
        seconds = slot.rest()
        assert SEEN == [4]
        assert seconds <= 0.1
        time.advance(100)
        slot.rest()
        assert SEEN == [4, 104]
        slot.put(1, 1, DATA, batch(8))
        slot.put(1, 1, BARRIER, barrier(1))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
    assert in_flight(ack) == {1: [8]}


def test_a_barrier_in_a_queue_of_a_subtask_without_room_overtakes_when_the_time_is_over(time):
    with stages.Stepped(summing(timeout_ms=100)) as slot:
        slot.task(1).outputs.filled()
        for source in (0, 1):
            slot.put(1, source, DATA, batch(1 + source))
            slot.put(1, source, BARRIER, barrier(1))
        slot.rest()
        assert slot.acks(1) == {}
        time.advance(100)
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
        assert SEEN == []
    assert in_flight(ack) == {0: [1], 1: [2]}


def test_barriers_that_come_in_time_leave_nothing_in_flight():
    with stages.Stepped(summing(timeout_ms=100)) as slot:
        for source in (0, 1):
            slot.put(1, source, DATA, batch(1))
            slot.put(1, source, BARRIER, barrier(1))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
    assert ack.in_flight is None
    assert not ack.figures.unaligned


def test_a_savepoint_has_nothing_in_flight(time):
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, BARRIER, barrier(1, aligned=True))
        slot.put(1, 0, DATA, batch(100))
        time.advance(10_000)
        slot.rest()
        assert SEEN == []
        slot.put(1, 1, DATA, batch(1))
        slot.put(1, 1, BARRIER, barrier(1, aligned=True))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
        kinds = [content for kind, content in slot.sent(2) if kind == BARRIER]
    assert ack.in_flight is None
    assert SEEN == [1, 101]
    assert [message.aligned for message in kinds] == [True]


def test_state_of_an_aborted_unaligned_checkpoint_is_in_the_next_one():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.rest()
        slot.put(1, 0, BARRIER, barrier(1))
        slot.rest()
        slot.tell(CancelCheckpoint(1))
        slot.rest()
        slot.put(1, 1, BARRIER, barrier(1))
        for source in (0, 1):
            slot.put(1, source, BARRIER, barrier(2))
        slot.rest()
        ack = slot.acks(2, 1)[1, 0]
        assert [each.checkpoint for each in slot.of(DeclineCheckpoint)] == [1]
    assert ack.in_flight is None
    with stages.Stepped(summing(restore=restore_from(ack))) as slot:
        slot.put(1, 0, DATA, batch(10))
        slot.rest()
    assert SEEN[-1] == 11


class Unpicklable:
    def __reduce__(self):
        raise TypeError("not this one")

    def __radd__(self, other):
        return other


def test_a_record_in_flight_that_cannot_be_pickled_declines_the_checkpoint_and_the_job_goes_on():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, DATA, batch(Unpicklable()))
        overtake(slot, 0, barrier(1))
        overtake(slot, 1, barrier(1))
        slot.rest()
        slot.put(1, 0, DATA, batch(5))
        slot.put(1, 0, BARRIER, barrier(2))
        slot.put(1, 1, BARRIER, barrier(2))
        slot.rest()
        assert slot.acks(2, 1)
        (declined,) = slot.of(DeclineCheckpoint)
    assert "cannot be pickled" in declined.reason
    assert SEEN[-1] == 5


def test_barrier_is_forwarded_ahead_of_queued_records():
    with stages.Stepped(summing(sources=1)) as slot:
        for value in range(3):
            slot.put(1, 0, DATA, batch(value))
        slot.rest()
        slot.put(1, 0, BARRIER, barrier(1))
        slot.rest()
        assert slot.acks(1, 1)
        assert slot.sent(2)[0][0] == BARRIER


def test_records_that_wait_for_their_buffer_to_be_full_are_overtaken_too():
    network = NetworkSettings(buffer_timeout_ms=60_000)
    with stages.Stepped(summing(sources=1, network=network)) as slot:
        slot.loop._send_at = float("inf")
        slot.put(1, 0, DATA, batch(1))
        slot.turn()
        assert slot.task(1).subtask.edges.waiting
        overtake(slot, 0, barrier(1))
        slot.turn()
        after = slot.network.open_input(ChannelId(2, 0, 0, 0), 1, Inputs())
        assert after.take().kind == BARRIER
        assert [item.content.values for item in after.overtaken()] == [[1]]


def test_a_record_may_be_in_flight_for_two_checkpoints():
    with stages.Stepped(summing()) as slot:
        overtake(slot, 0, barrier(1))
        overtake(slot, 0, barrier(2))
        slot.put(1, 1, DATA, batch(4))
        slot.rest()
        assert SEEN == [4]
        slot.put(1, 1, BARRIER, barrier(1))
        slot.put(1, 1, DATA, batch(8))
        slot.rest()
        assert SEEN == [4, 12]
        slot.put(1, 1, BARRIER, barrier(2))
        slot.rest()
        assert in_flight(slot.acks(1, 1)[1, 0]) == {1: [4]}
        assert in_flight(slot.acks(2, 1)[1, 0]) == {1: [4, 8]}


@pytest.fixture
def stuck():
    """Lets the barriers of a subtask be stuck in its output channels; returns those that were expedited."""

    def hold(slot):
        expedited = []
        subtask = slot.task(1).subtask
        subtask.edges.holds_barrier = lambda message: message not in expedited
        subtask.edges.expedite_barrier = lambda message, overtaken: expedited.append(message)
        return expedited

    return hold


def test_a_barrier_that_is_stuck_in_an_output_channel_overtakes_when_the_time_is_over(stuck, time):
    with stages.Stepped(summing(sources=1, timeout_ms=100)) as slot:
        expedited = stuck(slot)
        slot.put(1, 0, BARRIER, barrier(1))
        slot.rest()
        time.advance(99)
        slot.rest()
        assert (expedited, slot.acks(1)) == ([], {})
        time.advance(1)
        slot.rest()
        assert [message.checkpoint for message in expedited] == [1]
        assert slot.acks(1, 1)[1, 0].figures.unaligned


def test_checkpoint_aborted_while_its_barrier_is_queued_is_declined(stuck):
    with stages.Stepped(summing(sources=1, timeout_ms=100)) as slot:
        stuck(slot)
        slot.put(1, 0, BARRIER, barrier(1))
        slot.rest()
        slot.tell(CancelCheckpoint(1))
        slot.put(1, 0, BARRIER, barrier(2, aligned=True))  # it is written after the first one
        slot.rest()
        assert slot.acks(2, 1)
        assert [each.checkpoint for each in slot.of(DeclineCheckpoint)] == [1]


def test_the_barrier_of_a_savepoint_does_not_overtake_in_an_output_channel(stuck, time):
    with stages.Stepped(summing(sources=1, timeout_ms=100)) as slot:
        expedited = stuck(slot)
        slot.put(1, 0, BARRIER, barrier(1, aligned=True))
        slot.rest()
        time.advance(1000)
        slot.rest()
        assert slot.acks(1, 1)[1, 0].in_flight is None
        assert expedited == []


@pytest.mark.parametrize(
    ("age_ms", "aligned", "overtakes"),
    [
        pytest.param(100, False, True, id="the time is over"),
        pytest.param(99, False, False, id="there is time"),
        pytest.param(100, True, False, id="a savepoint"),
    ],
)
def test_the_barrier_of_a_source_overtakes_when_the_trigger_is_old(age_ms, aligned, overtakes):
    barriers = BarrierSettings(unaligned=True, aligned_timeout_ms=100)
    with stages.Stepped(reading(splits=[[(1, 10)]], barriers=barriers)) as slot:
        slot.rest()
        slot.tell(TriggerBarrier(1, 1_000_000 - age_ms, aligned=aligned))
        slot.rest()
        kinds = [kind for kind, _ in slot.sent(1)]
        assert kinds.count(BARRIER) == 1
        assert (kinds.index(BARRIER) < kinds.index(DATA)) == overtakes
        assert slot.acks(1, 1)[0, 0].figures.unaligned == overtakes
