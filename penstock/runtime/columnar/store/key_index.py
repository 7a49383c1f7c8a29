"""Which rows a key has: keys are numbered as they come, and each number has its rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.keys import keys_of, physical
from penstock.runtime.columnar.store.groups import Numbers
from penstock.runtime.columnar.store.integers import NumberTable
from penstock.runtime.columnar.store.segments import NONE, Segments

MOST_PAIRS: Final = 4_000_000


class KeyIndex:
    """Gives each key a number, in the order in which keys come. Both sides of a join share it.

    As long as all keys are made of whole numbers, they are columns; else they are objects in a dictionary.
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
            return _as_keys([each[slots] for each in self._numbers.columns])
        keys = self._keys
        return [keys[slot] for slot in slots.tolist()]

    def of_rows(self, frame: pl.DataFrame, columns: Sequence[int]) -> Numbers:
        """Return the numbers of the keys of rows; those that are new get the next ones."""
        table, found = self._table_for(frame, columns)
        if table is not None:
            return table.of(*found)
        return self.of(keys_of(frame, columns))

    def known_rows(self, frame: pl.DataFrame, columns: Sequence[int]) -> Numbers:
        """Return the numbers of the keys of rows; -1 for those that have none."""
        table, found = self._table_for(frame, columns)
        if table is not None:
            return table.find(*found)
        if self._numbers is not None:
            self._use_objects()
        find = self._slots.get
        keys = keys_of(frame, columns)
        return np.fromiter((find(key, -1) for key in keys), np.int64, len(keys))

    def _table_for(
        self, frame: pl.DataFrame, columns: Sequence[int]
    ) -> tuple[NumberTable | None, list[Numbers]]:
        """Return where to find keys that are made of whole numbers, if all were so far, and the columns that they are made of."""
        if self._numbers is None:
            return None, []
        found = _whole_numbers(frame, columns)
        if found is None:
            return None, []
        if self._numbers.width != len(found):
            assert not len(self._numbers), "all keys must have the same number of columns"
            self._numbers = NumberTable(len(found))
        return self._numbers, found

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
        keys = _as_keys(self._numbers.columns)
        self._numbers = None
        self._put(keys)

    def _put(self, keys: list[Any]) -> None:
        self._keys = keys
        self._slots = defaultdict(count(len(keys)).__next__)
        self._slots.update(zip(keys, range(len(keys)), strict=True))

    def keep(self, kept: Numbers) -> None:
        """Forget all keys but these slots, which are renumbered in this order."""
        if self._numbers is not None:
            self._numbers.keep(kept)
        else:
            self._put(self.keys_at(kept))


def _as_keys(columns: list[Numbers]) -> list[Any]:
    """Return the keys that columns are made of, as `keys_of` does."""
    if len(columns) == 1:
        single: list[Any] = columns[0].tolist()
        return single
    return list(zip(*(each.tolist() for each in columns), strict=True))


def _whole_numbers(frame: pl.DataFrame, columns: Sequence[int]) -> list[Numbers] | None:
    """Return the columns of keys if all of them have whole numbers, and no NULL."""
    found = []
    for index in columns:
        values = physical(frame[column(index)])
        narrow = values.dtype.is_signed_integer() and values.dtype != pl.Int128
        if not narrow or values.has_nulls():
            return None
        found.append(values.cast(pl.Int64).to_numpy())
    return found or None


