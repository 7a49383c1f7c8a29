"""Splits of a table: ranges of a numeric or time column, and its NULLs."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from penstock.errors import ArgumentTypeError

Bound = int | float | Decimal | dt.date | dt.datetime


@dataclass(frozen=True, slots=True)
class SplitRange:
    """A part of a table: `low <= column < high`. None is unbounded; `nulls` is the part whose column is NULL."""

    low: Any = None
    high: Any = None
    nulls: bool = False


def cut(low: object, high: object, count: int) -> list[SplitRange]:
    """Divide the values from low to high, inclusive, into at most `count` ranges of equal width; the first and last are open.

    Integers are divided like in Flink: if the ranges cannot be equal, the first ones have one more value.

    >>> cut(0, 10, 3)
    [Part(low=None, high=4, nulls=False), Part(low=4, high=8, nulls=False), Part(low=8, high=None, nulls=False)]
    """
    bounds: list[Any] = []
    for number in range(1, count):
        bound = _between(low, high, number, count)
        if low < bound <= high and (not bounds or bound > bounds[-1]):
            bounds.append(bound)
    edges = [None, *bounds, None]
    return [SplitRange(edges[n], edges[n + 1]) for n in range(len(edges) - 1)]


def _between(low: Any, high: Any, number: int, count: int) -> Any:
    if isinstance(low, int) and isinstance(high, int):
        width, wider = divmod(high - low + 1, count)
        return low + number * width + min(number, wider)
    if isinstance(low, Decimal) or isinstance(high, Decimal):
        return Decimal(low) + (Decimal(high) - Decimal(low)) * number / count
    if isinstance(low, dt.datetime):
        return low + (high - low) * number / count
    if isinstance(low, dt.date):
        return low + dt.timedelta(days=(high - low).days * number // count)
    return low + (high - low) * number / count


def check_bound(value: object, name: str) -> object:
    """Return a bound after checking that its type supports ranges."""
    if value is None or (
        isinstance(value, int | float | Decimal | dt.date) and not isinstance(value, bool)
    ):
        return value
    raise ArgumentTypeError(
        f"{name} is not a number or a time",
        detail=f"got {value!r}",
        hint="use a column of numbers, dates or timestamps",
    )
