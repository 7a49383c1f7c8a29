"""The source operator: per-split watermarks, idleness, ends, deadlines."""

from __future__ import annotations

import dataclasses

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
from penstock.errors import RecordError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import SourceSpec
from penstock.testing import ManualClock, OperatorHarness

MIN, MAX = -(2**63), 2**63 - 1
PAST = 0.0  # a deadline that has come: one batch, then stop


class Reader(SourceReader):
    """A split's payload is a list of batches of timestamps; its position is the number of batches read."""

    def __init__(self, calls):
        self.calls = calls

    def open(self, context):
        self.calls.append("open")

    def close(self):
        self.calls.append("close")

    def read(self, split, position, limits):
        self.calls.append((split.split_id, position))
        for index in range(position or 0, len(split.payload)):
            times = split.payload[index]
            if isinstance(times, Exception):
                raise times
            yield SourceBatch([f"{split.split_id}{time}" for time in times], index + 1, list(times))


class Splits(Source):
    def __init__(self, bounded=True):
        self.bounded = bounded
        self.calls = []

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        raise NotImplementedError

    def create_reader(self):
        return Reader(self.calls)


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
IDLE_100 = MONOTONOUS.with_idleness(Duration.of_millis(100))


class Run:
    """A source subtask over several epochs."""

    def __init__(self, *, bounded=True, strategy=MONOTONOUS, snapshots=(), clock=None, **options):
        self.source = Splits(bounded)
        self.harness = OperatorHarness(
            SourceSpec(self.source, strategy),
            clock=clock or ManualClock(1000),
            snapshots=snapshots,
            **{"auto_watermark_interval": 1e-6, **options},  # a watermark after each batch
        )
        self.progress = []

    def assign(self, **splits):
        self.progress += [
            SplitProgress(SourceSplit(name, payload, 0), 0) for name, payload in splits.items()
        ]

    def extend(self, name, *batches):
        """Let more records arrive at a split."""
        self.progress = [
            dataclasses.replace(
                each,
                split=dataclasses.replace(each.split, payload=[*each.split.payload, *batches]),
            )
            if each.split.split_id == name
            else each
            for each in self.progress
        ]

    def checkpoint_id(self, *, no_more_splits=True, deadline=None, idle=False):
        """Run one epoch; return the values and watermarks that it emitted."""
        harness = self.harness
        harness.clear()
        assignment = SourceAssignment(self.progress, no_more_splits, idle)
        for _ in harness.operator.run(assignment, deadline):
            pass
        self.snapshot = harness.snapshot()
        self.progress = [each for each in harness.operator.progress() if not each.finished]
        return harness.values(), harness.watermarks()


def test_a_bounded_source_reads_all_and_ends_with_max():
    run = Run()
    run.assign(a=[[1, 2], [3]])
    values, watermarks = run.checkpoint_id()
    assert values == ["a1", "a2", "a3"]
    assert watermarks == [1, 2, MAX]
    assert run.harness.output()[0] == ("a1", 1)
    assert run.harness.operator.finished
    assert run.progress == []
    assert run.checkpoint_id() == ([], [])  # MAX is not repeated


def test_a_bounded_source_without_splits_ends_at_once():
    assert Run().checkpoint_id() == ([], [MAX])


def test_a_bounded_source_waits_for_splits_that_may_come():
    run = Run()
    run.assign(a=[[1]])
    assert run.checkpoint_id(no_more_splits=False)[1] == [0]
    assert not run.harness.operator.finished
    assert run.checkpoint_id(no_more_splits=True)[1] == [MAX]


def test_an_unbounded_source_never_ends():
    run = Run(bounded=False)
    run.assign(a=[[5]])
    assert run.checkpoint_id(no_more_splits=False) == (["a5"], [4])
    assert not run.harness.operator.finished
    assert [each.position for each in run.progress] == [1]


def test_a_slow_split_holds_the_watermark_back():
    run = Run(bounded=False)
    run.assign(fast=[[100]], slow=[[10]])
    assert run.checkpoint_id() == (["fast100", "slow10"], [9])
    run.extend("fast", [200])
    assert run.checkpoint_id() == (["fast200"], [])  # slow is at 10 still
    run.extend("slow", [50])
    assert run.checkpoint_id() == (["slow50"], [49])
    run.extend("slow", [300])
    assert run.checkpoint_id() == (["slow300"], [199])


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
def test_time_stands_still_until_the_last_split_had_its_turn(bounded):
    run = Run(bounded=bounded)
    run.assign(a=[[100], [200]], b=[[10], [20], [30]])
    values, watermarks = run.checkpoint_id(no_more_splits=False)
    assert values == ["a100", "a200", "b10", "b20", "b30"]
    assert watermarks == [9, 19, 29]


