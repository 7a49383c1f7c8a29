"""A subtask in the loop of its slot, turn by turn: barriers, ends, room, and when records are sent."""

from __future__ import annotations

import pickle
import threading
import time

import pytest

from penstock.common import Types, WatermarkStrategy, clock
from penstock.common.pickling import NotPicklableError
from penstock.connectors.sink import Sink, SinkWriter
from penstock.connectors.source import SourceSplit, SplitProgress
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import RecordError
from penstock.graph.operator_specs import (
    FlatMapSpec,
    KeyedProcessSpec,
    MapSpec,
    SinkSpec,
    SourceSpec,
)
from penstock.graph.stage import BarrierSettings, NetworkSettings
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import (
    BARRIER,
    DATA,
    END,
    LATENCY,
    WATERMARK,
    BarrierFigures,
    BarrierMessage,
    LatencyMarker,
)
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.records import MAX_WATERMARK, RowBatch
from penstock.runtime.task.snapshots import Snapshot
from penstock.runtime.task.stage_messages import (
    Aborted,
    Acknowledged,
    Assign,
    Completed,
    Declined,
    SlotReport,
    SourceFinished,
    Trigger,
)
from penstock.runtime.task.uploads import Upload
from tests.builders import pipes, stages

SEEN = []


def note(value):
    SEEN.append(value)
    return value


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


