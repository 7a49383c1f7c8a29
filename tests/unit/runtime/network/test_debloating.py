"""What may be under way to an input follows from what its subtask processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.stage import DebloatSettings
from penstock.runtime.network.debloating import (
    BUFFERS,
    FIRST_RECORDS,
    BufferDebloater,
)


class Subtask:
    """Processes records at a rate, on a clock of its own."""

    def __init__(self, channels: int = 1, bytes_per_record: int = 4, **settings: float) -> None:
        self.clock = 100.0
        self.debloater = BufferDebloater(DebloatSettings(**settings), channels, self.clock)
        self._channels = channels
        self._weight = bytes_per_record

    def process(self, records: int, rate: float) -> None:
        """Process records in portions of about 10 ms."""
        done, portion = 0, max(1, int(rate / 100))
        while done < records:
            count = min(self.debloater.size.records, records - done, portion)
            if self._weight:
                self.debloater.weigh(count, count * self._weight)
            self.debloater.took(done % self._channels, count)
            done += count
            self.clock += count / rate
            if self.debloater.is_due(self.clock):
                self.debloater.measure(self.clock)

    @property
    def under_way(self) -> int:
        return self.debloater.size.records * BUFFERS * self._channels


def test_little_is_under_way_before_anything_was_measured() -> None:
    assert Subtask().under_way == FIRST_RECORDS
    assert Subtask(channels=8).under_way == FIRST_RECORDS
    assert Subtask().debloater.size.window <= 8 * FIRST_RECORDS


@pytest.mark.parametrize("rate", [0.1, 10, 1000, 50_000])
def test_in_flight_data_takes_about_the_target_time(rate: float) -> None:
    subtask = Subtask()
    subtask.process(max(3, int(4 * rate)), rate)
    assert subtask.under_way <= max(BUFFERS, 1.25 * rate)
    assert subtask.under_way >= 0.75 * rate - BUFFERS
    assert subtask.debloater.size.window <= max(1, 1.25 * rate * 4)


def test_the_target_time_is_a_setting() -> None:
    subtask = Subtask(target_s=0.25)
    subtask.process(4000, 1000)
    assert 180 <= subtask.under_way <= 320


def test_a_fast_subtask_soon_has_as_much_under_way_as_it_can_process() -> None:
    subtask = Subtask()
    before = subtask.clock
    subtask.process(2_000_000, 1_000_000)
    assert subtask.under_way >= 900_000
    assert subtask.clock - before < 3


def test_first_records_that_are_processed_fast_say_little() -> None:
    """The subtasks behind it may be slow, and hold it up only when the channels to them are full."""
    subtask = Subtask()
    subtask.process(FIRST_RECORDS, 1_000_000)
    assert subtask.under_way == 2 * FIRST_RECORDS
    subtask.process(10, 1)
    assert subtask.under_way <= 2 * FIRST_RECORDS


def test_after_a_slow_start_the_rate_doubles_with_every_measurement() -> None:
    subtask = Subtask()
    subtask.process(200, 100)  # the function connects to something
    before = subtask.clock
    subtask.process(400_000, 1_000_000)
    assert subtask.under_way >= 100_000
    assert subtask.clock - before < 1


def test_a_subtask_that_gets_slower_comes_down_within_its_samples() -> None:
    subtask = Subtask(samples=4)
    subtask.process(FIRST_RECORDS, 100_000)
    subtask.process(5000, 1000)
    assert subtask.under_way <= 1500


def test_a_subtask_that_is_held_up_works_in_bursts_and_is_slow() -> None:
    subtask = Subtask()
    for _ in range(50):
        subtask.process(200, 1_000_000)
        subtask.clock += 0.2  # no room for what it emits
    assert 600 <= subtask.under_way <= 1400


def test_a_long_stall_is_soon_forgotten() -> None:
    subtask = Subtask()
    subtask.process(2_000_000, 100_000)
    subtask.clock += 600
    subtask.process(1, 100_000)
    subtask.process(600_000, 100_000)
    assert subtask.under_way >= 80_000


def test_a_measurement_comes_as_soon_as_all_that_may_be_under_way_was_processed() -> None:
    debloater = BufferDebloater(DebloatSettings(), 1, 0.0)
    allowed, clock = FIRST_RECORDS, 0.0
    while allowed < 100_000:
        debloater.took(0, allowed - 1)
        assert not debloater.is_due(clock)
        debloater.took(0, 1)
        clock += 1e-5
        assert debloater.is_due(clock)
        assert debloater.measure(clock) is not None
        allowed *= 2
        assert debloater.size.records * BUFFERS == allowed


def test_records_larger_than_the_first_window_make_it_larger() -> None:
    subtask = Subtask(bytes_per_record=100_000)
    subtask.process(FIRST_RECORDS, 1000)
    assert subtask.debloater.size.window >= FIRST_RECORDS * 100_000


def test_a_small_difference_changes_nothing() -> None:
    subtask = Subtask()
    subtask.process(2000, 1000)
    before = subtask.debloater.size
    subtask.process(2000, 1100)
    assert subtask.debloater.size == before


def test_records_of_the_same_slot_have_no_size_and_are_counted_only() -> None:
    subtask = Subtask(bytes_per_record=0)
    subtask.process(2000, 1000)
    assert 750 <= subtask.under_way <= 1250


def test_credit_for_another_slot_is_small_before_the_first_record() -> None:
    """What was allowed is not taken back."""
    subtask = Subtask(bytes_per_record=0)
    subtask.process(200, 50)
    assert subtask.debloater.size.window <= 1000


def test_time_without_records_counts_with_the_next_ones() -> None:
    debloater = BufferDebloater(DebloatSettings(), 1, 0.0)
    assert debloater.measure(9.9) is None  # timers fired
    debloater.took(0, 100)
    size = debloater.measure(10.0)
    assert size is not None
    assert size.records * BUFFERS <= 10


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 5)), max_size=50),
    st.integers(1, 64),
)
def test_something_may_always_be_under_way(steps: list[tuple[int, float]], channels: int) -> None:
    debloater = BufferDebloater(DebloatSettings(), channels, 0.0)
    clock = 0.0
    for records, seconds in steps:
        clock += seconds
        if records:
            debloater.weigh(records, records * 3)
            debloater.took(records % channels, records)
        debloater.measure(clock)
        assert debloater.size.window >= 1
        assert 1 <= debloater.size.records < 2**31
