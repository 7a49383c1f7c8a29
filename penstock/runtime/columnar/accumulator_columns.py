"""Accumulators of many keys in arrays: the working set of an aggregation, in front of its state table.

Each key has a slot, a place in every array. Rows of a batch are folded first, so a batch touches each slot once, all of them at a time. What has changed is
written to the table before each snapshot, as one tuple per key; keys that were not used lately are evicted when there are too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from penstock.runtime.columnar.state import is_empty, read_many
from penstock.runtime.columnar.values import with_numbers
from penstock.runtime.state.table import StateTable

Slots = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

BOUND: Final = 1_000_000  # slots
_FIRST: Final = 1_024


class AccumulatorColumn(Protocol):
    """One accumulator of all slots."""

    def grow(self, size: int) -> None:
        """Grow to this number of slots."""

    def read(self, slots: Slots) -> pl.Series:
        """Return the values of some slots."""

    def write(self, slots: Slots, values: pl.Series) -> None:
        """Set the values of some slots."""

    def store(self, slots: Slots, values: Sequence[Any]) -> None:
        """Set what `stored` returned."""

    def stored(self, slots: Slots) -> list[Any]:
        """Return the values of some slots as the state table has them."""

    def clear(self, slots: Slots) -> None:
        """Reset some slots to the initial value."""


class NumberColumn:
    """Numbers, times and truth values, in an array; with a second array for NULLs, if nullable."""

    def __init__(self, name: str, dtype: pl.DataType, *, nullable: bool) -> None:
        self._name = name
        self._dtype = dtype
        self._physical = pl.Series([], dtype=dtype).to_physical().dtype
        kind = pl.Series([0], dtype=pl.Int8).cast(self._physical).to_numpy().dtype
        self._values = np.zeros(_FIRST, dtype=kind)
        self._there: Mask | None = np.zeros(_FIRST, dtype=np.bool_) if nullable else None

    def grow(self, size: int) -> None:
        """Grow to this number of slots."""
        more = size - len(self._values)
        self._values = np.concatenate([self._values, np.zeros(more, self._values.dtype)])
        if self._there is not None:
            self._there = np.concatenate([self._there, np.zeros(more, np.bool_)])

    def read(self, slots: Slots) -> pl.Series:
        """Return the values of some slots."""
        values = pl.Series(self._name, self._values[slots])
        if values.dtype != self._dtype:
            values = values.cast(self._dtype)
        if self._there is None:
            return values
        there = self._there[slots]
        return values if there.all() else values.set(pl.Series(~there), None)

    def write(self, slots: Slots, values: pl.Series) -> None:
        """Set the values of some slots."""
        numbers = values.to_physical()
        if self._there is None:
            self._values[slots] = numbers.to_numpy()
            return
        if numbers.null_count():
            self._there[slots] = numbers.is_not_null().to_numpy()
            numbers = (
                numbers.cast(pl.Int8).fill_null(0)
                if numbers.dtype == pl.Boolean
                else (numbers.fill_null(0))
            )
        else:
            self._there[slots] = True
        self._values[slots] = numbers.to_numpy()

    def store(self, slots: Slots, values: Sequence[Any]) -> None:
        """Set what `stored` returned."""
        self.write(slots, pl.Series(self._name, values, dtype=self._physical))

    def stored(self, slots: Slots) -> list[Any]:
        """Return numbers, None for NULL."""
        values: list[Any] = self._values[slots].tolist()
        if self._there is None:
            return values
        there = self._there[slots].tolist()
        return [value if known else None for value, known in zip(values, there, strict=True)]

    def clear(self, slots: Slots) -> None:
        """Set some slots to zero, or NULL."""
        self._values[slots] = 0
        if self._there is not None:
            self._there[slots] = False


class ObjectColumn:
    """Texts, decimals, lists: Python objects."""

    def __init__(self, name: str, dtype: pl.DataType, neutral: Any) -> None:
        self._name = name
        self._dtype = dtype
        self._neutral = neutral
        self._values: list[Any] = [neutral] * _FIRST

    def grow(self, size: int) -> None:
        """Grow to this number of slots."""
        self._values += [self._neutral] * (size - len(self._values))

    def read(self, slots: Slots) -> pl.Series:
        """Return the values of some slots."""
        return pl.Series(self._name, self.stored(slots), dtype=self._dtype)

    def write(self, slots: Slots, values: pl.Series) -> None:
        """Set the values of some slots."""
        self.store(slots, with_numbers(values).to_list())

    def store(self, slots: Slots, values: Sequence[Any]) -> None:
        """Set the values of some slots."""
        mine = self._values
        for slot, value in zip(slots.tolist(), values, strict=True):
            mine[slot] = value

    def stored(self, slots: Slots) -> list[Any]:
        """Return the objects."""
        return list(map(self._values.__getitem__, slots.tolist()))

    def clear(self, slots: Slots) -> None:
        """Reset some slots to the initial value."""
        mine, neutral = self._values, self._neutral
        for slot in slots.tolist():
            mine[slot] = neutral


def create_column(name: str, dtype: pl.DataType, neutral: object) -> AccumulatorColumn:
    """Return a column for values of a type; `neutral` is the value of a new slot."""
    in_arrays = dtype.is_integer() or dtype.is_float() or dtype.is_temporal() or dtype == pl.Boolean
    if in_arrays and dtype != pl.Int128 and neutral in (None, 0):
        return NumberColumn(name, dtype, nullable=neutral is None)
    return ObjectColumn(name, dtype, neutral)


class SlotStore:
    """Accumulators by key. `columns` are their types by name, and what they are before any row."""

    def __init__(
        self,
        table: StateTable,
        columns: Mapping[str, tuple[pl.DataType, Any]],
        *,
        ttl_ms: int = 0,
        bound: int = BOUND,
    ) -> None:
        self._table = table
        #: By name; each has a value for every slot.
        self._columns = {
            name: create_column(name, dtype, neutral) for name, (dtype, neutral) in columns.items()
        }
        #: Milliseconds; 0: entries do not expire.
        self._ttl = ttl_ms
        #: With more keys than this, half of them are evicted between batches.
        self._bound = bound
        #: The slot of each key; the inverse of `_keys`.
        self._index: dict[Any, int] = {}
        #: By slot.
        self._keys: list[Any] = []
        #: The length of the arrays and columns: at least the number of keys.
        self._size = _FIRST
        #: Whether the key has an entry.
        self._live: Mask = np.zeros(_FIRST, np.bool_)
        #: Whether the table has another one.
        self._dirty: Mask = np.zeros(_FIRST, np.bool_)
        #: The batch in which a slot was last used.
        self._used = np.zeros(_FIRST, np.int64)
        #: When an entry was last written, in epoch milliseconds; without TTL zero.
        self._written = np.zeros(_FIRST, np.int64)
        #: Counts batches.
        self._turn = 0
        #: Whether all entries of the table are in memory: then a miss needs no read.
        self._complete = is_empty(table)

    def __len__(self) -> int:
        """Return how many keys have slots."""
        return len(self._index)

    def find(self, keys: Sequence[Any], now: int = 0) -> tuple[Slots, Mask]:
        """Return the slots of keys, each of which is given once, and which of them have an entry. The others have new slots."""
        self._turn += 1
        slots = np.fromiter(map(self._index.get, keys, repeat(-1)), dtype=np.int64, count=len(keys))
        missing = np.flatnonzero(slots < 0)
        if len(missing):
            slots[missing] = self._load([keys[at] for at in missing.tolist()])
        self._used[slots] = self._turn
        if self._ttl:
            self._expire(slots, now)
        return slots, self._live[slots]

    def _load(self, keys: list[Any]) -> Slots:
        start = len(self._keys)
        slots = np.arange(start, start + len(keys), dtype=np.int64)
        self._grow(start + len(keys))
        self._keys += keys
        self._index.update(zip(keys, slots.tolist(), strict=True))
        if self._complete:
            return slots
        entries = read_many(self._table, keys)
        known = [at for at, entry in enumerate(entries) if entry is not None]
        if known:
            found = slots[known]
            self._live[found] = True
            values = list(zip(*[entries[at] for at in known], strict=True))
            if self._ttl:
                self._written[found] = values.pop()
            for column, stored in zip(self._columns.values(), values, strict=True):
                column.store(found, stored)
        return slots

    def _grow(self, size: int) -> None:
        if size <= self._size:
            return
        grown = max(size, 2 * self._size)
        more = grown - self._size
        self._live = np.concatenate([self._live, np.zeros(more, np.bool_)])
        self._dirty = np.concatenate([self._dirty, np.zeros(more, np.bool_)])
        self._used = np.concatenate([self._used, np.zeros(more, np.int64)])
        self._written = np.concatenate([self._written, np.zeros(more, np.int64)])
        for column in self._columns.values():
            column.grow(grown)
        self._size = grown

    def _expire(self, slots: Slots, now: int) -> None:
        old = slots[self._live[slots] & (self._written[slots] + self._ttl <= now)]
        if len(old):
            self.remove(old)

    def read(self, slots: Slots) -> list[pl.Series]:
        """Return the accumulators of some slots."""
        return [column.read(slots) for column in self._columns.values()]

    def write(self, slots: Slots, frame: pl.DataFrame, now: int = 0) -> None:
        """Set the accumulators of some slots, which have an entry from now on."""
        for name, column in self._columns.items():
            column.write(slots, frame[name])
        self._live[slots] = True
        self._dirty[slots] = True
        if self._ttl:
            self._written[slots] = now

    def remove(self, slots: Slots) -> None:
        """Remove the entries of these slots."""
        for column in self._columns.values():
            column.clear(slots)
        self._live[slots] = False
        self._dirty[slots] = True

    def flush(self) -> None:
        """Write the changed entries to the state table, before every snapshot."""
        count = len(self._keys)
        dirty = self._dirty[:count]
        changed = np.flatnonzero(dirty)
        if len(changed):
            live = self._live[changed]
            keys = self._keys
            kept = changed[live]
            self._table.put_many(map(keys.__getitem__, kept.tolist()), self._entries(kept))
            for slot in changed[~live].tolist():
                self._table.remove(keys[slot])
            dirty[:] = False
        if self._gone() > max(_FIRST, count // 4):
            self._keep(np.flatnonzero(self._live[:count]))

    def forget(self) -> None:
        """Discard changes that have not been written to the table."""
        self._dirty[:] = False

    def _gone(self) -> int:
        count = len(self._keys)
        return count - int(np.count_nonzero(self._live[:count]))

    def _entries(self, slots: Slots) -> list[tuple[Any, ...]]:
        columns = [column.stored(slots) for column in self._columns.values()]
        if self._ttl:
            columns.append(self._written[slots].tolist())
        return list(zip(*columns, strict=True)) if columns else [()] * len(slots)

    def trim_cache(self) -> None:
        """Evict keys that were not used lately if there are too many; called between batches."""
        count = len(self._keys)
        if count > self._bound:
            self.flush()
            count = len(self._keys)
            half = count // 2
            self._complete = False
            recent = np.argpartition(self._used[:count], count - half)[count - half :]
            self._keep(np.sort(recent))

    def _keep(self, slots: Slots) -> None:
        """Keep only these slots, after everything was written."""
        keys = [self._keys[slot] for slot in slots.tolist()]
        count, before = len(keys), len(self._keys)
        chosen = np.arange(count, dtype=np.int64)
        for column in self._columns.values():
            values = column.read(slots)
            column.clear(np.arange(before, dtype=np.int64))
            column.write(chosen, values)
        for array in (self._live, self._used, self._written):
            kept = array[slots]
            array[:before] = 0
            array[:count] = kept
        self._keys = keys
        self._index = dict(zip(keys, range(count), strict=True))

    def expire_all(self, now: int) -> None:
        """Remove all entries in memory that have expired: at a barrier."""
        if self._ttl:
            self._expire(np.flatnonzero(self._live[: len(self._keys)]), now)

    def live(self) -> tuple[list[Any], Slots]:
        """Return all keys in memory that have an entry, and their slots."""
        slots = np.flatnonzero(self._live[: len(self._keys)])
        return [self._keys[slot] for slot in slots.tolist()], slots