def test_a_split_that_ended_no_longer_holds_back_in_the_next_epoch():
    run = Run()
    run.assign(a=[[10]], b=[[100], [200]])
    assert (
        run.checkpoint_id(no_more_splits=False, deadline=PAST)[1] == []
    )  # b may have earlier records
    assert run.checkpoint_id(no_more_splits=False)[1] == [
        99,
        199,
    ]  # a has ended, without a record more


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")], ids="".join)
def test_time_goes_to_the_furthest_of_splits_that_ended_in_the_same_epoch(order):
    times = {"a": [[10]], "b": [[100], [200]]}
    run = Run(bounded=False)
    run.progress = [
        SplitProgress(SourceSplit(name, times[name], 0, bounded=True), 0) for name in order
    ]
    values, watermarks = run.checkpoint_id()
    assert sorted(values) == ["a10", "b100", "b200"]
    assert watermarks == [9, 199]  # behind all records
    assert run.checkpoint_id() == ([], [])


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
def test_an_unread_split_holds_back_until_its_first_turn(bounded):
    run = Run(bounded=bounded)
    run.assign(a=[[100], [110]], b=[[10]])
    assert run.checkpoint_id(no_more_splits=False, deadline=PAST) == (["a100"], [])
    values, watermarks = run.checkpoint_id(no_more_splits=False)
    assert sorted(values) == ["a110", "b10"]
    assert watermarks == [9]


def test_splits_without_an_end_take_turns():
    run = Run(bounded=False)
    run.assign(a=[[1], [2], [3]], b=[[1], [2]], c=[[1]])
    read = [run.checkpoint_id(deadline=PAST)[0] for _ in range(6)]
    assert read == [["a1"], ["b1"], ["c1"], ["a2"], ["b2"], []]


def test_splits_with_an_end_are_read_one_after_the_other():
    run = Run()
    run.assign(a=[[1], [2]], b=[[3]])
    read = [run.checkpoint_id(deadline=PAST)[0] for _ in range(5)]
    assert read == [["a1"], ["a2"], [], ["b3"], []]  # an end is seen when nothing more comes
    assert run.harness.operator.finished


def test_the_deadline_stops_at_a_batch_and_the_next_epoch_goes_on_there():
    run = Run()
    run.assign(a=[[1, 2], [3], [4]])
    assert run.checkpoint_id(deadline=PAST) == (["a1", "a2"], [1])
    assert [(each.position, each.finished) for each in run.progress] == [(1, False)]
    assert run.checkpoint_id() == (["a3", "a4"], [2, 3, MAX])
    assert run.source.calls == ["open", ("a", 0), ("a", 1)]


@pytest.mark.parametrize("bounded", [True, False])
def test_an_empty_batch_moves_the_position(bounded):
    """A reader may pass by what it filters out, or what a transaction took back: that is not read again."""
    run = Run(bounded=bounded)
    run.assign(a=[[], [1], [], []])
    assert run.checkpoint_id(deadline=PAST)[0] == []
    assert [each.position for each in run.progress] == [1]
    run.checkpoint_id(deadline=PAST)
    values, _ = run.checkpoint_id(deadline=PAST)
    assert values == []
    assert [each.position for each in run.progress] == [3]
    assert [position for name, position in run.source.calls[1:]] == [0, 1, 2]


def test_watermarks_go_on_after_a_restore():
    run = Run(bounded=False)
    run.assign(a=[[100]], b=[[50]])
    run.checkpoint_id()
    again = Run(bounded=False, snapshots=[run.snapshot])
    again.progress = run.progress
    again.extend("a", [110])
    assert again.checkpoint_id() == (["a110"], [])  # b stands at 50, and 49 was emitted before
    again.extend("b", [120])
    assert again.checkpoint_id()[1] == [109]


def test_a_silent_split_is_left_out_after_the_idle_timeout():
    clock = ManualClock(1000)
    run = Run(bounded=False, strategy=IDLE_100, clock=clock)
    run.assign(fast=[[100]], slow=[[10]])
    assert run.checkpoint_id()[1] == [9]
    assert run.harness.operator.next_wakeup() == 1100
    clock.advance(99)
    run.extend("fast", [200])
    assert run.checkpoint_id()[1] == []
    clock.advance(1)
    assert run.checkpoint_id()[1] == [199]  # slow was silent for 100 ms
    assert run.harness.statuses() == []
    assert run.harness.operator.next_wakeup() == 1199
    run.extend("slow", [20])
    assert run.checkpoint_id() == (["slow20"], [])  # it returns, behind: time does not go back
    run.extend("slow", [400])
    assert run.checkpoint_id()[1] == []  # now fast holds back
    run.extend("fast", [300])
    assert run.checkpoint_id()[1] == [299]


