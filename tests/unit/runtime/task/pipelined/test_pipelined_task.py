"""A subtask in the loop of its slot, turn by turn: barriers, ends, what is written and committed."""

from __future__ import annotations

import threading

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.base.sink import Sink, SinkWriter
from penstock.connectors.base.source import SourceSplit, SplitProgress
from penstock.datastream import KeyedProcessFunction
from penstock.errors import RecordError
from penstock.graph.deployment import JobSettings
from penstock.graph.operator_specs import SinkSpec, SourceSpec
from penstock.graph.stage import BarrierSettings
from penstock.graph.task_id import TaskId
from penstock.pickling.portable_pickles import NotPicklableError
from penstock.runtime.network.messages import (
    BARRIER,
    DATA,
    END,
    WATERMARK,
    BarrierFigures,
    BarrierMessage,
    TaskAck,
)
from penstock.runtime.records import MAX_WATERMARK, RowBatch
from penstock.runtime.task.pipelined.slot_messages import (
    AcknowledgeCheckpoint,
    AssignSplits,
    CancelCheckpoint,
    ConfirmCheckpoint,
    DeclineCheckpoint,
    SlotTraced,
    SourceFinished,
    StopSlot,
    TriggerBarrier,
)
from penstock.runtime.task.pipelined.uploads import Upload
from penstock.runtime.task.shared.snapshots import PendingSnapshot
from penstock.runtime.time.call_log import CallKind
from tests.builders import pipes, stages
from tests.builders.pipelined_tasks import SEEN, barrier, batch, ending, reading, state_of, summing
from tests.builders.waiting import wait_until


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


def test_a_slot_that_is_told_to_stop_does_nothing_after_its_final_trace():
    """What it did later would be missing in the trace, and others might have received it."""
    with stages.Stepped(summing(settings=JobSettings("job", "job", journal=True))) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.rest()
        slot.put(1, 0, DATA, batch(2))
        slot.tell(StopSlot(failed=True))
        slot.turn()
        (report,) = slot.of(SlotTraced)
        calls = [call for part in report.trace.subtasks for call in part.calls]
        taken = sum(call.value for call in calls if call.call is CallKind.RECORDS)
        assert (SEEN, taken) == ([1], len(SEEN))


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


def test_aborted_checkpoint_unblocks_its_channels():
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, BARRIER, barrier(1))
        slot.put(1, 0, DATA, batch(5))
        slot.rest()
        assert SEEN == []
        slot.tell(CancelCheckpoint(1))
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
        (declined,) = slot.of(DeclineCheckpoint)
        assert (declined.checkpoint, declined.task) == (1, TaskId("v1", 0))
        assert SEEN == [5]
        slot.put(1, 0, BARRIER, barrier(2))
        slot.rest()
        assert set(slot.acks(2, 1)) == {(1, 0)}
        assert slot.acks(1) == {}


def test_figures_tell_how_a_barrier_was_passed(wall_clock):
    with stages.Stepped(summing()) as slot:
        slot.put(1, 0, BARRIER, barrier(1, triggered_ms=999_900))
        slot.rest()
        wall_clock.advance(250)
        slot.put(1, 1, BARRIER, barrier(1, triggered_ms=999_900))
        slot.rest()
        figures = slot.acks(1, 1)[1, 0].figures
        (_, passed), *_ = slot.sent(2)
    assert figures.start_delay_ms == pytest.approx(100)
    assert figures.alignment_ms == pytest.approx(250)
    assert figures.sync_ms > 0
    assert not figures.unaligned
    assert passed.triggered_ms == 999_900  # the next one knows, too


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


def test_subtask_finishes_only_after_outstanding_results():
    with stages.Stepped(summing(1)) as slot:
        last = ending(slot)
        last.under_way = True
        slot.put(1, 0, END, None)
        slot.put(1, 0, BARRIER, barrier(1, finished=True))
        slot.rest()
        assert SEEN == []
        assert slot.acks(1) == {}
        last.under_way = False
        slot.task(1).wakeups.wake(last)
        slot.rest()
        assert SEEN == ["finish", "last"]
        assert slot.acks(1, 1)[1, 0].finished


def test_operator_waiting_for_processing_time_may_finish_later(wall_clock):
    """Asynchronous calls that are under way when the input ends still time out."""
    with stages.Stepped(summing(1)) as slot:
        last = ending(slot)
        last.under_way = True
        due = wall_clock.now_ms + 40
        last.next_wakeup = lambda: due if last.under_way else None

        def advance(now):
            if now >= due:
                last.under_way = False

        last.advance_processing_time = advance
        slot.put(1, 0, END, None)
        slot.loop._report_at = float("inf")
        assert slot.rest() == pytest.approx(0.04)
        wall_clock.advance(39)
        slot.rest()
        assert SEEN == []
        wall_clock.advance(1)
        slot.rest()
        assert SEEN == ["finish", "last"]