class Sums(KeyedProcessFunction):
    """Emits the sum so far."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        yield total


def summing(sources=2, **options):
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
    return stages.stage(target, after, elsewhere=elsewhere, **options)


def batch(*values):
    return RowBatch(list(values), None, ["k"] * len(values))


def barrier(checkpoint, *, finished=False, **options):
    return BarrierMessage(checkpoint, "up", finished, **options)


def state_of(ack):
    """The sum that a snapshot holds."""
    (chain,) = ack.keyed.values()
    tables = [pickle.loads(part) for part in chain]
    return repr(tables)


def test_records_from_after_a_barrier_wait_for_the_barriers_of_all_channels():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.put(1, 0, BARRIER, barrier(1))
        slot.put(1, 0, DATA, batch(100))
        slot.put(1, 1, DATA, batch(2))
        slot.rest()
        assert SEEN == [1, 3]
        assert slot.acks(1) == {}
        slot.put(1, 1, DATA, batch(4))
        slot.put(1, 1, BARRIER, barrier(1))
        slot.rest()
        ack = slot.acks(1, 1)[1, 0]
        assert SEEN == [1, 3, 7, 107]
        assert "7" in state_of(ack)
        assert "107" not in state_of(ack)
        assert ack.upstream == {("v0", 0): "up", ("v0", 1): "up"}
        kinds = [kind for kind, _ in slot.sent(2)]
        assert kinds.index(BARRIER) == 2  # 1 and 3 at rest, then 7, and the barrier before 107
        assert kinds[-1] == DATA


def test_at_least_once_nothing_waits():
    deployment = summing(barriers=BarrierSettings(exactly_once=False))
    with stages.Stepped(deployment) as slot:
        slot.put(1, 0, BARRIER, barrier(1))
        slot.put(1, 0, DATA, batch(100))
        slot.rest()
        assert SEEN == [100]
        slot.put(1, 1, BARRIER, barrier(1))
        slot.rest()
        assert "100" in state_of(slot.acks(1, 1)[1, 0])


def test_a_checkpoint_that_is_given_up_lets_its_channels_go():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, BARRIER, barrier(1))
        slot.put(1, 0, DATA, batch(5))
        slot.rest()
        assert SEEN == []
        slot.tell(Aborted(1))
        slot.rest()
        assert SEEN == [5]
        slot.put(1, 1, BARRIER, barrier(1))
        slot.put(1, 1, DATA, batch(6))
        slot.rest()
        assert SEEN == [5, 11]
        assert BARRIER not in [kind for kind, _ in slot.sent(2)]


def test_a_later_barrier_declines_a_checkpoint_that_lacks_barriers():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, BARRIER, barrier(1))
        slot.put(1, 0, DATA, batch(5))
        slot.put(1, 1, BARRIER, barrier(2))
        slot.rest()
        (declined,) = slot.of(Declined)
        assert (declined.checkpoint, declined.task) == (1, TaskId("v1", 0))
        assert SEEN == [5]
        slot.put(1, 0, BARRIER, barrier(2))
        slot.rest()
        assert set(slot.acks(2, 1)) == {(1, 0)}
        assert slot.acks(1) == {}


def test_figures_tell_how_a_barrier_was_passed():
    at = [1000.0]
    before = clock.set_reader(lambda: at[0])
    try:
        with stages.Stepped(summing()) as slot:
            slot.put(1, 0, BARRIER, barrier(1, triggered_ms=999_900))
            slot.rest()
            at[0] = 1000.25
            slot.put(1, 1, BARRIER, barrier(1, triggered_ms=999_900))
            slot.rest()
            figures = slot.acks(1, 1)[1, 0].figures
            (_, passed), *_ = slot.sent(2)
    finally:
        clock.set_reader(before)
    assert figures.start_delay_ms == pytest.approx(100)
    assert figures.alignment_ms == pytest.approx(250)
    assert figures.sync_ms > 0
    assert not figures.unaligned
    assert passed.triggered_ms == 999_900  # the next one knows, too


# Ends


class Last(StreamOperator):
    """Says when it is told to finish; waits for something first, as long as it is told to."""

    def process(self, records, input_index=0):
        SEEN.extend(records.values)
        self.output.emit(records)

    def process_watermark(self, watermark):
        SEEN.append(("time", watermark))
        super().process_watermark(watermark)

    def finish(self):
        SEEN.append("finish")
        self.output.emit(RowBatch(["last"]))


def ending(slot, vertex=1):
    """Put an operator into the place of the head of a chain."""
    subtask = slot.task(vertex).subtask
    head = subtask.operators[0]
    last = Last(head.spec)
    last.open(head.context)
    subtask.operators[0] = last
    return last


def test_a_subtask_finishes_when_its_last_channel_ends_and_passes_barriers_on():
    with stages.Stepped(summing()) as slot:
        ending(slot)
        slot.put(1, 0, WATERMARK, MAX_WATERMARK)
        slot.put(1, 0, END, None)
        slot.put(1, 0, BARRIER, barrier(1, finished=True))
        slot.put(1, 1, DATA, batch(1))
        slot.put(1, 1, BARRIER, barrier(1))
        slot.rest()
        assert "finish" not in SEEN
        assert not slot.acks(1, 1)[1, 0].finished
        assert slot.sent(2)[-1][1] == BarrierMessage(1, slot.acks(1)[1, 0].attempt, finished=False)
        slot.put(1, 1, WATERMARK, MAX_WATERMARK)
        slot.put(1, 1, END, None)
        slot.rest()
        assert SEEN[-3:] == [("time", MAX_WATERMARK), "finish", "last"]
        sent = slot.sent(2)
        assert [kind for kind, _ in sent] == [WATERMARK, DATA, END]
        assert sent[1][1].values == ["last"]
        for source in (0, 1):
            slot.put(1, source, BARRIER, barrier(2, finished=True))
        slot.rest()
        assert slot.acks(2, 1)[1, 0].finished
        ((kind, message),) = slot.sent(2)
        assert (kind, message.finished) == (BARRIER, True)


def test_nothing_finishes_before_what_is_under_way_has_come():
    with stages.Stepped(summing(1)) as slot:
        last = ending(slot)
        last.under_way = True
        slot.put(1, 0, END, None)
        slot.put(1, 0, BARRIER, barrier(1, finished=True))
        slot.rest()
        assert SEEN == []
        assert slot.acks(1) == {}
        last.under_way = False
        slot.task(1).wake(last)
        slot.rest()
        assert SEEN == ["finish", "last"]
        assert slot.acks(1, 1)[1, 0].finished


def test_what_waits_for_the_clock_before_it_finishes_has_its_time():
    """Asynchronous calls that are under way when the input ends still time out."""
    with stages.Stepped(summing(1)) as slot:
        last = ending(slot)
        last.under_way = True
        due = clock.now_ms() + 40
        last.next_wakeup = lambda: due if last.under_way else None

        def advance(now):
            if now >= due:
                last.under_way = False

        last.advance_processing_time = advance
        slot.put(1, 0, END, None)
        assert 0 < slot.rest() <= 0.041
        time.sleep(0.045)
        slot.rest()
        assert SEEN == ["finish", "last"]


def reading(*specs, bounded=False, splits=(), edges=True, **options):
    """A source that sends to a subtask elsewhere."""
    last = len(specs)
    source = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(bounded=bounded), WatermarkStrategy.for_monotonous_timestamps()),
        *specs,
        level=0,
        edges=[pipes.edge(1, "FORWARD", operator=last)] if edges else [],
        partitionings=[None] if edges else [],
    )
    target = pipes.vertex(1, MapSpec(note), gates=[pipes.gate(0)])
    return stages.stage(
        source,
        target,
        elsewhere={(1, 0): 1},
        assignments={(0, 0): pipes.reads(*splits)},
        **options,
    )


def test_a_source_that_has_read_all_says_so_and_passes_barriers_as_its_end():
    with stages.Stepped(reading(bounded=True, splits=[[(1, 10), (2, 20)]])) as slot:
        slot.rest()
        assert slot.of(SourceFinished) == [SourceFinished(TaskId("v0", 0))]
        sent = slot.sent(1)
        assert [kind for kind, _ in sent][-2:] == [WATERMARK, END]
        assert sent[-2][1] == MAX_WATERMARK
        slot.tell(Trigger(1, 0))
        slot.rest()
        assert slot.acks(1, 1)[0, 0].finished
        assert slot.sent(1) == [(BARRIER, BarrierMessage(1, slot.acks(1)[0, 0].attempt, True))]


def test_a_barrier_between_the_last_record_and_the_end_is_not_the_last_one():
    with stages.Stepped(reading(bounded=True, splits=[[(1, 10)]])) as slot:
        source = slot.task(0).subtask.source
        while not source.finished:
            source.poll()
        slot.tell(Trigger(1, 0))
        slot.rest()
        assert not slot.acks(1, 1)[0, 0].finished
        kinds = [kind for kind, _ in slot.sent(1)]
        assert kinds.index(BARRIER) < kinds.index(END)
        slot.tell(Trigger(2, 0))
        slot.rest()
        assert slot.acks(2, 1)[0, 0].finished


def test_a_drained_source_comes_to_its_end_within_the_checkpoint():
    with stages.Stepped(reading(splits=[[(1, 10)]])) as slot:
        slot.rest()
        slot.sent(1)
        slot.tell(Trigger(1, 0, drain=True))
        slot.rest()
        assert slot.acks(1, 1)[0, 0].finished
        assert [kind for kind, _ in slot.sent(1)] == [WATERMARK, END, BARRIER]


def test_a_source_that_is_stopped_reads_nothing_after_the_checkpoint():
    with stages.Stepped(reading(splits=[[(1, 10)]])) as slot:
        slot.rest()
        slot.sent(1)
        slot.tell(Trigger(1, 0, stop=True))
        slot.rest()
        assert not slot.acks(1, 1)[0, 0].finished
        assert slot.sent(1)[-1][0] == BARRIER
        polled = []
        slot.task(0).subtask.source.poll = lambda: polled.append(1)
        slot.rest()
        assert polled == []


# Room


def test_what_arrives_is_read_however_much_of_it_there_is():
    """A turn takes so many buffers; the rest of a channel is taken in the next ones."""
    with stages.Stepped(summing(2)) as slot:
        for n in range(100):
            slot.put(1, n % 2, DATA, batch(1))
        slot.rest()
        assert len(SEEN) == 100


def slow(value):
    time.sleep(0.002)
    SEEN.append(value)
    return value


def slowly(sources=1, **options):
    target = pipes.vertex(1, MapSpec(slow), gates=[pipes.gate(0, "REBALANCE", sources=sources)])
    elsewhere = {(0, index): 1 + index for index in range(sources)}
    return stages.stage(target, elsewhere=elsewhere, **options)


def test_a_slow_function_gets_few_records_at_once_so_that_turns_are_short():
    with stages.Stepped(slowly()) as slot:
        slot.put(1, 0, DATA, RowBatch(list(range(50))))
        slot.turn()  # it learns
        slot.put(1, 0, DATA, RowBatch(list(range(50, 100)), list(range(50, 100))))
        slot.put(1, 0, BARRIER, barrier(1))
        slot.turn()
        assert 50 < len(SEEN) < 70
        assert slot.acks(1) == {}
        slot.rest()
        assert list(range(100)) == SEEN
        assert set(slot.acks(1, 1)) == {(1, 0)}


def test_a_slow_chain_after_a_source_lets_it_read_few_records_at_once():
    records = [(n, n) for n in range(100)]
    with stages.Stepped(reading(MapSpec(slow), splits=[records[:50]])) as slot:
        source = slot.task(0).subtask.source
        slot.turn()
        assert source.records == 50
        more = SplitProgress(SourceSplit("more", records[50:], 0), 0)
        slot.tell(Assign(TaskId("v0", 0), (more,)))
        slot.turn()
        # This reader gives all that it has, whatever it is asked for; others do not.
        assert source._flow.limits().batch_size < 20
        slot.rest()
        assert list(range(100)) == SEEN


def test_channels_are_read_by_turns():
    with stages.Stepped(summing(2)) as slot:
        for source in (0, 1):
            for _ in range(3):
                slot.put(1, source, DATA, batch(1000 if source else 1))
        slot.rest()
        assert SEEN == [1, 1001, 1002, 2002, 2003, 3003]


def test_a_subtask_reads_only_while_there_is_room_for_what_it_emits():
    with stages.Stepped(summing(1)) as slot:
        task = slot.task(1)
        for _ in range(100):
            slot.put(1, 0, DATA, RowBatch([1] * 1024, None, ["k"] * 1024))
        slot.turn(50)
        # Eight buffers fill the channel; what one call emits may go beyond that.
        assert len(SEEN) == 8 * 1024
        assert not task.outputs.has_room
        assert len(slot.sent(2)) == 8
        slot.turn(50)
        assert len(SEEN) == 16 * 1024


def test_a_source_is_not_asked_while_there_is_no_room():
    deployment = reading(
        FlatMapSpec(lambda n: [n] * 1024), splits=[[(n, n)] for n in range(30)], bounded=True
    )
    with stages.Stepped(deployment) as slot:
        slot.turn(100)
        assert slot.task(0).subtask.source.records <= 9
        while not slot.task(0).ended:
            slot.sent(1)
            slot.turn(10)
        assert slot.task(0).subtask.source.records == 30


def test_time_is_idle_busy_or_back_pressured_and_adds_up_to_a_second():
    with stages.Stepped(summing(1)) as slot:
        slot.rest()
        time.sleep(0.02)
        for _ in range(20):
            slot.put(1, 0, DATA, RowBatch([1] * 1024, None, ["k"] * 1024))
        slot.turn(20)
        time.sleep(0.02)
        slot.loop._report_at = 0.0
        slot.turn()
        (report,) = slot.of(SlotReport)
        metrics = report.metrics[TaskId("v1", 0)]
        shares = [
            metrics[name]
            for name in (
                "idleTimeMsPerSecond",
                "busyTimeMsPerSecond",
                "backPressuredTimeMsPerSecond",
            )
        ]
        assert sum(shares) == 1000
        assert all(share > 0 for share in shares), shares
        assert metrics["numRecordsIn"] == 8 * 1024
        assert metrics["numRecordsOut"] == 8 * 1024
        assert metrics["buffers.inputQueueLength"] == 12
        assert metrics["numRecordsInPerSecond"] > 0


def test_counts_go_on_over_checkpoints_also_over_those_that_are_given_up():
    with stages.Stepped(summing(1)) as slot:
        for number in (1, 2):
            slot.put(1, 0, DATA, batch(1, 2))
            slot.put(1, 0, BARRIER, barrier(number))
            slot.rest()
            slot.tell(Aborted(number))
        slot.put(1, 0, DATA, batch(3))
        slot.rest()
        assert slot.task(1).subtask.metrics.io()["numRecordsIn"] == 5
        assert [
            ack.metrics["v1.0"]["numRecordsIn"][1]
            for number in (1, 2)
            for ack in slot.acks(number, 1).values()
        ] == [2, 4]


# When records are sent


def sent_values(slot):
    return [value for kind, content in slot.sent(1) if kind == DATA for value in content.values]


@pytest.mark.parametrize(
    ("timeout", "at_once", "at_rest"),
    [
        pytest.param(0, True, True, id="0: after every batch"),
        pytest.param(100, False, True, id="100: when there is nothing else to do"),
        pytest.param(None, False, False, id="-1: only full buffers"),
    ],
)
def test_the_buffer_timeout_has_three_meanings(timeout, at_once, at_rest):
    network = NetworkSettings(buffer_timeout_ms=timeout)
    much = [(n, n) for n in range(600)]
    with stages.Stepped(reading(splits=[much], network=network)) as slot:
        slot.turn()
        sent = sent_values(slot)
        assert (sent != []) == at_once
        slot.rest()
        sent += sent_values(slot)
        assert (slot.task(0).subtask.waiting, sent != []) == (not at_rest, at_rest)


def test_a_slot_that_keeps_up_sends_every_two_milliseconds_although_it_always_has_work():
    with stages.Stepped(summing(1, network=NetworkSettings(buffer_timeout_ms=60_000))) as slot:
        slot.loop._send_at = time.monotonic() + 1000
        slot.put(1, 0, DATA, batch(1))
        assert slot.turn() == 0.0
        assert slot.sent(2) == []
        slot.loop._send_at = 0.0
        for _ in range(17):
            slot.put(1, 0, DATA, batch(1))
        assert slot.turn() == 0.0
        assert slot.sent(2) == []  # one more is waiting: it does not keep up
        assert slot.turn() == 0.0
        ((_, records),) = slot.sent(2)
        assert len(records) == 18
        assert slot.loop._send_at == pytest.approx(time.monotonic() + 0.002, abs=0.1)


def test_records_of_a_busy_slot_wait_no_longer_than_the_timeout():
    with stages.Stepped(summing(1, network=NetworkSettings(buffer_timeout_ms=60_000))) as slot:
        slot.loop._send_at = time.monotonic() + 1000
        slot.put(1, 0, DATA, batch(1))
        assert slot.turn() == 0.0
        first = time.monotonic()
        slot.put(1, 0, DATA, batch(2))
        assert slot.turn() == 0.0
        task = slot.task(1)
        task.flush_due(first + 59.0, 60.0)
        assert slot.sent(2) == []
        task.flush_due(first + 60.0, 60.0)
        ((_, records),) = slot.sent(2)
        assert records.values == [1, 3]


# Waiting


class Alarm(KeyedProcessFunction):
    """Sets a timer 50 ms after each record, by the wall clock."""

    def process_element(self, value, ctx):
        now = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now + 50)

    def on_timer(self, timestamp, ctx):
        SEEN.append(timestamp)
        yield timestamp


def test_a_slot_waits_exactly_until_the_next_timer():
    at = [1000.0]
    before = clock.set_reader(lambda: at[0])
    vertex = pipes.vertex(
        1, KeyedProcessSpec(Alarm()), gates=[pipes.gate(0, "HASH", sources=1)], keyed=[0]
    )
    try:
        with stages.Stepped(stages.stage(vertex, elsewhere={(0, 0): 1})) as slot:
            assert slot.rest() > 0.5
            slot.put(1, 0, DATA, batch(1))
            assert slot.rest() == pytest.approx(0.05, abs=0.002)
            at[0] += 0.049
            assert slot.rest() == pytest.approx(0.001, abs=0.0005)
            assert SEEN == []
            at[0] += 0.001
            assert slot.rest() > 0.3
            assert SEEN == [1_000_050]
    finally:
        clock.set_reader(before)


def test_an_operator_is_woken_by_another_thread():
    with stages.Stepped(summing(1)) as slot:
        last = ending(slot)
        last.on_wakeup = lambda: SEEN.append("woken")
        thread = threading.Thread(target=slot.task(1).wake, args=(last,))
        thread.start()
        thread.join()
        slot.rest()
        assert SEEN == ["woken"]


def test_operators_hear_that_the_slot_is_quiet_once():
    with stages.Stepped(summing(1)) as slot:
        last = ending(slot)
        last.on_quiet = lambda: SEEN.append("quiet")
        slot.put(1, 0, DATA, batch(1))
        slot.put(1, 0, DATA, batch(2))
        slot.rest()
        slot.rest()
        assert SEEN == [1, 1, 2, 2, "quiet"]


# Latency


def test_latency_markers_go_along_with_records_and_are_noted_everywhere():
    deployment = reading(splits=[[(1, 10)]], network=NetworkSettings(latency_interval_ms=5))
    with stages.Stepped(deployment) as slot:
        slot.loop._mark_at = 0.0
        slot.turn()
        sent = slot.sent(1)
        assert [kind for kind, _ in sent if kind in {DATA, LATENCY}] == [DATA, LATENCY]
        marker = sent[-1][1]
        assert marker.source == TaskId("v0", 0)
        assert abs(marker.emitted_ms - time.time() * 1000) < 5000


def test_a_subtask_notes_the_latency_of_markers_and_passes_them_on():
    with stages.Stepped(summing(1)) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.put(1, 0, LATENCY, LatencyMarker(TaskId("v0", 0), time.time() * 1000 - 40))
        slot.rest()
        slot.loop._report_at = 0.0
        slot.turn()
        histogram = slot.of(SlotReport)[-1].metrics[TaskId("v1", 0)]["latency"]["v0"]
        assert histogram.count == 1
        assert histogram.quantile(0.5) == pytest.approx(40, abs=30)
        assert [kind for kind, _ in slot.sent(2)] == [DATA, LATENCY]


# What is written, and what is committed


class FailingStateIO(pipes.MemoryStateIO):
    def prepare(self, *args):
        planned, _ = super().prepare(*args)
        return planned, self._write

    def _write(self, after, follows):
        raise OSError("no space left")


def test_a_snapshot_that_cannot_be_written_is_declined_and_the_subtask_goes_on():
    with stages.Stepped(summing(1, state_io=FailingStateIO())) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.put(1, 0, BARRIER, barrier(1))
        slot.put(1, 0, DATA, batch(2))
        slot.rest()
        end = time.monotonic() + 10
        while not slot.of(Declined):
            assert time.monotonic() < end
            time.sleep(0.001)
        (declined,) = slot.of(Declined)
        assert (declined.checkpoint, declined.reason) == (1, "OSError: no space left")
        assert SEEN == [1, 3]


class NotPicklableStateIO(pipes.MemoryStateIO):
    def prepare(self, *args):
        raise NotPicklableError("a lock")


def test_state_that_cannot_be_pickled_fails_the_slot():
    with stages.Stepped(summing(1, state_io=NotPicklableStateIO())) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.put(1, 0, BARRIER, barrier(1))
        with pytest.raises(RecordError, match="cannot be kept in a checkpoint"):
            slot.turn()


def test_what_fails_the_slot_when_it_is_written_is_raised_by_the_loop():
    with stages.Stepped(summing(1)) as slot:
        task = slot.task(1)

        def write():
            raise RecordError("the state of an operator cannot be kept")

        slot.loop.upload(Upload(1, task.subtask, Snapshot(None, write), BarrierFigures()))
        end = time.monotonic() + 10

        def turn_until_it_fails():
            while time.monotonic() < end:
                slot.turn()

        with pytest.raises(RecordError, match="cannot be kept"):
            turn_until_it_fails()
        assert slot.loop.current is task.subtask
        assert not slot.of(Acknowledged)


class Staged(Sink):
    """Its committables are what was written in an epoch, under the name of the attempt."""

    def create_writer(self, context, restored=None):
        return _StagedWriter()


class _StagedWriter(SinkWriter):
    def begin(self, epoch):
        self.epoch, self.values = epoch, []

    def write(self, values, timestamps, watermark):
        self.values += values

    def prepare_commit(self):
        return [(self.epoch.epoch, self.epoch.attempt, tuple(self.values))]


def test_committables_are_handed_over_until_they_are_known_to_be_committed():
    vertex = pipes.vertex(1, SinkSpec(Staged()), gates=[pipes.gate(0)])
    with stages.Stepped(stages.stage(vertex, elsewhere={(0, 0): 1}, next_checkpoint=7)) as slot:
        for number, value in ((7, "a"), (8, "b")):
            slot.put(1, 0, DATA, RowBatch([value]))
            slot.put(1, 0, BARRIER, barrier(number))
        slot.rest()
        first, second = slot.acks(7, 1)[1, 0], slot.acks(8, 1)[1, 0]
        ((epoch, attempt, values),) = first.committables["v1.0"]
        assert (epoch, values) == (7, ("a",))
        ((_, other, _),) = second.committables["v1.0"]
        assert other != attempt
        assert second.carried == {7: first.committables}
        slot.tell(Completed(8))
        slot.turn()
        slot.put(1, 0, BARRIER, barrier(9))
        slot.rest()
        assert slot.acks(9, 1)[1, 0].carried == {}


def test_splits_that_come_after_a_trigger_are_not_part_of_its_checkpoint():
    spec = SourceSpec(pipes.Numbers(bounded=False), WatermarkStrategy.no_watermarks())
    source = pipes.vertex(0, spec, level=0)
    with stages.Stepped(stages.stage(source, assignments={(0, 0): pipes.reads()})) as slot:
        later = SplitProgress(SourceSplit("later", [(1, 1)], 0), 0)
        slot.tell(Trigger(1, 0), Assign(TaskId("v0", 0), (later,)), Trigger(2, 0))
        slot.turn(3)
        splits = [slot.acks(number, 1)[0, 0].progress for number in (1, 2)]
    assert [[each.split.split_id for each in found] for found in splits] == [[], ["later"]]