class RowIndex:
    """The rows of each slot. Most have one or none, and those are in one array: a row, -1 for none, or -2 - the list of rows."""

    def __init__(self) -> None:
        self._first = np.full(1024, NONE, np.int64)
        self._lists = Segments()

    def _reach(self, slots: int) -> None:
        size = len(self._first)
        if slots > size:
            grown = np.full(max(2 * size, slots), NONE, np.int64)
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
        begins = np.append(True, ordered[1:] != ordered[:-1])
        starts = np.flatnonzero(begins)
        lengths = np.diff(np.append(starts, len(ordered)))
        distinct = ordered[starts]
        alone = (lengths == 1) & (first[distinct] == NONE)
        first[distinct[alone]] = rows[order[starts[alone]]]
        more = ~alone
        if more.any():
            self._add_many(distinct[more], rows[order[np.repeat(more, lengths)]], lengths[more])

    def _add_many(self, slots: Numbers, rows: Numbers, lengths: Numbers) -> None:
        """Make the lists of slots longer."""
        first, lists = self._first, self._lists
        before = first[slots]
        single = before >= 0
        if single.any():
            count = int(np.count_nonzero(single))
            begun = lists.add(np.full(count, NONE), before[single], np.ones(count, np.int64))
            before[single] = -2 - begun
        longer = lists.add(np.where(before == NONE, NONE, -2 - before), rows, lengths)
        first[slots] = -2 - longer
        deep = lists.deep(longer)
        if deep.any():
            self._write(slots[deep], *lists.read(longer[deep]))
        self._tidy()

    def _write(self, slots: Numbers, positions: Numbers, rows: Numbers) -> None:
        """Let slots that have lists have these rows instead: pairs of a position in `slots` and a row, in this order."""
        first, lists = self._first, self._lists
        lists.leave(-2 - first[slots])
        lengths = np.bincount(positions, minlength=len(slots))
        single = (lengths == 1)[positions]
        first[slots] = NONE
        first[slots[positions[single]]] = rows[single]
        several = lengths > 1
        if several.any():
            none = np.full(int(np.count_nonzero(several)), NONE)
            first[slots[several]] = -2 - lists.add(none, rows[~single], lengths[several])

    def _tidy(self) -> None:
        if self._lists.crowded:
            slots = np.flatnonzero(self._first < NONE)
            positions, rows = self._lists.read(-2 - self._first[slots])
            self._begin_lists(slots, positions, rows)

    def _begin_lists(self, slots: Numbers, positions: Numbers, rows: Numbers) -> None:
        """Have lists of these slots only."""
        self._lists = Segments()
        none = np.full(len(slots), NONE)
        empty = np.empty(0, np.int64)
        self._first[slots] = -2 - self._lists.add(none, empty, np.zeros(len(slots), np.int64))
        self._write(slots, positions, rows)

    def portions(self, slots: Numbers, slot_count: int) -> int:
        """Return in how many portions to ask for these slots, so that none has many more than MOST_PAIRS pairs."""
        self._reach(slot_count)
        found = self._first[slots]
        several = found[found < NONE]
        pairs = len(slots)
        if len(several):
            pairs += int(self._lists.lengths(-2 - several).sum())
        return min(len(slots), -(-pairs // MOST_PAIRS))

    def find(self, slots: Numbers, slot_count: int) -> tuple[Numbers, Numbers]:
        """Return all pairs of a position in `slots` and a row that this slot has, in the order of positions."""
        self._reach(slot_count)
        found = self._first[slots]
        single = np.flatnonzero(found >= 0)
        several = np.flatnonzero(found < NONE)
        if not len(several):
            return single, found[single]
        positions, rows = self._lists.read(-2 - found[several])
        positions = several[positions]
        if not len(single):
            return positions, rows
        positions = np.concatenate((single, positions))
        order = np.argsort(positions, kind="stable")
        return positions[order], np.concatenate((found[single], rows))[order]

    def remove(self, slots: Numbers, rows: Numbers) -> None:
        """Take rows away from the slots that have them."""
        first = self._first
        single = first[slots] == rows
        first[slots[single]] = NONE
        if single.all():
            return
        chosen, removed = np.unique(slots[~single]), rows[~single]
        positions, there = self._lists.read(-2 - first[chosen])
        gone = np.zeros(int(max(there.max(), removed.max())) + 1, np.bool_)
        gone[removed] = True
        stays = ~gone[there]
        self._write(chosen, positions[stays], there[stays])
        self._tidy()

    def renumber(self, rows: Numbers, slots: Numbers | None = None) -> None:
        """Take the new numbers of all rows (-1: gone), and of all slots if they change, too."""
        first = self._first
        single = first >= 0
        listed = np.flatnonzero(first < NONE)
        positions, there = self._lists.read(-2 - first[listed])
        moved = rows[there]
        stays = moved >= 0
        first[single] = rows[first[single]]
        self._begin_lists(listed, positions[stays], moved[stays])
        if slots is not None:
            kept = np.flatnonzero(slots >= 0)
            self._first = np.full(max(1024, len(kept)), NONE, np.int64)
            self._first[slots[kept]] = _padded(first, len(slots))[kept]

    def filled(self, slot_count: int) -> Numbers:
        """Return for each slot whether it has rows."""
        self._reach(slot_count)
        filled: Numbers = self._first[:slot_count] != NONE
        return filled


def _padded(values: Numbers, size: int) -> Numbers:
    if len(values) >= size:
        return values
    return np.concatenate((values, np.full(size - len(values), NONE, np.int64)))


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
