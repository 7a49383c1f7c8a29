"""Aggregates of bitmaps: how many rows have each number, as bitmaps of the bits of that count.

The accumulator is [rows, numbers whose count is odd, numbers whose count has its second bit, ...]. Its size is
that of a few bitmaps, independent of the number of rows, and rows can be retracted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from pyroaring import BitMap

from penstock.common.user_types import Accumulator
from penstock.runtime.columnar.aggregates.rowwise import RowAggregate, Values
from penstock.runtime.columnar.bitmaps import of_numbers, read, written


class BitmapAggregate(RowAggregate):
    """BITMAP_OR_AGG, BITMAP_AND_AGG, BITMAP_XOR_AGG of bitmaps, BITMAP_BUILD_AGG of integers, and how many numbers those have."""

    in_order = False

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self._builds = call.function.startswith("BITMAP_BUILD_")
        self._counts = call.function.endswith("_CARDINALITY_AGG")

    def create(self) -> Accumulator:
        """Return an empty accumulator."""
        return [0]

    def add(self, accumulator: Accumulator, values: Values) -> None:
        """Accumulate a row."""
        self.update(accumulator, [values], [1])

    def retract(self, accumulator: object, values: Values) -> None:
        """Retract a row."""
        self.update(accumulator, [values], [-1])

    def update(
        self, accumulator: Accumulator, rows: Iterable[Values], signs: Iterable[int]
    ) -> None:
        """Accumulate rows with a count each; a negative count retracts."""
        numbers: Counter[int] = Counter()
        for (value,), times in zip(rows, signs, strict=True):
            if value is None or not times:
                continue
            accumulator[0] += times
            if self._builds:
                numbers[value] += times
            else:
                _count(accumulator, read(value), times)
        by_times: dict[int, list[int]] = defaultdict(list)
        for number, times in numbers.items():
            by_times[times].append(number)
        for times in sorted(by_times, reverse=True):
            _count(accumulator, of_numbers(by_times[times]), times)

    def result(self, accumulator: Accumulator) -> Any:
        """Return the bitmap or its cardinality; NULL without rows."""
        if accumulator[0] <= 0:
            return None
        found = self._numbers(accumulator[0], accumulator[1:])
        return len(found) if self._counts else written(found)

    def _numbers(self, rows: int, planes: list[Any]) -> Any:
        function = self.call.function
        if function.startswith("BITMAP_XOR_"):
            return planes[0].copy() if planes else BitMap()
        if function.startswith("BITMAP_AND_"):
            return _counted(rows, planes)
        return BitMap.union(BitMap(), *planes)


def _count(accumulator: list[Any], bitmap: object, times: int) -> None:
    """Add a (possibly negative) count to all numbers of a bitmap."""
    for bit in range(abs(times).bit_length()):
        if abs(times) >> bit & 1:
            (_raise if times > 0 else _lower)(accumulator, bitmap, bit + 1)
    while len(accumulator) > 1 and not accumulator[-1]:
        accumulator.pop()


def _raise(accumulator: list[Any], carry: object, place: int) -> None:
    while carry:
        while len(accumulator) <= place:
            accumulator.append(BitMap())
        plane = accumulator[place]
        accumulator[place] = plane ^ carry
        carry = plane & carry
        place += 1


def _lower(accumulator: list[Any], borrow: Any, place: int) -> None:
    # Numbers whose state has expired cannot be retracted.
    borrow &= BitMap.union(BitMap(), *accumulator[place:])
    while borrow:
        plane = accumulator[place]
        accumulator[place] = plane ^ borrow
        borrow = borrow - plane
        place += 1


def _counted(rows: int, planes: list[Any]) -> object:
    """Return the numbers that all rows contain."""
    if rows.bit_length() > len(planes):
        return BitMap()
    found = planes[rows.bit_length() - 1].copy()
    for bit, plane in enumerate(planes):
        found = found & plane if rows >> bit & 1 else found - plane
    return found
