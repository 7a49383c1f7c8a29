"""A source in pipelined mode: splits come while it runs and are read side by side, nothing waits, the clock does the rest."""

from __future__ import annotations

import itertools
import math

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceAssignment,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitProgress,
)
from penstock.graph.operator_specs import SourceSpec
from penstock.graph.task_id import TaskId
from penstock.replay.decisions import ReplayedDecisions
from penstock.runtime.operators.connectors.source_modes import PollResult
from penstock.runtime.operators.connectors.split_schedulers import PipelinedSplitScheduler
from penstock.runtime.time.decisions import RecordedDecisions, WallClockDecisions
from penstock.testing import ManualClock, OperatorHarness

MIN, MAX = -(2**63), 2**63 - 1
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
IDLE_100 = MONOTONOUS.with_idleness(Duration.of_millis(100))
ALIGNED = MONOTONOUS.with_watermark_alignment("group", Duration.of_millis(20))


class Reader(SourceReader):
    """A split's payload is a list of batches of timestamps; its position is the number of batches read."""

    def __init__(self, source):
        self.source = source

    def use_wake(self, wake):
        self.source.wake = wake

    def read(self, split, position, limits):
        self.source.calls.append((split.split_id, position))
        self.source.limits.append(limits)
        while position < len(split.payload):
            times = split.payload[position]
            position += 1
            yield SourceBatch([f"{split.split_id}{time}" for time in times], position, list(times))
            if self.source.gives_up and limits.expired:
                return


class TellingReader(Reader):
    def next_ready(self, split, position):
        return self.source.hint


class Lists(Source):
    def __init__(self, *, bounded=False, hint=None, gives_up=False):
        self.bounded = bounded
        self.hint = hint
        self.gives_up = gives_up
        self.calls = []
        self.limits = []
        self.wake = None

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        raise NotImplementedError

    def create_reader(self):
        return Reader(self) if self.hint is None else TellingReader(self)


class Decisions:
    """Decisions of the clock, until a recording or a replay takes over."""

    def __init__(self, clock):
        self.read_clock = clock
        self.made_by = WallClockDecisions(clock)

    def clock(self):
        return self.read_clock()

    def __getattr__(self, name):
        return getattr(self.made_by, name)


class Flow:
    """A source subtask whose clocks, both of them, move by hand."""

    def __init__(self, *, strategy=MONOTONOUS, snapshots=(), interval=200, **options):
        self.source = Lists(**options)
        self.strategy, self.interval = strategy, interval
        self.clock = ManualClock(1_000_000)
        self.decisions = Decisions(self.clock)
        self.harness = OperatorHarness(
            SourceSpec(self.source, strategy),
            clock=self.clock,
            snapshots=snapshots,
            pipelined=True,
            auto_watermark_interval=interval,
            decisions=self.decisions,
        )
        self.operator = self.harness.operator
        self.payloads = {}
        self.cpu_s = 0.0
        turns = self.operator.pipelined._scheduler
        ticks = itertools.count()  # a clock that is read later is later
        turns.monotonic = lambda: self.clock.now / 1000 + next(ticks) * 1e-9
        turns.cpu_time = lambda: self.cpu_s

    def assign(self, *, no_more=False, idle=False, bounded=False, **splits):
        self.payloads.update(splits)
        self.operator.add_splits(
            SourceAssignment(
                [
                    SplitProgress(SourceSplit(name, payload, 0, bounded=bounded), 0)
                    for name, payload in splits.items()
                ],
                no_more_splits=no_more,
                idle=idle,
            )
        )

    def poll(self):
        """Poll until there is nothing more; return what each poll emitted, and the last answer."""
        seen = []
        while (answer := self.operator.poll()) is PollResult.MORE:
            seen.append(self.harness.values())
            self.harness._output.records.clear()
        return [values for values in seen if values], answer

    def wait(self, millis):
        """Let time pass as the loop of a slot does: it calls the operator at its wake-ups, and polls when it should."""
        end, seen = self.clock.now + millis, []
        while True:
            seen += self.poll()[0]
            moments = [self.operator.next_wakeup()]
            if (poll := self.operator.pipelined.next_poll()) is not None:
                moments.append(math.ceil(round(poll * 1000, 2)))
            due = min((moment for moment in moments if moment is not None), default=end)
            if due >= end:
                break
            assert due >= self.clock.now
            self.clock.set(max(due, self.clock.now))
            self.operator.advance_processing_time(self.clock.now)
        self.clock.set(end)
        self.operator.advance_processing_time(end)
        return seen + self.poll()[0]

    def watermarks(self):
        found = self.harness.watermarks()
        self.harness._output.watermarks.clear()
        return found

    def statuses(self):
        found = self.harness.statuses()
        self.harness._output.statuses.clear()
        return found


