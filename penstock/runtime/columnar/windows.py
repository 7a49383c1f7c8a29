"""Windows over time attributes: which slices of time rows belong to, and which windows are made of which slices.

The line of time is cut into slices that no window cuts: a row belongs to one slice, a window is some slices in a row. All is in *local* milliseconds: epoch milliseconds, or those of
the wall clock in a time zone where the time attribute is a TIMESTAMP_LTZ.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from penstock.errors import UnsupportedOperationError
from penstock.graph.operator_specs.columnar.common import WindowDefinition, column
from penstock.runtime.columnar.times import Millis, millis_array
from penstock.runtime.records import MAX_WATERMARK

_EPOCH: Final = dt.datetime(1970, 1, 1)
_HOUR: Final = 3_600_000
_UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "UCT", "Zulu"})


class LocalTime:
    """Between epoch milliseconds and those of the wall clock in a zone; None and UTC: they are the same."""

    def __init__(self, zone: str | None) -> None:
        self._name = None if zone is None or zone in _UTC_NAMES else zone
        self._zone = None if self._name is None else ZoneInfo(self._name)

    def of_column(self, series: pl.Series) -> Millis:
        """Return a time attribute as local milliseconds."""
        if (
            self._name is not None
            and isinstance(series.dtype, pl.Datetime)
            and series.dtype.time_zone
        ):
            series = series.dt.convert_time_zone(self._name).dt.replace_time_zone(None)
        return millis_array(series)

    def of_epoch(self, millis: int) -> int:
        """Return epoch milliseconds as local ones."""
        if self._zone is None:
            return millis
        moment = dt.datetime.fromtimestamp(0, self._zone.__class__("UTC")) + dt.timedelta(
            milliseconds=millis
        )
        local = moment.astimezone(self._zone).replace(tzinfo=None)
        return (local - _EPOCH) // dt.timedelta(milliseconds=1)

    @property
    def is_epoch(self) -> bool:
        """Whether local times are epoch times."""
        return self._zone is None

    def to_epoch(self, millis: int) -> int:
        """Return local milliseconds as epoch ones; an ambiguous time (clocks set back) is the earlier one."""
        if self._zone is None:
            return millis
        local = (_EPOCH + dt.timedelta(milliseconds=millis)).replace(tzinfo=self._zone)
        return (local - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)

    def timer(self, millis: int) -> int:
        """Return when a local time is over, in epoch milliseconds, as Flink sets its timers.

        A time that is there twice is over after the second one, so that windows wait for the rows of both. One that is left out when clocks are put forward
        is over at that moment.

        >>> twice = 1_729_997_999_999  # 2024-10-27 02:59:59.999
        >>> LocalTime("Europe/Berlin").timer(twice) - twice
        -3600000
        """
        if self._zone is None:
            return millis
        first, following = self.to_epoch(millis), self.to_epoch(millis + _HOUR)
        if following == first:
            return first - first % _HOUR
        return first + _HOUR if following - first > _HOUR else first

    def timers_of(self, ends: pl.Series) -> Millis:
        """Return when the last moments of windows are over, by the windows' local ends."""
        last = millis_array(ends) - 1
        if self._zone is None:
            return last
        distinct, places = np.unique(last, return_inverse=True)
        return np.array([self.timer(each) for each in distinct.tolist()], np.int64)[places]

    def ended(self, ends: range, time: int) -> int:
        """Return how many of these ascending ends of windows are reached when the time (a watermark) has come."""
        if time == MAX_WATERMARK:
            return len(ends)
        if self._zone is None:
            return bisect_right(ends, time + 1)
        return bisect_right(ends, time, key=lambda end: self.timer(end - 1))


class Slices:
    """The slices and windows of a window table function. Slices and windows are known by their ends."""

    def __init__(self, definition: WindowDefinition) -> None:
        self.definition = definition
        self.local = LocalTime(definition.zone)
        self.size = definition.size
        self.offset = definition.offset
        self.step = definition.slide or definition.size
        kind = definition.kind
        if kind == "TUMBLE":
            self.step = self.size
            self.length = self.size
        elif kind == "HOP":
            self.length = math.gcd(self.size, self.step)
        elif kind == "CUMULATE":
            self.length = self.step
        else:
            raise UnsupportedOperationError(f"{kind} windows cannot be sliced")

    def ends_of(self, frame: pl.DataFrame) -> Millis:
        """Return the slice of each row, by the time attribute, which must not be NULL."""
        assert self.definition.time is not None
        return self.ends_at(self.local.of_column(frame[column(self.definition.time)]))

    def ends_at(self, times: Millis) -> Millis:
        """Return the slices of local times."""
        return times - (times - self.offset) % self.length + self.length

    def _floor(self, time: int, step: int) -> int:
        return time - (time - self.offset) % step

    def windows_of(self, end: int) -> range:
        """Return the ends of the windows that a slice is part of, ascending."""
        begin = end - self.length
        if self.definition.kind == "TUMBLE":
            return range(end, end + 1)
        if self.definition.kind == "CUMULATE":
            return range(end, self._floor(begin, self.size) + self.size + 1, self.step)
        last = self._floor(begin, self.step) + self.size
        first = last - (last - end) // self.step * self.step if last >= end else last + self.step
        return range(first, last + 1, self.step)

    def start_of(self, end: int) -> int:
        """Return the start of the window with this end."""
        if self.definition.kind == "CUMULATE":
            return self._floor(end - 1, self.size)
        return end - self.size

    def slices_of(self, end: int) -> range:
        """Return the slices of the window with this end, ascending."""
        return range(self.start_of(end) + self.length, end + 1, self.length)

    def windows_at(self, times: Millis) -> Iterator[tuple[np.ndarray[Any, Any], Millis, Millis]]:
        """Return, for each of the windows that rows may be in: which rows are, and the starts and ends of their windows."""
        kind = self.definition.kind
        if kind == "TUMBLE":
            starts = times - (times - self.offset) % self.size
            yield np.arange(len(times)), starts, starts + self.size
        elif kind == "HOP":
            last = times - (times - self.offset) % self.step
            for number in range(-(-self.size // self.step)):
                starts = last - number * self.step
                inside = np.flatnonzero(starts + self.size > times)
                yield inside, starts[inside], starts[inside] + self.size
        else:
            starts = times - (times - self.offset) % self.size
            first = self.ends_at(times)
            for number in range(self.size // self.step):
                ends = first + number * self.step
                inside = np.flatnonzero(ends <= starts + self.size)
                yield inside, starts[inside], ends[inside]


def slices_of(definition: WindowDefinition) -> Slices:
    """Return the slices of TUMBLE, HOP and CUMULATE windows."""
    return Slices(definition)