def test_when_all_splits_are_silent_the_source_turns_idle_and_returns_with_the_next_record():
    clock = ManualClock(1000)
    run = Run(bounded=False, strategy=IDLE_100, clock=clock)
    run.assign(a=[[10]])
    run.checkpoint_id()
    clock.advance(100)
    run.checkpoint_id()
    assert run.harness.statuses() == [True]
    assert run.harness.operator.next_wakeup() is None
    clock.advance(100)
    run.checkpoint_id()
    assert run.harness.statuses() == []  # sent once
    run.extend("a", [20])
    assert run.checkpoint_id() == (["a20"], [19])
    assert run.harness.statuses() == [False]


def test_a_source_whose_splits_have_ended_turns_idle_and_returns_with_the_next_one():
    clock = ManualClock(1000)
    run = Run(bounded=False, strategy=IDLE_100, clock=clock)
    run.checkpoint_id()
    assert run.harness.statuses() == []
    assert run.harness.operator.next_wakeup() == 1100
    clock.advance(99)
    run.checkpoint_id()
    assert run.harness.statuses() == []
    clock.advance(1)
    run.checkpoint_id()
    assert run.harness.statuses() == [True]
    assert run.harness.operator.next_wakeup() is None
    run.assign(a=[[10]])
    assert run.checkpoint_id()[0] == ["a10"]
    assert run.harness.statuses() == [False]


def test_a_source_without_splits_stays_active_without_an_idle_timeout():
    clock = ManualClock(1000)
    run = Run(bounded=False, clock=clock)
    clock.advance(100_000)
    run.checkpoint_id()
    assert run.harness.statuses() == []
    assert run.harness.operator.next_wakeup() is None


def test_a_split_that_never_gave_a_record_turns_idle_too():
    clock = ManualClock(1000)
    run = Run(bounded=False, strategy=IDLE_100, clock=clock)
    run.assign(a=[])
    run.checkpoint_id()
    assert run.harness.statuses() == []
    clock.advance(100)
    run.checkpoint_id()
    assert run.harness.statuses() == [True]


def test_rule_3_a_split_counts_from_its_assignment_on_although_it_has_no_records_yet():
    run = Run(bounded=False)
    run.assign(a=[[5]], b=[])
    assert run.checkpoint_id(no_more_splits=False) == (["a5"], [])
    run.extend("a", [9])
    assert run.checkpoint_id(no_more_splits=False) == (["a9"], [])
    run.extend("b", [3])
    assert run.checkpoint_id(no_more_splits=False) == (["b3"], [2])


def test_rule_3_a_split_that_is_assigned_later_holds_time_where_it_is():
    run = Run(bounded=False)
    run.assign(a=[[5]])
    assert run.checkpoint_id(no_more_splits=False)[1] == [4]
    run.assign(b=[])
    run.extend("a", [9])
    assert run.checkpoint_id(no_more_splits=False)[1] == []
    run.extend("b", [7])
    assert run.checkpoint_id(no_more_splits=False)[1] == [6]


def test_rule_3_a_split_without_records_holds_back_until_it_is_idle():
    run = Run(bounded=False, strategy=IDLE_100)
    run.assign(a=[[5]], b=[])
    assert run.checkpoint_id(no_more_splits=False)[1] == []
    run.harness.clock.advance(99)
    run.extend("a", [9])
    assert run.checkpoint_id(no_more_splits=False)[1] == []
    run.harness.clock.advance(1)
    assert run.checkpoint_id(no_more_splits=False)[1] == [8]
    assert run.harness.statuses() == []


def test_a_split_that_ended_without_any_record_does_not_hold_back():
    run = Run()
    run.assign(a=[[5]], b=[])
    assert run.checkpoint_id(no_more_splits=False) == (["a5"], [4])


def test_rule_3_when_all_splits_are_idle_the_highest_watermark_is_sent_before_the_status():
    run = Run(bounded=False, strategy=IDLE_100)
    run.assign(a=[[50]], b=[[20]])
    assert run.checkpoint_id(no_more_splits=False)[1] == [19]
    events = []
    run.harness._output.emit_status = lambda idle: events.append(("idle", idle))
    run.harness._output.emit_watermark = lambda mark: events.append(("watermark", mark))
    run.harness.clock.advance(60)
    run.extend("b", [30])
    run.checkpoint_id(no_more_splits=False)
    assert events == [("watermark", 29)]
    run.harness.clock.advance(40)
    run.checkpoint_id(no_more_splits=False)  # a is idle now, and b has nothing new
    assert events == [("watermark", 29)]
    run.harness.clock.advance(60)
    run.checkpoint_id(no_more_splits=False)
    assert events == [("watermark", 29), ("watermark", 49), ("idle", True)]
    run.checkpoint_id(no_more_splits=False)
    assert len(events) == 3


