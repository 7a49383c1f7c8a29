"""The session time zone: points in time as local times and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import polars as pl

from penstock.errors import ArgumentError

_OFFSET = re.compile(r"^(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?$")
_UTC = {"UTC", "GMT", "Z", "UT", "UNIVERSAL", "ETC/UTC", "GREENWICH", "ZULU"}


@dataclass(frozen=True)
class Zone:
    """A time zone by its name: one of the IANA database, or an offset such as GMT+08:00.

    >>> Zone("GMT+08:00").offset
    datetime.timedelta(seconds=28800)
    """

    name: str

    @cached_property
    def offset(self) -> timedelta | None:
        """The distance from UTC if it is always the same."""
        if self.name.upper() in _UTC:
            return timedelta()
        found = _OFFSET.match(self.name)
        if found is None:
            return None
        sign = -1 if found[1] == "-" else 1
        return sign * timedelta(hours=int(found[2]), minutes=int(found[3] or 0))

    def check(self) -> Zone:
        """Return the zone; raise an error if the name is unknown."""
        if self.offset is None:
            try:
                ZoneInfo(self.name)
            except (KeyError, ValueError, OSError):
                raise ArgumentError(
                    f"unknown time zone '{self.name}'",
                    hint="use a name such as Europe/Berlin, or an offset such as GMT+08:00",
                ) from None
        return self

    def to_local(self, instant: pl.Expr) -> pl.Expr:
        """Return points in time (UTC) as local times without a zone."""
        if self.offset is not None:
            local = instant.dt.replace_time_zone(None)
            return local + self.offset if self.offset else local
        return instant.dt.convert_time_zone(self.name).dt.replace_time_zone(None)

    def to_instant(self, local: pl.Expr, *, latest: bool = False) -> pl.Expr:
        """Return local times as points in time: the first of two, or the `latest`; a time that a change of clocks skips is moved on by what it skips."""
        if self.offset is not None:
            shifted = local - self.offset if self.offset else local
            return shifted.dt.replace_time_zone("UTC")

        def placed(times: pl.Expr) -> pl.Expr:
            return times.dt.replace_time_zone(
                self.name, ambiguous="latest" if latest else "earliest", non_existent="null"
            ).dt.convert_time_zone("UTC")

        day = pl.duration(days=1)
        return pl.coalesce(placed(local), placed(local - day) + day)
