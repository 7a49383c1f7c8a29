"""A subtask in the loop of its slot, turn by turn: capacity, when records are sent, and how it waits."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from penstock.connectors.base.source import SourceSplit, SplitProgress
from penstock.datastream import KeyedProcessFunction
from penstock.graph.operator_specs import FlatMapSpec, KeyedProcessSpec, MapSpec
from penstock.graph.stage import NetworkSettings
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import BARRIER, DATA, LATENCY, LatencyMarker
from penstock.runtime.records import RowBatch
from penstock.runtime.task.pipelined.slot_messages import AssignSplits, CancelCheckpoint, SlotReport
from tests.builders import pipes, stages
from tests.builders.pipelined_tasks import SEEN, barrier, batch, ending, reading, summing


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


def test_all_arriving_input_is_read():
    """A turn takes so many buffers; the rest of a channel is taken in the next ones."""
    with stages.Stepped(summing(2)) as slot:
        for n in range(100):
            slot.put(1, n % 2, DATA, batch(1))
        slot.rest()
        assert len(SEEN) == 100


class SlowWork:
    """Where a function of a job finds the stopwatch of the test."""

    stopwatch = None


@pytest.fixture
def slow(stopwatch, monkeypatch):
    """A function that takes two milliseconds."""
    monkeypatch.setattr(SlowWork, "stopwatch", stopwatch)
    return work_slowly


def work_slowly(value):
    SlowWork.stopwatch.now_s += 0.002
    SEEN.append(value)
    return value


def test_a_slow_function_gets_few_records_at_once_so_that_turns_are_short(slow):
    target = pipes.vertex(1, MapSpec(slow), gates=[pipes.gate(0, "REBALANCE", sources=1)])
    with stages.Stepped(stages.stage(target, elsewhere={(0, 0): 1})) as slot:
        slot.put(1, 0, DATA, RowBatch(list(range(100)), list(range(100))))
        slot.put(1, 0, BARRIER, barrier(1))
        taken = []
        for _ in range(4):
            slot.turn()
            taken.append(len(SEEN) - sum(taken))
        # It takes few at first. After two portions that were too long it knows: ten milliseconds of work.
        assert taken == [16, 16, 5, 5]
        assert slot.acks(1) == {}
        slot.rest()
        assert list(range(100)) == SEEN
        assert set(slot.acks(1, 1)) == {(1, 0)}


def test_a_slow_chain_after_a_source_lets_it_read_few_records_at_once(slow):
    records = [(n, n) for n in range(100)]
    with stages.Stepped(reading(MapSpec(slow), splits=[records[:50]])) as slot:
        source = slot.task(0).subtask.source
        slot.turn()
        assert source.reader.records == 50
        more = SplitProgress(SourceSplit("more", records[50:], 0), 0)
        slot.tell(AssignSplits(TaskId("v0", 0), (more,)))
        slot.turn()
        # This reader gives all that it has, whatever it is asked for; others do not.
        assert source.pipelined._scheduler.limits().batch_size == 4
        slot.rest()
        assert list(range(100)) == SEEN


def test_source_batch_size_follows_the_receivers(monkeypatch):
    asked = []
    read = pipes.Numbers.create_reader(None).read

    def noting(reader, split, position, limits):
        asked.append(limits.batch_size)
        return read(split, position, limits)

    monkeypatch.setattr(pipes.Numbers().create_reader().__class__, "read", noting)
    with stages.Stepped(reading(splits=[[(1, 1)]])) as slot:
        task = slot.task(0)
        slot.turn()
        asked.clear()
        for window, wanted in ((32, 8), (4, 1), (12, 1), (16, 4), (1000, 16)):
            for channel in task.subtask.edges.channels():
                channel.window = window  # a credit has come
            more = SplitProgress(SourceSplit(f"{window}", [(2, 2)], 0), 0)
            slot.tell(AssignSplits(TaskId("v0", 0), (more,)))
            slot.turn()
            # A quarter of the window, a power of two; upwards in large steps, and 16 until its chain is known to be fast.
            assert (window, set(asked)) == (window, {wanted})
            asked.clear()


def test_channels_are_read_by_turns():
    with stages.Stepped(summing(2)) as slot:
        for source in (0, 1):
            for _ in range(3):
                slot.put(1, source, DATA, batch(1000 if source else 1))
        slot.rest()
        assert SEEN == [1, 1001, 1002, 2002, 2003, 3003]


def test_subtask_reads_only_while_its_outputs_have_capacity(stopwatch):
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


def test_backpressured_source_is_not_polled(stopwatch):
    deployment = reading(
        FlatMapSpec(lambda n: [n] * 1024), splits=[[(n, n)] for n in range(30)], bounded=True
    )
    with stages.Stepped(deployment) as slot:
        slot.turn(100)
        assert slot.task(0).subtask.source.reader.records <= 9
        while not slot.task(0).end.ended:
            slot.sent(1)
            slot.turn(10)
        assert slot.task(0).subtask.source.reader.records == 30


def test_time_is_idle_busy_or_back_pressured_and_adds_up_to_a_second(stopwatch):
    stopwatch.reading_s = 0.0001
    with stages.Stepped(summing(1)) as slot:
        slot.rest()
        stopwatch.now_s += 0.02
        for _ in range(20):
            slot.put(1, 0, DATA, RowBatch([1] * 1024, None, ["k"] * 1024))
        slot.turn(20)
        stopwatch.now_s += 0.02
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


def test_counters_continue_across_completed_and_aborted_checkpoints():
    with stages.Stepped(summing(1)) as slot:
        for number in (1, 2):
            slot.put(1, 0, DATA, batch(1, 2))
            slot.put(1, 0, BARRIER, barrier(number))
            slot.rest()
            slot.tell(CancelCheckpoint(number))
        slot.put(1, 0, DATA, batch(3))
        slot.rest()
        assert slot.task(1).subtask.metrics.io()["numRecordsIn"] == 5
        assert [
            ack.metrics["v1.0"]["numRecordsIn"][1]
            for number in (1, 2)
            for ack in slot.acks(number, 1).values()
        ] == [2, 4]


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
        assert (slot.task(0).subtask.edges.waiting, sent != []) == (not at_rest, at_rest)


def test_a_slot_that_keeps_up_sends_every_two_milliseconds_although_it_always_has_work(stopwatch):
    with stages.Stepped(summing(1, network=NetworkSettings(buffer_timeout_ms=60_000))) as slot:
        slot.loop._send_at = float("inf")
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
        for milliseconds, sent in ((1.9, 0), (0.1, 1)):
            stopwatch.now_s += milliseconds / 1000
            slot.put(1, 0, DATA, batch(1))
            assert slot.turn() == 0.0
            assert len(slot.sent(2)) == sent


def test_records_of_a_busy_slot_wait_no_longer_than_the_timeout(stopwatch):
    with stages.Stepped(summing(1, network=NetworkSettings(buffer_timeout_ms=60_000))) as slot:
        slot.loop._send_at = float("inf")
        sent = []
        for seconds in (0.0, 59.9, 0.1):
            stopwatch.now_s += seconds
            slot.put(1, 0, DATA, batch(1))
            assert slot.turn() == 0.0
            sent.append([records.values for _, records in slot.sent(2)])
        assert sent == [[], [], [[1, 2, 3]]]


def test_the_buffer_timeout_of_an_operator_replaces_that_of_its_job(stopwatch):
    stage = summing(1, network=NetworkSettings(buffer_timeout_ms=60_000))
    vertices = tuple(replace(vertex, buffer_timeout_ms=100) for vertex in stage.vertices)
    with stages.Stepped(replace(stage, vertices=vertices)) as slot:
        slot.loop._send_at = float("inf")
        sent = []
        for seconds in (0.0, 0.09, 0.01):
            stopwatch.now_s += seconds
            slot.put(1, 0, DATA, batch(1))
            slot.turn()
            sent.append(len(slot.sent(2)))
        assert sent == [0, 0, 1]


class Alarm(KeyedProcessFunction):
    """Sets a timer 50 ms after each record, by the wall clock."""

    def process_element(self, value, ctx):
        now = ctx.timer_service().current_processing_time()
        ctx.timer_service().register_processing_time_timer(now + 50)

    def on_timer(self, timestamp, ctx):
        SEEN.append(timestamp)
        yield timestamp


def test_a_slot_waits_exactly_until_the_next_timer(wall_clock, stopwatch):
    vertex = pipes.vertex(
        1, KeyedProcessSpec(Alarm()), gates=[pipes.gate(0, "HASH", sources=1)], keyed=[0]
    )
    with stages.Stepped(stages.stage(vertex, elsewhere={(0, 0): 1})) as slot:
        assert slot.rest() == 1.0
        slot.put(1, 0, DATA, batch(1))
        assert slot.rest() == pytest.approx(0.05)
        wall_clock.advance(49)
        assert slot.rest() == pytest.approx(0.001)
        assert SEEN == []
        wall_clock.advance(1)
        assert slot.rest() == 1.0
        assert SEEN == [1_000_050]


def test_an_operator_is_woken_by_another_thread():
    with stages.Stepped(summing(1)) as slot:
        last = ending(slot)
        last.on_wakeup = lambda: SEEN.append("woken")
        thread = threading.Thread(target=slot.task(1).wakeups.wake, args=(last,))
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


def test_latency_markers_go_along_with_records_and_are_noted_everywhere(wall_clock):
    deployment = reading(splits=[[(1, 10)]], network=NetworkSettings(latency_interval_ms=5))
    with stages.Stepped(deployment) as slot:
        slot.loop._mark_at = 0.0
        slot.turn()
        sent = slot.sent(1)
        assert [kind for kind, _ in sent if kind in {DATA, LATENCY}] == [DATA, LATENCY]
        assert sent[-1][1] == LatencyMarker(TaskId("v0", 0), 1_000_000)


def test_a_subtask_notes_the_latency_of_markers_and_passes_them_on(wall_clock):
    with stages.Stepped(summing(1)) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.put(1, 0, LATENCY, LatencyMarker(TaskId("v0", 0), wall_clock.now_ms - 40))
        slot.rest()
        slot.loop._report_at = 0.0
        slot.turn()
        histogram = slot.of(SlotReport)[-1].metrics[TaskId("v1", 0)]["latency"]["v0"]
        assert histogram.count == 1
        assert histogram.quantile(0.5) == pytest.approx(40, rel=0.1)
        assert [kind for kind, _ in slot.sent(2)] == [DATA, LATENCY]
