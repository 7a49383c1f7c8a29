"""Timestamps and watermarks of one stream of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import Watermark, WatermarkGenerator
from penstock.runtime.records import RowBatch
from penstock.runtime.time.timestamp_assignment import TimestampAssignment
from penstock.runtime.user_code import RecordFailedError

MIN = -(2**63)


def bounded(millis):
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(millis))


def run(assignment, batch):
    """Return the emitted batches and watermarks, in order."""
    events = []
    assignment.on_batch(
        batch,
        lambda each: events.append((each.values, each.timestamps)),
        lambda watermark: events.append(watermark),
    )
    return events


@pytest.mark.parametrize(
    ("strategy", "timestamps", "watermark"),
    [
        pytest.param(bounded(5), [], MIN, id="before any event"),
        pytest.param(bounded(5), [10], 4, id="max - bound - 1"),
        pytest.param(bounded(5), [10, 3, 7], 4, id="out of order"),
        pytest.param(WatermarkStrategy.for_monotonous_timestamps(), [10], 9, id="monotonous"),
        pytest.param(bounded(5), [None, 10, None], 4, id="some without a timestamp"),
        pytest.param(bounded(5), [None, None], MIN, id="all without a timestamp"),
        pytest.param(bounded(5), [MIN + 2], MIN, id="never below the least"),
        pytest.param(WatermarkStrategy.no_watermarks(), [10], MIN, id="no watermarks"),
    ],
)
def test_rule_1_the_watermark_of_timestamps(strategy, timestamps, watermark):
    assignment = TimestampAssignment(strategy)
    if timestamps:
        assert run(assignment, RowBatch(["x"] * len(timestamps), timestamps)) == [
            (["x"] * len(timestamps), timestamps)
        ]
    assert assignment.watermark == watermark
    assert assignment.on_periodic() == watermark


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1), max_size=8), st.integers(0, 50))
def test_rule_1_by_batch_equals_the_generator_by_event(batches, bound):
    fast = TimestampAssignment(bounded(bound))
    generator = bounded(bound).create_generator()
    for timestamps in batches:
        run(fast, RowBatch(list(timestamps), list(timestamps)))
        for timestamp in timestamps:
            generator.on_event(None, timestamp, None)
        assert fast.on_periodic() == generator.current_watermark()


def test_the_assigner_sees_the_record_and_the_timestamp_it_had():
    seen = []

    def extract(value, timestamp):
        seen.append((value, timestamp))
        return value * 10

    assignment = TimestampAssignment(bounded(0).with_timestamp_assigner(extract))
    assert run(assignment, RowBatch([1, 2])) == [([1, 2], [10, 20])]
    assert run(assignment, RowBatch([3, 4], [7, None])) == [([3, 4], [30, 40])]
    assert seen == [(1, MIN), (2, MIN), (3, 7), (4, MIN)]


class Punctuated(WatermarkGenerator):
    """Emits at events that are even; counts its periodic calls."""

    def __init__(self):
        self.seen = []
        self.periods = 0

    def on_event(self, event, timestamp, output):
        self.seen.append(timestamp)
        if event % 2 == 0:
            output.emit_watermark(Watermark(timestamp))
        if event == 9:
            output.mark_idle()

    def on_periodic_emit(self, output):
        self.periods += 1
        if self.periods == 2:
            output.emit_watermark(1000)

    def snapshot(self):
        return self.periods

    def restore(self, state):
        self.periods = state


def test_rule_2_a_generator_may_emit_per_event_and_the_watermark_stays_in_place():
    assignment = TimestampAssignment(WatermarkStrategy.for_generator(Punctuated))
    assert run(assignment, RowBatch([1, 2, 3, 4, 5], [10, 20, 30, 40, 50])) == [
        ([1, 2], [10, 20]),
        20,
        ([3, 4], [30, 40]),
        40,
        ([5], [50]),
    ]


def test_a_generator_cannot_take_a_watermark_back():
    assignment = TimestampAssignment(WatermarkStrategy.for_generator(Punctuated))
    assert run(assignment, RowBatch([2, 4], [20, 10])) == [([2], [20]), 20, ([4], [10])]
    assert assignment.watermark == 20


def test_a_generator_sees_the_least_timestamp_where_there_is_none():
    assignment = TimestampAssignment(WatermarkStrategy.for_generator(Punctuated))
    run(assignment, RowBatch([1, 3], [None, 5]))
    run(assignment, RowBatch([5]))
    assert assignment._generator.seen == [MIN, 5, MIN]


def test_rule_2_the_periodic_call_may_emit_and_its_state_is_kept():
    assignment = TimestampAssignment(WatermarkStrategy.for_generator(Punctuated))
    run(assignment, RowBatch([2], [20]))
    assert assignment.on_periodic() == 20
    restored = TimestampAssignment(WatermarkStrategy.for_generator(Punctuated))
    restored.restore(assignment.snapshot())
    assert restored.watermark == 20
    assert restored.on_periodic() == 1000


def test_a_generator_may_mark_the_stream_idle_and_a_watermark_ends_that():
    assignment = TimestampAssignment(WatermarkStrategy.for_generator(Punctuated))
    run(assignment, RowBatch([9], [5]))
    assert assignment.idle
    run(assignment, RowBatch([2], [20]))
    assert not assignment.idle


def test_a_bounded_assignment_goes_on_from_its_snapshot():
    assignment = TimestampAssignment(bounded(5))
    run(assignment, RowBatch(["x"], [100]))
    restored = TimestampAssignment(bounded(5))
    restored.restore(assignment.snapshot())
    run(restored, RowBatch(["x"], [50]))
    assert restored.watermark == 94
    restored.restore(None)
    assert restored.watermark == 94


def test_error_of_a_timestamp_assigner_names_the_record():
    strategy = bounded(0).with_timestamp_assigner(lambda value, _: value["ts"])
    with pytest.raises(RecordFailedError) as caught:
        run(TimestampAssignment(strategy), RowBatch([{"ts": 1}, {"no": 2}, {"ts": 3}]))
    assert caught.value.record == {"no": 2}
    assert isinstance(caught.value.cause, KeyError)


def test_error_of_a_watermark_generator_names_the_record():
    with pytest.raises(RecordFailedError) as caught:
        run(
            TimestampAssignment(WatermarkStrategy.for_generator(Punctuated)),
            RowBatch([2, "two"], [1, 2]),
        )
    assert caught.value.record == "two"


def assigned(*timestamps):
    """Return what happens to timestamps that an assigner returns."""
    strategy = bounded(0).with_timestamp_assigner(lambda value, _: value)
    ((_, found),) = run(TimestampAssignment(strategy), RowBatch(list(timestamps), None))
    return found


def test_a_fraction_of_a_millisecond_is_cut_off():
    found = assigned(1_700_000_000_123.9, 5.0, -1.5, 7, True)
    assert found == [1_700_000_000_123, 5, -1, 7, 1]
    assert {type(time) for time in found} == {int}


@pytest.mark.parametrize(
    ("timestamp", "problem"),
    [
        (1_700_000_000.75, "returned seconds"),
        ("1700000000000", "returned a value that is not a number"),
        (None, "returned a value that is not a number"),
        (float("nan"), "returned a value that is not a number"),
        (2**63, "returned a number beyond 64 bits"),
        (1e30, "returned a number beyond 64 bits"),
    ],
)
@pytest.mark.parametrize("before", [(), (1, 2)], ids=["alone", "in the middle of a batch"])
def test_timestamp_not_in_milliseconds_is_rejected(before, timestamp, problem):
    with pytest.raises(RecordFailedError) as caught:
        assigned(*before, timestamp, *before)
    assert problem in str(caught.value.__cause__ or caught.value.args[0])
    assert caught.value.record is timestamp