class Alarm(KeyedProcessFunction):
    """Emits by how much a timer is late."""

    def process_element(self, value, ctx):
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + value)

    def on_timer(self, timestamp, ctx):
        yield ctx.timer_service().current_processing_time() - timestamp


def test_a_slot_rests_until_the_next_timer_and_no_longer(wall_clock):
    with stages.Stepped(summing(1, function=Alarm)) as slot:
        slot.loop._report_at = float("inf")
        slot.put(1, 0, DATA, batch(40, 15))
        assert slot.rest() == pytest.approx(0.015)
        wall_clock.advance(14)
        assert slot.rest() == pytest.approx(0.001)
        assert SEEN == []
        wall_clock.advance(1)
        assert slot.rest() == pytest.approx(0.025)
        assert SEEN == [0]
        wall_clock.advance(25)
        slot.rest()
        assert SEEN == [0, 0]


def test_a_source_that_has_read_all_says_so_and_passes_barriers_as_its_end():
    with stages.Stepped(reading(bounded=True, splits=[[(1, 10), (2, 20)]])) as slot:
        slot.rest()
        assert slot.of(SourceFinished) == [SourceFinished(TaskId("v0", 0))]
        sent = slot.sent(1)
        assert [kind for kind, _ in sent][-2:] == [WATERMARK, END]
        assert sent[-2][1] == MAX_WATERMARK
        slot.tell(TriggerBarrier(1, 0))
        slot.rest()
        assert slot.acks(1, 1)[0, 0].finished
        assert slot.sent(1) == [(BARRIER, BarrierMessage(1, slot.acks(1)[0, 0].attempt, True))]


def test_a_barrier_between_the_last_record_and_the_end_is_not_the_last_one():
    with stages.Stepped(reading(bounded=True, splits=[[(1, 10)]])) as slot:
        source = slot.task(0).subtask.source
        while not source.finished:
            source.poll()
        slot.tell(TriggerBarrier(1, 0))
        slot.rest()
        assert not slot.acks(1, 1)[0, 0].finished
        kinds = [kind for kind, _ in slot.sent(1)]
        assert kinds.index(BARRIER) < kinds.index(END)
        slot.tell(TriggerBarrier(2, 0))
        slot.rest()
        assert slot.acks(2, 1)[0, 0].finished


def test_a_drained_source_comes_to_its_end_within_the_checkpoint():
    with stages.Stepped(reading(splits=[[(1, 10)]])) as slot:
        slot.rest()
        slot.sent(1)
        slot.tell(TriggerBarrier(1, 0, drain=True))
        slot.rest()
        assert slot.acks(1, 1)[0, 0].finished
        assert [kind for kind, _ in slot.sent(1)] == [WATERMARK, END, BARRIER]


def test_a_source_that_is_stopped_reads_nothing_after_the_checkpoint():
    with stages.Stepped(reading(splits=[[(1, 10)]])) as slot:
        slot.rest()
        slot.sent(1)
        slot.tell(TriggerBarrier(1, 0, stop=True))
        slot.rest()
        assert not slot.acks(1, 1)[0, 0].finished
        assert slot.sent(1)[-1][0] == BARRIER
        polled = []
        slot.task(0).subtask.source.poll = lambda: polled.append(1)
        slot.rest()
        assert polled == []


def test_a_source_that_was_stopped_does_not_read_splits_that_come_later():
    with stages.Stepped(reading(splits=[[(1, 10)]])) as slot:
        slot.tell(TriggerBarrier(1, 0, stop=True))
        slot.rest()
        slot.sent(1)
        later = SplitProgress(SourceSplit("later", [(2, 20)], 0), 0)
        slot.tell(AssignSplits(TaskId("v0", 0), (later,)))
        slot.rest()
        assert slot.sent(1) == []


def test_checkpoint_aborted_before_its_start_in_a_source_does_not_start():
    with stages.Stepped(reading(splits=[[(1, 10)]])) as slot:
        slot.tell(TriggerBarrier(1, 0), CancelCheckpoint(1), TriggerBarrier(2, 0))
        slot.rest()
        assert slot.acks(2, 1)
        assert slot.acks(1) == {}
        barriers = [content.checkpoint for kind, content in slot.sent(1) if kind == BARRIER]
        assert barriers == [2]


