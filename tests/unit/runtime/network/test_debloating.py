"""How many records may be in flight to an input follows from what its subtask processes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.stage import DebloatSettings
from penstock.runtime.network.debloating import (
    FIRST_RECORDS,
    GROWTH,
    UNLIMITED,
    BufferDebloater,
    buffer_records,
    share,
)


class Subtask:
    """Processes records at a rate, on a clock of its own."""

    def __init__(self, **settings: float) -> None:
        self.clock = 100.0
        self.downstream = math.inf
        self.debloater = BufferDebloater(DebloatSettings(**settings), self.clock)

    def process(self, records: int, rate: float) -> None:
        """Process records in portions of about 10 ms, at most a buffer."""
        done, portion = 0, max(1, int(rate / 100))
        while done < records:
            count = min(buffer_records(self.window), records - done, portion)
            self.debloater.took(count)
            done += count
            self.clock += count / rate
            if self.debloater.is_due(self.clock):
                self.debloater.measure(self.clock, self.downstream)

    @property
    def window(self) -> int:
        return self.debloater.window


def test_few_records_are_in_flight_before_anything_was_measured() -> None:
    assert Subtask().window == FIRST_RECORDS


@pytest.mark.parametrize("rate", [0.1, 10, 1000, 50_000])
def test_records_in_flight_take_about_the_target_time(rate: float) -> None:
    subtask = Subtask()
    subtask.process(max(10, int(4 * rate)), rate)
    assert max(1, 0.75 * rate) <= subtask.window <= max(1, 1.25 * rate)


def test_the_target_time_is_a_setting() -> None:
    subtask = Subtask(target_s=0.25)
    subtask.process(4000, 1000)
    assert 180 <= subtask.window <= 320


def test_a_fast_subtask_soon_has_as_much_in_flight_as_it_can_process() -> None:
    subtask = Subtask()
    before = subtask.clock
    subtask.process(2_000_000, 1_000_000)
    assert subtask.window >= 900_000
    assert subtask.clock - before < 3


@pytest.mark.parametrize("processed", [4, 20, 100, 1000, 50_000])
def test_little_more_is_in_flight_than_was_processed_already(processed: int) -> None:
    """A sink may collect thousands of records at once before it writes them slowly."""
    subtask = Subtask()
    subtask.process(processed, 1_000_000)
    assert subtask.window <= GROWTH * processed


def test_a_measurement_is_due_once_a_whole_window_was_processed() -> None:
    debloater = BufferDebloater(DebloatSettings(), 0.0)
    allowed, clock = FIRST_RECORDS, 0.0
    while allowed < 100_000:
        debloater.took(allowed - 1)
        assert not debloater.is_due(clock)
        debloater.took(1)
        clock += 1e-5
        assert debloater.is_due(clock)
        allowed *= GROWTH
        assert debloater.measure(clock) == allowed


def test_a_window_does_not_grow_beyond_the_windows_of_the_receivers() -> None:
    """A fast subtask upstream of a slow one fills the channel between them immediately."""
    subtask = Subtask()
    subtask.downstream = 10.0
    subtask.process(1000, 1_000_000)
    assert subtask.window == 10
    subtask.downstream = 50.0
    subtask.process(1000, 1_000_000)
    assert subtask.window == 50
    subtask.downstream = 5.0  # for a moment: it has emitted much for a few records
    subtask.process(1000, 1_000_000)
    assert subtask.window == 50


def test_the_window_of_a_backpressured_subtask_follows_its_receivers() -> None:
    subtask = Subtask()
    subtask.process(100_000, 1_000_000)
    assert subtask.window > 700
    assert subtask.debloater.follow(700.0) == 700
    assert subtask.debloater.follow(math.inf) == 700
    assert subtask.debloater.follow(0.01) == 1


def test_after_a_slow_start_the_window_grows_with_every_measurement() -> None:
    subtask = Subtask()
    subtask.process(200, 100)  # the function connects to something
    before = subtask.clock
    subtask.process(400_000, 1_000_000)
    assert subtask.window >= 50_000
    assert subtask.clock - before < 1


@pytest.mark.parametrize("slow", [1000, 50])
def test_a_subtask_that_becomes_slow_is_noticed_with_the_next_measurement(slow: float) -> None:
    subtask = Subtask()
    subtask.process(1_000_000, 100_000)
    subtask.process(int(0.5 * slow), slow)
    assert subtask.window <= 2.1 * slow
    subtask.process(int(30 * slow), slow)
    assert subtask.window <= 1.25 * slow


def test_a_backpressured_subtask_works_in_bursts_and_is_slow() -> None:
    subtask = Subtask()
    for _ in range(50):
        subtask.process(200, 1_000_000)
        subtask.clock += 0.2  # backpressured
    assert 600 <= subtask.window <= 1400


def test_a_long_stall_is_soon_forgotten() -> None:
    subtask = Subtask()
    subtask.process(2_000_000, 100_000)
    subtask.clock += 600
    subtask.process(1, 100_000)
    subtask.process(600_000, 100_000)
    assert subtask.window >= 80_000


def test_time_without_records_counts_with_the_next_ones() -> None:
    debloater = BufferDebloater(DebloatSettings(), 0.0)
    assert debloater.measure(9.9) == FIRST_RECORDS  # timers fired
    debloater.took(1)
    assert debloater.measure(10.0) == 1


@pytest.mark.parametrize(("window", "channels", "expected"), [(100, 3, 33), (2, 3, 1), (7, 1, 7)])
def test_one_record_may_be_in_flight_in_each_channel(
    window: int, channels: int, expected: int
) -> None:
    assert share(window, channels) == expected


@given(
    st.lists(
        st.tuples(st.integers(0, 5000), st.floats(0, 5), st.floats(0, 1e9) | st.just(math.inf)),
        max_size=50,
    )
)
def test_something_may_always_be_in_flight(steps: list[tuple[int, float, float]]) -> None:
    debloater = BufferDebloater(DebloatSettings(), 0.0)
    clock = 0.0
    for records, seconds, downstream in steps:
        clock += seconds
        debloater.took(records)
        assert 1 <= debloater.measure(clock, downstream) <= UNLIMITED
        assert 1 <= debloater.follow(downstream) <= UNLIMITED