# Reading


def test_a_poll_reads_one_batch_and_splits_take_turns():
    flow = Flow()
    flow.assign(a=[[1, 2], [3], [5]], b=[[2]])
    seen, answer = flow.poll()
    assert seen == [["a1", "a2"], ["b2"], ["a3"], ["a5"]]
    assert answer is PollResult.NOTHING_NOW


def test_a_split_that_is_polled_goes_on_where_it_was_instead_of_being_opened_again():
    flow = Flow()
    flow.assign(a=[[1], [2], [3]])
    flow.poll()
    assert flow.source.calls == [("a", 0), ("a", 3)]  # once more, to see that there is nothing


def test_splits_come_while_others_are_read():
    flow = Flow()
    flow.assign(a=[[1]])
    flow.poll()
    flow.assign(b=[[7]])
    assert flow.poll()[0] == [["b7"]]
    assert [each.split.split_id for each in flow.operator.progress(1)] == ["a", "b"]


def test_a_reader_must_not_wait_but_may_look_once():
    flow = Flow()
    flow.assign(a=[[1]])
    flow.poll()
    limits = flow.source.limits[0]
    assert limits.remaining == 0.0
    assert (limits.expired, limits.expired) == (False, True)


def test_a_reader_that_gives_up_after_each_batch_is_asked_again_at_once():
    flow = Flow(gives_up=True)
    flow.assign(a=[[1], [2], [3], [4]])
    assert flow.poll() == ([["a1"], ["a2"], ["a3"], ["a4"]], PollResult.NOTHING_NOW)


# When to ask again


def pauses(flow, asks):
    found = []
    for _ in range(asks):
        assert flow.poll()[1] is PollResult.NOTHING_NOW
        pause = flow.operator.pipelined.next_poll() * 1000 - flow.clock.now
        found.append(round(pause, 2))
        flow.clock.advance(round(pause))
    return found


def test_a_split_without_records_is_asked_after_1_2_4_8_and_then_every_10_ms():
    flow = Flow()
    flow.assign(a=[])
    assert pauses(flow, 6) == [1, 2, 4, 8, 10, 10]
    flow.payloads["a"].append([5])
    assert flow.poll() == ([["a5"]], PollResult.NOTHING_NOW)
    assert pauses(flow, 2) == [1, 2]


def test_nothing_is_asked_before_its_time():
    flow = Flow()
    flow.assign(a=[])
    flow.poll()
    asked = len(flow.source.calls)
    for _ in range(5):
        flow.poll()
    assert len(flow.source.calls) == asked


def test_readers_that_are_slow_to_say_nothing_are_asked_more_seldom():
    flow = Flow()
    flow.assign(**{f"s{number}": [] for number in range(10)})
    read = Reader.read

    def costly(self, split, position, limits):
        flow.cpu_s += 0.0001
        return read(self, split, position, limits)

    flow.harness.operator.reader._reader.read = costly.__get__(flow.operator.reader._reader)
    flow.wait(500)
    before = flow.cpu_s
    flow.wait(10_000)
    assert flow.cpu_s - before <= 0.02 * 10 + 0.001


def test_a_reader_that_knows_when_there_is_more_is_asked_then_and_not_before():
    flow = Flow(hint=0.025)
    flow.assign(a=[[1], [2]])
    assert flow.poll()[0] == [["a1"]]
    assert flow.operator.pipelined.next_poll() == pytest.approx(1000.025)
    flow.clock.advance(24)
    assert flow.poll()[0] == []
    flow.clock.advance(1)
    assert flow.poll()[0] == [["a2"]]