def test_a_slot_that_ends_writes_no_further_snapshots():
    with stages.Stepped(summing(1)) as slot:
        subtask, uploads, begun = slot.task(1).subtask, slot.loop._uploads, []
        closing = threading.Thread(target=uploads.close)

        def write_while_the_slot_ends():
            begun.append(1)
            closing.start()
            wait_until(lambda: uploads._closed)
            return {}

        def write():
            begun.append(2)
            return {}

        ack = TaskAck(subtask.id, "a", {}, {}, b"")
        for number, each in ((1, write_while_the_slot_ends), (2, write)):
            slot.loop.upload(Upload(number, subtask, PendingSnapshot(ack, each), BarrierFigures()))
        uploads._thread.join(120)
        closing.join(120)
        assert begun == [1]


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
        wait_until(lambda: bool(slot.of(DeclineCheckpoint)))
        (declined,) = slot.of(DeclineCheckpoint)
        assert (declined.checkpoint, declined.reason) == (1, "OSError: no space left")
        assert SEEN == [1, 3]


class NotPicklableStateIO(pipes.MemoryStateIO):
    def prepare(self, *args):
        raise NotPicklableError("a lock")


def test_state_that_cannot_be_pickled_fails_the_slot():
    with stages.Stepped(summing(1, state_io=NotPicklableStateIO())) as slot:
        slot.put(1, 0, DATA, batch(1))
        slot.put(1, 0, BARRIER, barrier(1))
        with pytest.raises(RecordError, match="could not write the state"):
            slot.turn()


def test_fatal_upload_error_is_raised_by_the_loop():
    with stages.Stepped(summing(1)) as slot:
        task = slot.task(1)

        def write():
            raise RecordError("the state of an operator cannot be kept")

        slot.loop.upload(Upload(1, task.subtask, PendingSnapshot(None, write), BarrierFigures()))
        with pytest.raises(RecordError, match="cannot be kept"):
            wait_until(lambda: slot.turn() < 0)
        assert slot.loop.current is task.subtask
        assert not slot.of(AcknowledgeCheckpoint)


class Staged(Sink):
    """Its committables are what was written in an epoch, under the name of the attempt."""

    def create_writer(self, context, restored=None):
        return _StagedWriter()


class _StagedWriter(SinkWriter):
    def begin(self, checkpoint):
        self.checkpoint, self.values = checkpoint, []

    def write(self, values, timestamps, watermark):
        self.values += values

    def prepare_commit(self):
        return [(self.checkpoint.checkpoint_id, self.checkpoint.attempt, tuple(self.values))]


def test_committables_are_handed_over_until_they_are_known_to_be_committed():
    vertex = pipes.vertex(1, SinkSpec(Staged()), gates=[pipes.gate(0)])
    with stages.Stepped(stages.stage(vertex, elsewhere={(0, 0): 1}, next_checkpoint=7)) as slot:
        for number, value in ((7, "a"), (8, "b")):
            slot.put(1, 0, DATA, RowBatch([value]))
            slot.put(1, 0, BARRIER, barrier(number))
        slot.rest()
        first, second = slot.acks(7, 1)[1, 0], slot.acks(8, 1)[1, 0]
        ((checkpoint_id, attempt, values),) = first.committables["v1.0"]
        assert (checkpoint_id, values) == (7, ("a",))
        ((_, other, _),) = second.committables["v1.0"]
        assert other != attempt
        assert second.carried == {7: first.committables}
        slot.tell(ConfirmCheckpoint(8))
        slot.turn()
        slot.put(1, 0, BARRIER, barrier(9))
        slot.rest()
        assert slot.acks(9, 1)[1, 0].carried == {}


def test_splits_that_come_after_a_trigger_are_not_part_of_its_checkpoint():
    spec = SourceSpec(pipes.Numbers(bounded=False), WatermarkStrategy.no_watermarks())
    source = pipes.vertex(0, spec, level=0)
    with stages.Stepped(stages.stage(source, assignments={(0, 0): pipes.reads()})) as slot:
        later = SplitProgress(SourceSplit("later", [(1, 1)], 0), 0)
        slot.tell(
            TriggerBarrier(1, 0), AssignSplits(TaskId("v0", 0), (later,)), TriggerBarrier(2, 0)
        )
        slot.turn(3)
        splits = [slot.acks(number, 1)[0, 0].progress for number in (1, 2)]
    assert [[each.split.split_id for each in found] for found in splits] == [[], ["later"]]
