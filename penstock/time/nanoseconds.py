"""Nanoseconds of points in time: datetime ends at microseconds, so values that are finer are pandas.Timestamp, which is a datetime."""

from __future__ import annotations

import datetime as dt
import re
from typing import cast

_EPOCH = dt.datetime(1970, 1, 1)
_FINE = re.compile(r"\.\d{6}(\d{1,3})")
_MICROSECOND = dt.timedelta(microseconds=1)
#: The first and the last microsecond whose nanoseconds 64 bits can count: 1677-09-21 and 2262-04-11
FIRST_MICROS, LAST_MICROS = -(2**63) // 1000 + 1, (2**63 - 1) // 1000 - 1


def nanos_of_second(value: dt.datetime | dt.time) -> int:
    """Return the fraction of a second in nanoseconds.

    >>> nanos_of_second(dt.datetime(2024, 1, 1, 0, 0, 0, 123456))
    123456000
    """
    return value.microsecond * 1000 + int(getattr(value, "nanosecond", 0))


def to_nanos(value: dt.datetime) -> int:
    """Return the nanoseconds since the epoch; a time without a zone counts as UTC. ValueError if 64 bits cannot count them.

    >>> to_nanos(dt.datetime(1970, 1, 1, 0, 0, 1))
    1000000000
    """
    plain = value if value.tzinfo is None else value.astimezone(dt.UTC)
    whole = dt.datetime(
        plain.year, plain.month, plain.day, plain.hour, plain.minute, plain.second, plain.microsecond
    )  # fmt: skip
    micros = (whole - _EPOCH) // _MICROSECOND
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise ValueError(
            f"{value} is outside the range of nanosecond timestamps, the years 1678 to 2261"
        )
    return micros * 1000 + int(getattr(value, "nanosecond", 0))


def from_nanos(nanos: int, zone: dt.tzinfo | None = None) -> dt.datetime:
    """Return a point in time: a datetime, or a pandas.Timestamp if it is finer than a microsecond.

    >>> from_nanos(1_500_000_000)
    datetime.datetime(1970, 1, 1, 0, 0, 1, 500000)
    >>> from_nanos(1_500_000_001)
    Timestamp('1970-01-01 00:00:01.500000001')
    """
    if nanos % 1000 == 0:
        found = _EPOCH + dt.timedelta(microseconds=nanos // 1000)
        return found if zone is None else found.replace(tzinfo=zone)
    import pandas as pd  # type: ignore[import-untyped]

    return cast("dt.datetime", pd.Timestamp(nanos, unit="ns", tz=zone))


def moment_of(text: str) -> dt.datetime:
    """Parse a timestamp in ISO 8601 with its nanoseconds. ValueError if it is invalid.

    >>> moment_of("1970-01-01 00:00:01.500000001")
    Timestamp('1970-01-01 00:00:01.500000001')
    """
    found = dt.datetime.fromisoformat(text)
    fine = _FINE.search(text)
    nanos = int(fine[1].ljust(3, "0")) if fine else 0
    if not nanos:
        return found
    zone = None if found.tzinfo is None else dt.UTC
    return from_nanos(to_nanos(found) + nanos, zone)
