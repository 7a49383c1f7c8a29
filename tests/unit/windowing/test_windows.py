"""Window objects."""

from __future__ import annotations

import io
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.windowing import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
)

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(TimeWindow(0, 5), 4, id="time"),
        pytest.param(TimeWindow(-5, 0), -1, id="time before the epoch"),
        pytest.param(CountWindow(7), MAX, id="count"),
        pytest.param(GlobalWindow.get(), MAX, id="global"),
    ],
)
def test_the_max_timestamp_is_the_last_that_belongs_to_the_window(window, expected):
    assert window.max_timestamp() == expected
    assert isinstance(window, Window)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param((0, 5), (3, 9), True, id="overlap"),
        pytest.param((0, 5), (5, 9), True, id="touch"),
        pytest.param((0, 5), (6, 9), False, id="apart"),
        pytest.param((0, 9), (3, 5), True, id="inside"),
    ],
)
def test_windows_intersect_when_they_overlap_or_touch(first, second, expected):
    assert TimeWindow(*first).intersects(TimeWindow(*second)) is expected
    assert TimeWindow(*second).intersects(TimeWindow(*first)) is expected


def test_a_cover_holds_both_windows():
    assert TimeWindow(0, 5).cover(TimeWindow(3, 9)) == TimeWindow(0, 9)


@pytest.mark.parametrize(
    ("timestamp", "offset", "size", "expected"),
    [
        pytest.param(7, 0, 5, 5, id="aligned to the epoch"),
        pytest.param(5, 0, 5, 5, id="at a start"),
        pytest.param(-1, 0, 5, -5, id="before the epoch"),
        pytest.param(-5, 0, 5, -5, id="at a start before the epoch"),
        pytest.param(7, 3, 5, 3, id="offset"),
        pytest.param(7, -3, 5, 7, id="negative offset"),
        pytest.param(1, 3, 5, -2, id="offset before the epoch"),
    ],
)
def test_a_window_start_is_the_last_aligned_time_before_the_timestamp(
    timestamp, offset, size, expected
):
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, size) == expected


@settings(deadline=None)
@given(st.integers(-(10**9), 10**9), st.integers(-99, 99), st.integers(100, 10**6))
def test_an_aligned_window_holds_its_timestamp(timestamp, offset, size):
    start = TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


@pytest.mark.parametrize("window", [TimeWindow(-3, 5), CountWindow(4), GlobalWindow()])
def test_windows_equal_their_pickled_selves_and_hash_alike(window):
    copy = pickle.loads(pickle.dumps(window, protocol=5))
    assert copy == window
    assert type(copy) is type(window)
    assert hash(copy) == hash(window)


def test_many_windows_pickle_small():
    windows = [TimeWindow(start, start + 1000) for start in range(0, 1_000_000, 1000)]
    assert len(pickle.dumps(windows, protocol=5)) < 25 * len(windows)


def test_time_windows_sort_by_start_and_end():
    windows = [TimeWindow(3, 4), TimeWindow(0, 9), TimeWindow(0, 5)]
    assert sorted(windows) == [TimeWindow(0, 5), TimeWindow(0, 9), TimeWindow(3, 4)]


def test_windows_show_their_fields():
    shown = [repr(window) for window in (TimeWindow(0, 5), CountWindow(1), GlobalWindow())]
    assert shown == ["TimeWindow(start=0, end=5)", "CountWindow(id=1)", "GlobalWindow"]


@pytest.mark.parametrize(
    ("serializer", "window"),
    [
        (TimeWindowSerializer(), TimeWindow(-1, 2**62)),
        (CountWindowSerializer(), CountWindow(12)),
        (GlobalWindowSerializer(), GlobalWindow()),
    ],
)
def test_window_serializers_round_trip(serializer, window):
    stream = io.BytesIO()
    serializer.serialize(window, stream)
    stream.seek(0)
    assert serializer.deserialize(stream) == window


class Merges:
    def __init__(self):
        self.found = []

    def merge(self, to_be_merged, merge_result):
        self.found.append((sorted(to_be_merged), merge_result))


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([(0, 5)], [], id="one"),
        pytest.param([(6, 9), (0, 5)], [], id="apart"),
        pytest.param([(5, 9), (0, 5)], [([(0, 5), (5, 9)], (0, 9))], id="touching"),
        pytest.param(
            [(0, 2), (10, 12), (1, 3), (11, 14)],
            [([(0, 2), (1, 3)], (0, 3)), ([(10, 12), (11, 14)], (10, 14))],
            id="two groups",
        ),
        pytest.param([(0, 9), (2, 3), (4, 5)], [([(0, 9), (2, 3), (4, 5)], (0, 9))], id="inside"),
    ],
)
def test_merging_reports_groups_of_touching_windows(windows, expected):
    merges = Merges()
    TimeWindow.merge_windows([TimeWindow(*window) for window in windows], merges)
    assert merges.found == expected
