"""How long a reader may read: measured by a clock that nobody can set."""

from __future__ import annotations

import dataclasses
import time

import pytest

from penstock.common import clock
from penstock.connectors.source import ReadLimits
from penstock.datastream.connectors import DataGeneratorSource
from penstock.testing.clock_shift import clock_shift


@pytest.fixture
def monotonic(monkeypatch):
    now = [500.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_without_a_deadline_a_reader_takes_as_long_as_it_likes():
    limits = ReadLimits()
    assert (limits.remaining, limits.expired) == (None, False)


@pytest.mark.parametrize("shift", [-3600, 0, 3600])
def test_a_clock_that_is_set_changes_nothing(monotonic, shift):
    limits = ReadLimits(clock.now() + 10)
    with clock_shift(shift):
        assert limits.remaining == pytest.approx(10, abs=0.5)
        assert not limits.expired
        monotonic[0] += 11
        assert limits.remaining == 0
        assert limits.expired


def test_a_deadline_that_has_passed_is_over_at_once():
    limits = ReadLimits(0.0)
    assert limits.expired
    assert limits.remaining == 0


def test_limits_are_equal_if_they_say_the_same_and_can_be_replaced():
    assert ReadLimits(5.0, 7) == ReadLimits(5.0, 7)
    assert dataclasses.replace(ReadLimits(5.0), batch_size=3) == ReadLimits(5.0, 3)
    assert repr(ReadLimits(5.0, 7)) == "ReadLimits(deadline=5.0, batch_size=7)"


def test_a_slow_generator_naps_while_the_clock_goes_back():
    source = DataGeneratorSource(str, 3, rate_per_second=0.001)
    (split,) = source.create_enumerator(1).discover()
    reader = source.create_reader()
    naps = []
    reader.sleep = naps.append
    start = clock.now()
    limits = ReadLimits(start + 5)
    reader.clock = lambda: start - 3600  # an hour before
    batches = reader.read(split, (0, start - 3600), limits)
    assert [next(batches).records for _ in range(3)] == [[], [], []]
    assert naps == [1.0, 1.0, 1.0]