def test_a_subtask_without_splits_is_idle_while_others_have_some():
    run = Run(bounded=False)
    run.checkpoint_id(no_more_splits=False, idle=True)
    assert run.harness.statuses() == [True]
    run.checkpoint_id(no_more_splits=False, idle=True)
    assert run.harness.statuses() == []
    run.assign(a=[[1]])
    run.checkpoint_id(no_more_splits=False)
    assert run.harness.statuses() == [False]


def test_an_idle_source_that_ends_turns_active_before_max():
    events = []
    run = Run()
    run.checkpoint_id(no_more_splits=False, idle=True)
    run.harness._output.emit_status = lambda idle: events.append(("idle", idle))
    run.harness._output.emit_watermark = lambda mark: events.append(("watermark", mark))
    run.checkpoint_id(no_more_splits=True)
    assert events == [("idle", False), ("watermark", MAX)]


def test_in_batch_mode_only_the_end_has_a_watermark():
    run = Run(batch_mode=True)
    run.assign(a=[[1], [2]])
    assert run.checkpoint_id()[1] == [MAX]


class PerEvent(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output):
        pass


def test_rule_2_watermarks_per_event_come_between_the_records():
    events = []
    run = Run(bounded=False, strategy=WatermarkStrategy.for_generator(PerEvent))
    run.harness._output.emit = lambda batch: events.extend(batch.values)
    run.harness._output.emit_watermark = events.append
    run.assign(a=[[1, 2]])
    run.checkpoint_id()
    assert events == ["a1", 1, "a2", 2]


@pytest.mark.parametrize("per_event", [False, True], ids=["periodic", "per event"])
def test_an_idle_split_that_returns_is_heard_before_time_moves(per_event):
    clock = ManualClock(1000)
    strategy = WatermarkStrategy.for_generator(PerEvent) if per_event else MONOTONOUS
    strategy = strategy.with_idleness(Duration.of_millis(100))
    run = Run(bounded=False, strategy=strategy, clock=clock)
    run.assign(a=[[100]], b=[[50]])
    run.checkpoint_id()
    clock.advance(100)
    run.checkpoint_id()
    run.extend("a", [500], [600])
    run.extend("b", [300])
    values, watermarks = run.checkpoint_id()
    assert values == ["a500", "a600", "b300"]
    assert watermarks == [300 if per_event else 299]


def test_rule_2_an_interval_of_0_leaves_only_watermarks_per_event():
    for strategy, watermarks in [
        (MONOTONOUS, []),
        (WatermarkStrategy.for_generator(PerEvent), [1, 2, 3]),
    ]:
        run = Run(bounded=False, strategy=strategy, auto_watermark_interval=0)
        run.assign(a=[[1, 2], [3]])
        assert run.checkpoint_id()[1] == watermarks


def test_the_assigner_of_a_source_gets_the_timestamps_of_the_source():
    strategy = MONOTONOUS.with_timestamp_assigner(lambda value, timestamp: timestamp * 2)
    run = Run(bounded=False, strategy=strategy)
    run.assign(a=[[21]])
    run.checkpoint_id()
    assert run.harness.output() == [("a21", 42)]
    assert run.harness.watermarks() == [41]


def test_a_reader_that_fails_names_operator_and_split():
    run = Run(name="orders")
    run.assign(a=[[1], OSError("disk gone")])
    with pytest.raises(UserCodeError, match="OSError: disk gone") as caught:
        run.checkpoint_id()
    assert "in operator 'orders', subtask 1 of 1, split a" in caught.value.detail
    assert isinstance(caught.value.__cause__, OSError)


def test_penstock_error_of_a_reader_is_not_wrapped():
    run = Run()
    run.assign(a=[RecordError("line 3 is not JSON")])
    with pytest.raises(RecordError, match="line 3"):
        run.checkpoint_id()


def test_an_assigner_that_fails_names_the_record():
    strategy = MONOTONOUS.with_timestamp_assigner(lambda value, _: 1 // 0)
    run = Run(strategy=strategy, name="orders")
    run.assign(a=[[1]])
    with pytest.raises(UserCodeError, match="ZeroDivisionError") as caught:
        run.checkpoint_id()
    assert "in operator 'orders', subtask 1 of 1, record 'a1'" in caught.value.detail


def test_the_reader_is_opened_and_closed_and_records_are_counted():
    run = Run()
    run.assign(a=[[1, 2], [3]])
    run.checkpoint_id()
    run.harness.close()
    assert run.source.calls == ["open", ("a", 0), "close"]
    assert run.harness.operator.reader.records == 3
