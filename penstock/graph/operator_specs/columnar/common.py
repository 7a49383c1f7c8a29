"""Definitions that several specs share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KIND: Final = "$kind"  # the column of row kinds (Int8); a batch without it has inserts only
INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3


def column(index: int) -> str:
    """Return the name that a column has in a batch: it depends on the position, not on the name in the query.

    >>> column(3)
    'c3'
    """
    return f"c{index}"


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column of ORDER BY."""

    index: int
    ascending: bool = True
    nulls_first: bool = True  # Flink: NULLs are the lowest values unless the query says otherwise


@dataclass(frozen=True, slots=True)
class WindowDefinition:
    """Definition of a window table function or group window. All times are milliseconds.

    `kind`: TUMBLE (size), HOP (size, slide), CUMULATE (size is the longest, slide is the step), SESSION (gap; windows per `partition` columns).
    `time` is the column of the time attribute; None for processing time. `zone` is the session time zone if the time is a TIMESTAMP_LTZ: windows are aligned in local time and
    window_start and window_end are TIMESTAMP(3) in that zone.
    """

    kind: str
    size: int = 0
    slide: int = 0
    offset: int = 0
    gap: int = 0
    time: int | None = None
    zone: str | None = None
    partition: tuple[int, ...] = ()
