"""Which rows a key has: keys are numbered as they come, and each number has its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.columnar.keys import keys_of, physical
from penstock.columnar.specs.common import column
from penstock.columnar.store.groups import Numbers
from penstock.columnar.store.integers import NumberTable

MOST_PAIRS: Final = 4_000_000
_NONE: Final = -1
_MANY: Final = -2


class Slots:
    """Gives each key a number, in the order in which keys come. Both sides of a join share it.

    As long as all keys are single whole numbers, they are columns; else they are objects in a dictionary.
    """

    def __init__(self) -> None:
        self._numbers: NumberTable | None = NumberTable()
        self._slots: defaultdict[Any, int] = defaultdict(count().__next__)
        self._keys: list[Any] = []

    def __len__(self) -> int:
        return len(self._keys) if self._numbers is None else len(self._numbers)

    def keys_at(self, slots: Numbers) -> list[Any]:
        """Return the keys that have these numbers."""
        if self._numbers is not None:
            numbers: list[Any] = self._numbers.numbers[slots].tolist()
            return numbers
        keys = self._keys
        return [keys[slot] for slot in slots.tolist()]

    def of_rows(self, frame: pl.DataFrame, columns: Sequence[int]) -> Numbers:
        """Return the numbers of the keys of rows; those that are new get the next ones."""
        if self._numbers is not None:
            found = _whole_numbers(frame, columns)
            if found is not None:
                return self._numbers.of(found)
        return self.of(keys_of(frame, columns))

    def known_rows(self, frame: pl.DataFrame, columns: Sequence[int]) -> Numbers:
        """Return the numbers of the keys of rows; -1 for those that have none."""
        if self._numbers is not None:
            found = _whole_numbers(frame, columns)
            if found is not None:
                return self._numbers.find(found)
            self._use_objects()
        find = self._slots.get
        keys = keys_of(frame, columns)
        return np.fromiter((find(key, -1) for key in keys), np.int64, len(keys))

    def of(self, keys: list[Any]) -> Numbers:
        """Return the numbers of keys; those that are new get the next ones."""
        if self._numbers is not None:
            self._use_objects()
        slots = self._slots
        found = np.fromiter(map(slots.__getitem__, keys), np.int64, len(keys))
        new = len(slots) - len(self._keys)
        if new:
            self._keys.extend(reversed(list(islice(reversed(slots), new))))
        return found

    def _use_objects(self) -> None:
        assert self._numbers is not None
        keys = self._numbers.numbers.tolist()
        self._numbers = None
        self._put(keys)

    def _put(self, keys: list[Any]) -> None:
        self._keys = keys
        self._slots = defaultdict(count(len(keys)).__next__)
        self._slots.update(zip(keys, range(len(keys)), strict=True))

    def keep(self, kept: Numbers) -> None:
        """Forget all keys but these slots, which are numbered anew in this order."""
        if self._numbers is not None:
            self._numbers = NumberTable(self._numbers.numbers[kept])
        else:
            self._put(self.keys_at(kept))


def _whole_numbers(frame: pl.DataFrame, columns: Sequence[int]) -> Numbers | None:
    """Return the keys as numbers if they are whole numbers, each of one column and none NULL."""
    if len(columns) != 1:
        return None
    values = physical(frame[column(columns[0])])
    if not values.dtype.is_signed_integer() or values.has_nulls():
        return None
    return values.cast(pl.Int64).to_numpy() if values.dtype != pl.Int128 else None


class RowIndex:
    """The rows of each slot. Most have one or none, and those are found without a look at Python objects."""

    def __init__(self) -> None:
        self._first = np.full(1024, _NONE, np.int64)
        # Rows as bytes of 64-bit numbers: unlike arrays, they are no business of the cycle collector.
        self._many: dict[int, bytearray] = {}
        self._longest = 8  # of them, in bytes, or more

    def _reach(self, slots: int) -> None:
        size = len(self._first)
        if slots > size:
            grown = np.full(max(2 * size, slots), _NONE, np.int64)
            grown[:size] = self._first
            self._first = grown

    def add(self, slots: Numbers, rows: Numbers, slot_count: int) -> None:
        """Let slots have rows more."""
        self._reach(slot_count)
        if not len(slots):
            return
        first = self._first
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        ends = np.append(starts[1:], len(ordered))
        distinct = ordered[starts]
        alone = (ends - starts == 1) & (first[distinct] == _NONE)
        first[distinct[alone]] = rows[order[starts[alone]]]
        more = ~alone
        if more.any():
            sorted_rows = rows[order]
            self._add_many(
                distinct[more].tolist(), sorted_rows, starts[more].tolist(), ends[more].tolist()
            )

    def _add_many(
        self, slots: Iterable[int], rows: Numbers, starts: list[int], ends: list[int]
    ) -> None:
        first, many = self._first, self._many
        content = memoryview(rows.astype(np.int64).tobytes())
        for slot, start, end in zip(slots, starts, ends, strict=True):
            found = many.get(slot)
            if found is None:
                found = many[slot] = bytearray()
                if first[slot] >= 0:
                    found += first[slot].tobytes()
                first[slot] = _MANY
            found += content[8 * start : 8 * end]
            self._longest = max(self._longest, len(found))

    def portions(self, slots: Numbers, slot_count: int) -> int:
        """Return in how many portions to ask for these slots, so that none has many more than MOST_PAIRS pairs."""
        if len(slots) * self._longest <= 8 * MOST_PAIRS:
            return 1
        self._reach(slot_count)
        found = self._first[slots]
        several = slots[found == _MANY].tolist()
        pairs = sum(len(self._many[slot]) for slot in several) // 8 + len(slots)
        return min(len(slots), -(-pairs // MOST_PAIRS))

    def find(self, slots: Numbers, slot_count: int) -> tuple[Numbers, Numbers]:
        """Return all pairs of a position in `slots` and a row that this slot has, in the order of positions."""
        self._reach(slot_count)
        found = self._first[slots]
        single = np.flatnonzero(found >= 0)
        several = np.flatnonzero(found == _MANY)
        if not len(several):
            return single, found[single]
        many = self._many
        parts = [many[slot] for slot in slots[several].tolist()]
        rows = np.frombuffer(b"".join(parts), np.int64)
        positions = np.repeat(several, np.fromiter(map(len, parts), np.int64, len(parts)) // 8)
        if not len(single):
            return positions, rows
        positions = np.concatenate((single, positions))
        order = np.argsort(positions, kind="stable")
        return positions[order], np.concatenate((found[single], rows))[order]

    def remove(self, slots: Numbers, rows: Numbers) -> None:
        """Take rows away from the slots that have them."""
        first = self._first
        single = first[slots] == rows
        first[slots[single]] = _NONE
        if single.all():
            return
        many = self._many
        chosen, removed = np.unique(slots[~single]).tolist(), rows[~single]
        parts = [many[slot] for slot in chosen]
        # All lists at once: which of their rows stay, and where the lists end then.
        there = np.frombuffer(b"".join(parts), np.int64)
        gone = np.zeros(int(max(there.max(), removed.max())) + 1, np.bool_)
        gone[removed] = True
        stays = ~gone[there]
        ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)) // 8)
        left_ends = np.concatenate(([0], np.cumsum(stays)))[ends] * 8
        left = there[stays].tobytes()
        start = 0
        for slot, end in zip(chosen, left_ends.tolist(), strict=True):
            if end > start:
                many[slot] = bytearray(left[start:end])
            else:
                del many[slot]
                first[slot] = _NONE
            start = end

    def renumber(self, rows: Numbers, slots: Numbers | None = None) -> None:
        """Take the new numbers of all rows (-1: gone), and of all slots if they change, too."""
        first = self._first
        single = first >= 0
        first[single] = rows[first[single]]
        many: dict[int, bytearray] = {}
        for slot, there in self._many.items():
            moved = rows[np.frombuffer(there, np.int64)]
            left = moved[moved >= 0]
            if len(left):
                many[slot] = bytearray(left.tobytes())
            else:
                first[slot] = _NONE
        if slots is not None:
            kept = np.flatnonzero(slots >= 0)
            self._first = np.full(max(1024, len(kept)), _NONE, np.int64)
            self._first[slots[kept]] = _padded(first, len(slots))[kept]
            many = {int(slots[slot]): rows for slot, rows in many.items() if slots[slot] >= 0}
        self._many = many

    def filled(self, slot_count: int) -> Numbers:
        """Return for each slot whether it has rows."""
        self._reach(slot_count)
        filled: Numbers = self._first[:slot_count] != _NONE
        return filled


def _padded(values: Numbers, size: int) -> Numbers:
    if len(values) >= size:
        return values
    return np.concatenate((values, np.full(size - len(values), _NONE, np.int64)))


def rounds_of(slots: Numbers) -> list[Numbers]:
    """Return positions in rounds: the first of each slot, the second of each slot, ..., each in the order of positions.

    >>> [each.tolist() for each in rounds_of(np.array([7, 7, 5, 7]))]
    [[0, 2], [1], [3]]
    """
    order = np.argsort(slots, kind="stable")
    ordered = slots[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sizes = np.diff(np.append(begins, len(ordered)))
    number = np.arange(len(ordered)) - np.repeat(begins, sizes)
    by_round = np.argsort(number, kind="stable")
    cuts = np.cumsum(np.bincount(number))[:-1]
    return [np.sort(order[part]) for part in np.split(by_round, cuts)]
