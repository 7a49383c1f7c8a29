from __future__ import annotations

import copy
import datetime as dt
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Duration, Instant, Time
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.graph.key_groups import stable_hash
from penstock.time.durations import to_millis


@pytest.mark.parametrize(
    ("duration", "millis"),
    [
        pytest.param(Duration.of_days(2), 172_800_000, id="days"),
        pytest.param(Duration.of_hours(3), 10_800_000, id="hours"),
        pytest.param(Duration.of_minutes(4), 240_000, id="minutes"),
        pytest.param(Duration.of_seconds(5), 5000, id="seconds"),
        pytest.param(Duration.of_millis(6), 6, id="millis"),
        pytest.param(Duration.of_nanos(7_999_999), 7, id="nanos are cut"),
        pytest.param(Duration.of_seconds(-1), -1000, id="negative"),
        pytest.param(Duration.of_timedelta(dt.timedelta(seconds=1.5)), 1500, id="timedelta"),
    ],
)
def test_a_duration_gives_its_whole_milliseconds(duration, millis):
    assert duration.to_millis() == millis


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (Duration(), "PT0S"),
        (Duration.of_days(1), "PT24H"),
        (Duration.of_minutes(90), "PT1H30M"),
        (Duration.of_millis(1500), "PT1.5S"),
        (Duration.of_nanos(1), "PT0.000000001S"),
        (Duration.of_seconds(-61), "PT-1M-1S"),
    ],
    ids=str,
)
def test_a_duration_shows_itself_as_java_does(duration, text):
    assert str(duration) == text


@pytest.mark.parametrize("bad", [1.5, "1", True, None], ids=repr)
@pytest.mark.parametrize("create", [Duration.of_seconds, Time.minutes, Instant.of_epoch_milli])
def test_amounts_must_be_whole_numbers(create, bad):
    with pytest.raises(ArgumentTypeError):
        create(bad)


@given(st.integers(-(10**20), 10**20), st.integers(-(10**20), 10**20))
def test_durations_compare_and_hash_by_value(left, right):
    a, b = Duration.of_nanos(left), Duration.of_nanos(right)
    assert (a == b) == (left == right)
    assert (a < b) == (left < right)
    assert hash(a) == hash(Duration.of_nanos(left))


@pytest.mark.parametrize(
    ("time", "millis"),
    [
        (Time.days(1), 86_400_000),
        (Time.hours(1), 3_600_000),
        (Time.minutes(1), 60_000),
        (Time.seconds(1), 1000),
        (Time.milliseconds(1), 1),
    ],
    ids=str,
)
def test_a_time_gives_its_milliseconds(time, millis):
    assert time.to_milliseconds() == millis
    assert time == Time(millis)
    assert hash(time) == hash(Time(millis))


def test_a_time_and_a_duration_are_not_equal():
    assert Time.seconds(1) != Duration.of_seconds(1)


@given(st.integers(-(2**62), 2**62))
def test_an_instant_keeps_its_milliseconds(millis):
    instant = Instant.of_epoch_milli(millis)
    assert instant.to_epoch_milli() == millis
    assert 0 <= instant.nanos < 10**9


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (Instant(0, 0), "1970-01-01T00:00:00Z"),
        (Instant.of_epoch_milli(-1), "1969-12-31T23:59:59.999Z"),
        (Instant(1, 1), "1970-01-01T00:00:01.000000001Z"),
        (Instant(10**15, 0), "Instant<1000000000000000, 0>"),
    ],
    ids=repr,
)
def test_an_instant_shows_itself_as_java_does(instant, text):
    assert str(instant) == text


def test_an_instant_refuses_nanos_beyond_a_second():
    with pytest.raises(ArgumentError, match="nanos"):
        Instant(0, 10**9)


def test_an_instant_can_be_a_key():
    assert stable_hash(Instant(1, 2)) == stable_hash(Instant(1, 2))


@pytest.mark.parametrize(
    "value", [Duration.of_millis(3), Time.hours(2), Instant(5, 6)], ids=lambda v: type(v).__name__
)
def test_times_survive_pickling_and_copying(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value


@pytest.mark.parametrize(
    "value",
    [Duration.of_seconds(1), Time.seconds(1), dt.timedelta(seconds=1), 1000],
    ids=lambda value: type(value).__name__,
)
def test_an_amount_of_time_may_have_any_of_four_types(value):
    assert to_millis(value, "interval") == 1000


@pytest.mark.parametrize("bad", ["10 s", 1.0, True, None], ids=repr)
def test_anything_else_is_refused_with_a_hint(bad):
    with pytest.raises(ArgumentTypeError, match="interval is not an amount of time") as caught:
        to_millis(bad, "interval")
    assert "Duration.of_seconds" in str(caught.value)


def test_an_amount_below_the_minimum_is_refused():
    assert to_millis(0, "gap", minimum=0) == 0
    with pytest.raises(ArgumentError, match="gap must be at least 1 ms"):
        to_millis(Duration.of_nanos(5), "gap", minimum=1)