def test_a_reader_that_wakes_is_not_asked_in_between():
    flow = Flow(hint=float("inf"))
    flow.assign(a=[])
    flow.poll()
    assert flow.operator.pipelined.next_poll() is None
    flow.payloads["a"].append([3])
    flow.source.wake()
    assert flow.harness.woken == 1
    flow.operator.on_wakeup()  # as the loop does then
    assert flow.poll()[0] == [["a3"]]


# Splits with an end


def test_files_of_a_source_without_end_are_read_one_after_the_other_and_count_when_they_begin():
    flow = Flow()
    flow.assign(bounded=True, a=[[1], [9]], b=[[5], [20]])
    assert flow.poll()[0] == [["a1"], ["a9"], ["b5"], ["b20"]]
    flow.wait(200)
    assert flow.watermarks() == [8, 19]
    assert flow.operator.splits.take_newly_finished() == ["a", "b"]
    assert flow.operator.splits.take_newly_finished() == []


def test_splits_of_a_source_with_an_end_all_count_from_their_assignment():
    flow = Flow(bounded=True)
    flow.assign(a=[[1], [9]], **{f"s{number}": [[7]] for number in range(40)})
    for _ in range(20):
        flow.operator.poll()
    assert flow.watermarks() == []  # some were not opened yet
    flow.operator.advance_processing_time(flow.clock.now + 200)
    assert flow.watermarks() == []
    assert len({name for name, _ in flow.source.calls}) < 40
    seen = flow.poll()[0]
    assert sorted(itertools.chain.from_iterable(seen)) == sorted(
        ["a1", "a9", *(f"s{number}7" for number in range(40))]
    )
    assert all(mark <= 8 for mark in flow.watermarks())


def test_end_of_input_is_reported_immediately():
    flow = Flow(bounded=True)
    flow.assign(no_more=True, a=[[1]])
    assert flow.poll() == ([["a1"]], PollResult.FINISHED)
    assert flow.watermarks() == [0, MAX]
    assert flow.poll() == ([], PollResult.FINISHED)
    flow.harness.snapshot()
    assert flow.watermarks() == []
    assert (flow.operator.pipelined.next_poll(), flow.operator.next_wakeup()) == (None, None)


def test_a_source_that_may_get_more_splits_has_not_ended():
    flow = Flow(bounded=True)
    flow.assign(a=[[1]])
    assert flow.poll()[1] is PollResult.NOTHING_NOW
    flow.assign(no_more=True)
    assert flow.poll()[1] is PollResult.FINISHED


def test_a_source_that_is_drained_reads_nothing_more_and_time_ends():
    flow = Flow()
    flow.assign(a=[[1], [2]])
    flow.operator.poll()
    flow.operator.drain()
    assert flow.watermarks() == [MAX]
    assert flow.poll()[1] is PollResult.FINISHED
    flow.assign(b=[[3]])
    assert flow.poll()[1] is PollResult.FINISHED
    assert [each.position for each in flow.operator.progress(1)] == [1, 0]


# Checkpoints


def test_a_finished_split_is_reported_until_a_checkpoint_that_knows_it_is_complete():
    def reported(checkpoint):
        return {each.split.split_id: each.finished for each in flow.operator.progress(checkpoint)}

    flow = Flow()
    flow.assign(bounded=True, a=[[1]])
    assert reported(1) == {"a": False}
    flow.poll()
    assert reported(2) == {"a": True}
    flow.operator.on_completed(1)
    assert reported(3) == {"a": True}
    flow.operator.on_completed(3)  # 2 was given up
    assert reported(4) == {}


def test_a_restored_split_goes_on_at_its_position_with_its_time():
    flow = Flow()
    flow.assign(a=[[5], [9]])
    flow.operator.poll()
    snapshot = flow.harness.snapshot()
    progress = flow.operator.progress(1)
    again = Flow(snapshots=[snapshot])
    again.operator.add_splits(SourceAssignment(progress))
    assert again.poll()[0] == [["a9"]]
    again.wait(200)
    assert again.watermarks() == [8]


