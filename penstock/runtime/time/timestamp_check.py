"""Detects timestamps that are not in milliseconds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from penstock.records.suspicious_records import TIMESTAMPS, SuspiciousRecordCounter
from penstock.time import clock

_FIRST_S: Final = 1_000_000_000  # 2001
_AHEAD_S: Final = 366 * 86_400  # events in the future are at most a year ahead
_UNITS: Final = {"seconds": 1, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_ENOUGH: Final = 1000  # records
_LATEST_MS: Final = 253_402_300_799_999  # the end of the year 9999


class TimestampCheck:
    """Checks whether the first timestamps of a subtask seem to have another unit than milliseconds.

    Seconds of today, read as milliseconds, are in January 1970: windows would be a thousand times too long. All of the
    first timestamps have to look like that, so that events that really are from 1970, or are counted from the start of a
    simulation or a device, pass with few exceptions. So do whole seconds in milliseconds. The first batches may hold a
    single record each, so their records count until others show that nothing is wrong.
    """

    def __init__(self, group: Any) -> None:
        self._counter = SuspiciousRecordCounter(group)
        self._lowest = self._highest = 0
        self._records = 0  # checked so far, and counted as suspicious
        self._done = False

    def look(self, timestamps: Sequence[int | None] | None) -> None:
        """Check the timestamps of a batch, unless enough were checked before."""
        if self._done or not timestamps:
            return
        known = [time for time in timestamps if time is not None]
        if known:
            self.look_at(min(known), max(known), len(known))

    def look_at(self, lowest: int, highest: int, records: int) -> None:
        """Check a batch by its extreme timestamps."""
        if self._done:
            return
        if self._records:
            lowest, highest = min(lowest, self._lowest), max(highest, self._highest)
        unit = unit_of(lowest)
        whole_seconds = lowest != highest and lowest % 1000 == highest % 1000 == 0
        if unit is None or unit != unit_of(highest) or (unit == "seconds" and whole_seconds):
            self._done = True
            if self._records:
                self._counter.count(TIMESTAMPS, -self._records, "")
            return
        self._lowest, self._highest = lowest, highest
        self._records += records
        self._counter.count(TIMESTAMPS, records, _meanings(lowest, unit))
        self._counter.checked(TIMESTAMPS, self._records)
        self._done = self._records >= _ENOUGH

    @property
    def done(self) -> bool:
        """Whether there is nothing more to check."""
        return self._done


def unit_of(timestamp: int) -> str | None:
    """Return the unit that a timestamp seems to have instead of milliseconds: in that unit it is between 2001 and next year.

    >>> unit_of(1_700_000_000), unit_of(1_700_000_000_000), unit_of(1_700_000_000_000_000), unit_of(60_000)
    ('seconds', None, 'microseconds', None)
    """
    last = int(clock.now()) + _AHEAD_S
    for unit, factor in _UNITS.items():
        if _FIRST_S * factor <= timestamp < last * factor:
            return unit
    return None


def _meanings(timestamp: int, unit: str) -> str:
    meant = _show(timestamp * 1000 // _UNITS[unit])
    taken = "is after the year 9999" if timestamp > _LATEST_MS else f"is {_show(timestamp)}"
    return f"{timestamp} {taken}, but {meant} if it is in {unit}"


def _show(millis: int) -> str:
    return dt.datetime.fromtimestamp(millis // 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
