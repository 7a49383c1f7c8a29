"""assign_timestamps_and_watermarks as an operator."""

from __future__ import annotations

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import TimestampsAndWatermarksSpec
from penstock.testing import ManualClock, OperatorHarness

MIN, MAX = -(2**63), 2**63 - 1
STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(
    Duration.of_millis(5)
).with_timestamp_assigner(lambda value, _: value)
IDLE = STRATEGY.with_idleness(Duration.of_millis(100))


def harness_of(strategy=STRATEGY, **options):
    return OperatorHarness(TimestampsAndWatermarksSpec(strategy), **options)


def barrier(harness):
    """Pass a barrier; return the watermarks and statuses since the last one."""
    snapshot = harness.snapshot()
    found = harness.watermarks(), harness.statuses()
    harness.clear()
    return *found, snapshot


def test_records_get_their_timestamps_and_the_watermark_comes_at_the_barrier():
    harness = harness_of()
    harness.process_elements([(10, None), (30, 7), (20, None)])
    assert harness.output() == [(10, 10), (30, 30), (20, 20)]
    assert harness.watermarks() == []
    assert barrier(harness)[:2] == ([24], [])
    harness.process_element(25)
    assert barrier(harness)[:2] == ([], [])


def test_a_watermark_comes_within_the_epoch_when_the_interval_is_over():
    harness = harness_of(auto_watermark_interval=1e-6)
    harness.process_element(10)
    harness.process_element(30)
    assert harness.watermarks() == [4, 24]


def test_of_the_watermarks_from_before_only_the_last_counts():
    harness = harness_of()
    harness.process_element(10)
    harness.process_watermark(1000)
    assert harness.watermarks() == []
    harness.process_watermark(MAX)
    assert harness.watermarks() == [MAX]
    assert barrier(harness)[0] == [MAX]


def test_the_status_from_before_is_ignored():
    harness = harness_of()
    harness.process_status(True)
    assert harness.statuses() == []


def test_a_silent_input_turns_idle_and_returns_with_a_record():
    harness = harness_of(IDLE, clock=ManualClock(1000))
    harness.process_element(10)
    assert barrier(harness)[:2] == ([4], [])
    assert harness.operator.next_wakeup() == 1100
    harness.clock.advance(100)
    assert barrier(harness)[:2] == ([], [True])
    assert harness.operator.next_wakeup() is None
    harness.process_element(20)
    assert barrier(harness)[:2] == ([14], [False])


def test_records_before_the_silence_still_move_the_watermark():
    harness = harness_of(IDLE, clock=ManualClock(1000))
    harness.process_element(10)
    harness.clock.advance(200)
    assert barrier(harness)[:2] == ([4], [True])


def test_an_idle_input_that_ends_turns_active_before_max():
    harness = harness_of(IDLE, clock=ManualClock(1000))
    harness.clock.advance(100)
    barrier(harness)
    events = []
    harness._output.emit_status = lambda idle: events.append(idle)
    harness._output.emit_watermark = lambda mark: events.append(mark)
    harness.process_watermark(MAX)
    assert events == [False, MAX]


def test_progress_survives_a_restore():
    harness = harness_of()
    harness.process_element(100)
    *_, snapshot = barrier(harness)
    restored = harness_of(snapshots=[snapshot])
    restored.process_element(50)
    assert barrier(restored)[0] == []
    restored.process_element(110)
    assert barrier(restored)[0] == [104]


def test_in_batch_mode_only_the_end_has_a_watermark():
    harness = harness_of(batch_mode=True)
    harness.process_element(100)
    assert barrier(harness)[0] == []
    harness.process_watermark(MAX)
    assert harness.watermarks() == [MAX]


class Failing(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        if event == 3:
            raise ValueError("three")

    def on_periodic_emit(self, output):
        raise ValueError("periodic")


@pytest.mark.parametrize(
    ("strategy", "record"),
    [
        pytest.param(STRATEGY.with_timestamp_assigner(lambda v, _: [0, 1, 2][v]), 3, id="assigner"),
        pytest.param(WatermarkStrategy.for_generator(Failing), 3, id="generator"),
    ],
)
def test_user_code_that_fails_names_operator_and_record(strategy, record):
    harness = harness_of(strategy, name="times")
    with pytest.raises(UserCodeError) as caught:
        harness.process_elements([(1, None), (record, None), (2, None)])
    assert caught.value.detail == "in operator 'times', subtask 1 of 1, record 3"


def test_a_generator_that_fails_periodically_names_the_operator():
    harness = harness_of(WatermarkStrategy.for_generator(Failing), name="times")
    with pytest.raises(UserCodeError, match="ValueError: periodic") as caught:
        harness.snapshot()
    assert caught.value.detail == "in operator 'times', subtask 1 of 1"


def test_an_error_of_a_later_operator_is_not_taken_for_one_of_the_assigner():
    harness = harness_of()
    later = UserCodeError("KeyError: 'x'", detail="in operator 'map', subtask 1 of 1")

    def emit(batch):
        raise later

    harness._output.emit = emit
    with pytest.raises(UserCodeError) as caught:
        harness.process_element(1)
    assert caught.value is later