# Time


def test_rule_2_watermarks_come_by_their_interval_also_when_no_record_comes():
    class FollowsTheClock(WatermarkGenerator):
        def on_event(self, event, timestamp, output):
            pass

        def on_periodic_emit(self, output):
            output.emit_watermark(clock.now - 1_000_000)

    flow = Flow(strategy=WatermarkStrategy.for_generator(FollowsTheClock), interval=50)
    clock = flow.clock
    flow.assign(a=[])
    flow.wait(220)
    assert flow.watermarks() == [50, 100, 150, 200]


def test_rule_2_a_watermark_waits_for_its_interval_however_many_batches_there_are():
    flow = Flow()
    flow.assign(a=[[time] for time in range(1, 100)])
    flow.poll()
    assert flow.watermarks() == []
    flow.wait(200)
    assert flow.watermarks() == [98]


def test_rule_2_an_interval_of_0_leaves_only_watermarks_per_event():
    class PerEvent(WatermarkGenerator):
        def on_event(self, event, timestamp, output):
            output.emit_watermark(timestamp)

        def on_periodic_emit(self, output):
            raise AssertionError("there is no period")

    for strategy, expected in [
        (MONOTONOUS, []),
        (WatermarkStrategy.for_generator(PerEvent), [1, 2]),
    ]:
        flow = Flow(strategy=strategy, interval=0)
        flow.assign(a=[[1, 2]])
        flow.poll()
        flow.wait(1000)
        assert flow.watermarks() == expected
        assert flow.operator.next_wakeup() is None


def test_watermarks_go_on_after_the_clock_was_set_back():
    flow = Flow()
    flow.assign(a=[[5]])
    flow.poll()
    flow.clock.now -= 3_600_000
    flow.operator.advance_processing_time(flow.clock.now)
    flow.wait(200)
    assert flow.watermarks() == [4]


def test_a_batch_without_records_leaves_the_next_watermark_where_it_is():
    flow = Flow()
    flow.assign(a=[[5]])
    flow.wait(200)
    assert flow.watermarks() == [4]
    flow.payloads["a"].append([])
    flow.clock.advance(10)
    flow.poll()
    assert len(flow.payloads["a"]) == flow.operator.splits.readings[0].position
    assert flow.operator.next_wakeup() == flow.clock.now + 190


def replay_after(flow, step):
    """Run a step of a source after a checkpoint; run it again from there, by what it left. Return what both of them emitted."""
    flow.operator.barrier()
    progress = flow.operator.progress()
    flow.watermarks(), flow.statuses()
    recording = RecordedDecisions(flow.clock)
    recording.begin_interval()
    flow.decisions.made_by = recording
    step(flow)
    replayed = ReplayedDecisions(recording.trace(TaskId("v", 0)), flow.clock.now, None, None)
    replayed.begin_interval()
    again = Flow(strategy=flow.strategy, interval=flow.interval, hint=flow.source.hint)
    again.operator.add_splits(SourceAssignment(progress))
    again.decisions.made_by = replayed
    again.decisions.read_clock = replayed.clock
    step(again)
    return [(each.watermarks(), each.statuses()) for each in (flow, again)]


def test_a_replay_counts_a_split_as_idle_that_had_nothing_before_the_checkpoint():
    def step(flow):
        for millis in (50, 50):
            flow.clock.advance(millis)
            flow.operator.advance_processing_time(flow.clock.now)

    flow = Flow(strategy=IDLE_100, interval=0, hint=float("inf"))
    flow.assign(a=[[50]])
    flow.poll()
    flow.operator.on_wakeup()
    flow.poll()  # nothing
    emitted, again = replay_after(flow, step)
    assert emitted == ([], [True])
    assert again == emitted


def test_rule_3_a_split_counts_from_its_assignment_on_although_it_has_no_records_yet():
    flow = Flow()
    flow.assign(a=[[5]], b=[])
    flow.wait(400)
    assert flow.watermarks() == []
    flow.payloads["b"].append([3])
    flow.wait(200)
    assert flow.watermarks() == [2]
    flow.assign(c=[])
    flow.payloads["a"].append([9])
    flow.payloads["b"].append([9])
    flow.wait(400)
    assert flow.watermarks() == []


