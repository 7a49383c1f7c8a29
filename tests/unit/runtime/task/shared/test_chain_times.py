"""Which operator of a chain has the time: measured in some spans, which stand for all."""

from __future__ import annotations

import pytest

from penstock.runtime.task.shared import chain_times
from penstock.runtime.task.shared.chain_times import ChainTimes, TimedCall


class Clock:
    """Time that goes on when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Output:
    """An output that learns whether its times are wanted."""

    def __init__(self):
        self.reported = []

    def sample(self, times):
        self.reported.append(times is not None)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(chain_times, "perf_counter", clock)
    return clock


def work(clock, times, *steps):
    """One span in which places of the chain work for some seconds each."""
    times.begin()
    for place, seconds in steps:
        before = times.enter(place) if times.running else None
        clock.now += seconds
        if before is not None:
            times.enter(before)
    times.end()


def test_the_time_of_an_operator_is_without_that_of_the_operators_after_it(clock):
    times = ChainTimes([Output(), Output()])

    def head(seconds):
        clock.now += seconds
        TimedCall(tail, 1, times)(seconds)

    def tail(seconds):
        clock.now += 3 * seconds

    times.begin()
    clock.now += 1.0  # decoding
    TimedCall(head, 0, times)(1.0)
    times.end()
    assert times.take() == pytest.approx([0.2, 0.6, 0.2])


def test_of_many_spans_only_some_are_measured_and_outputs_are_left_alone_in_between(clock):
    output = Output()
    times = ChainTimes([output])
    for _ in range(10_000):
        work(clock, times, (0, 0.001))
    measured = output.reported.count(True)
    assert measured < 200
    times.take()
    output.reported.clear()
    for _ in range(10_000):
        work(clock, times, (0, 0.001))
    assert 15 <= output.reported.count(True) <= 20  # by now it knows how many spans there are
    assert output.reported.count(False) == output.reported.count(True)


def test_spans_that_are_measured_stand_for_those_that_are_not(clock):
    times = ChainTimes([Output(), Output()])
    for number in range(50_000):  # the second operator has all of the time after the first spans
        work(clock, times, (0, 0.001)) if number < 25_000 else work(clock, times, (1, 0.001))
    first, second, outside = times.take()
    assert first == pytest.approx(0.5, abs=0.03)
    assert second == pytest.approx(0.5, abs=0.03)
    assert outside == 0


def test_no_shares_without_measurements(clock):
    times = ChainTimes([Output()])
    assert times.take() == []
    work(clock, times, (0, 1.0))
    assert times.take() == [1.0, 0.0]
    assert times.take() == []


def test_an_operator_that_fails_gives_the_turn_back(clock):
    times = ChainTimes([Output(), Output()])

    def fails(_):
        clock.now += 1.0
        raise ValueError

    times.begin()
    before = times.enter(0)
    with pytest.raises(ValueError):
        TimedCall(fails, 1, times)(None)
    clock.now += 1.0
    times.enter(before)
    times.end()
    assert times.take() == [0.5, 0.5, 0.0]


def test_the_time_of_a_neighbour_in_the_slot_is_left_out(clock):
    times = ChainTimes([Output()])
    times.begin()
    times.enter(0)
    clock.now += 1.0
    times.enter(times.outside)
    clock.now += 50.0
    times.skip()
    clock.now += 1.0
    times.end()
    assert times.take() == [0.5, 0.5]