def test_rule_3_a_silent_split_is_left_out_by_the_clock():
    flow = Flow(strategy=IDLE_100)
    flow.assign(a=[[50]], b=[[20]])
    flow.poll()
    flow.clock.advance(60)
    flow.payloads["a"].append([70])
    flow.wait(39)
    assert flow.watermarks() == []
    flow.wait(1)  # b has had nothing for 100 ms: the periodic watermark does not have to come first
    assert flow.watermarks() == [69]
    assert flow.statuses() == []
    flow.wait(59)
    assert flow.statuses() == []
    flow.wait(1)
    assert flow.statuses() == [True]
    flow.payloads["b"].append([80])
    flow.wait(10)
    assert flow.statuses() == [False]


def test_rule_3_when_all_splits_are_idle_the_highest_watermark_is_sent():
    flow = Flow(strategy=IDLE_100)
    flow.assign(a=[[50]], b=[[20]])
    flow.poll()
    flow.wait(100)
    assert flow.watermarks() == [49]
    assert flow.statuses() == [True]


def test_backpressured_split_is_not_idle():
    """Back-pressure: the source is not polled, and says nothing about what its splits have."""
    flow = Flow(strategy=IDLE_100)
    flow.assign(a=[[1], [2]])
    flow.operator.poll()
    flow.clock.advance(5_000)
    flow.operator.advance_processing_time(flow.clock.now)
    assert flow.statuses() == []
    assert flow.poll()[0] == [["a1", "a2"]]


def test_a_subtask_without_splits_is_idle_while_others_have_some():
    flow = Flow()
    flow.assign(idle=True)
    assert flow.statuses() == [True]
    flow.assign(a=[[1]])
    assert flow.statuses() == [False]


# Alignment with other sources


def test_splits_beyond_the_allowed_time_wait_and_the_others_go_on():
    flow = Flow(strategy=ALIGNED)
    flow.assign(fast=[[100], [200]], slow=[[10], [20], [30]])
    flow.operator.pipelined.update_watermark_alignment(20)
    assert flow.poll()[0] == [["fast100"], ["slow10"], ["slow20"], ["slow30"]]
    assert flow.operator.time.alignment_watermark() == 29
    flow.operator.pipelined.update_watermark_alignment(79)
    assert flow.poll()[0] == [["fast200"]]


def test_split_paused_by_watermark_alignment_is_not_idle_and_not_polled():
    strategy = ALIGNED.with_idleness(Duration.of_millis(100))
    flow = Flow(strategy=strategy)
    flow.assign(a=[[100], [200]])
    flow.operator.pipelined.update_watermark_alignment(0)
    flow.poll()
    assert flow.operator.pipelined.next_poll() is None
    flow.wait(1000)
    assert flow.statuses() == []
    assert flow.operator.time.alignment_watermark() == 99


def test_idle_and_finished_sources_have_no_time_that_others_must_wait_for():
    flow = Flow(strategy=ALIGNED.with_idleness(Duration.of_millis(100)))
    assert flow.operator.time.alignment_watermark() is None
    flow.assign(a=[[10]])
    assert flow.operator.time.alignment_watermark() == MIN
    flow.poll()
    assert flow.operator.time.alignment_watermark() == 9
    flow.wait(100)
    assert flow.operator.time.alignment_watermark() is None
    ended = Flow(strategy=ALIGNED, bounded=True)
    ended.assign(no_more=True, a=[[1]])
    ended.poll()
    assert ended.operator.time.alignment_watermark() is None


def test_an_idle_source_costs_little():
    """Measured in calls: at most 100 looks a second at each split, and a handful of wake-ups."""
    flow = Flow(strategy=IDLE_100)
    flow.assign(a=[])
    flow.wait(100)
    asked = len(flow.source.calls)
    flow.wait(10_000)
    assert len(flow.source.calls) - asked <= 1_001


def test_turns_ask_the_real_clocks():
    assert PipelinedSplitScheduler.monotonic() > 0
    assert PipelinedSplitScheduler.cpu_time() > 0
