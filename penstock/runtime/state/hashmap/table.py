"""State tables in memory that track changes since the last barrier.

`touched` contains every entry written since the last barrier, with REMOVED for removed entries. At the barrier it is the
delta of the
checkpoint, and it is merged into the rest. So the size of a snapshot depends on the entries touched, not on the size of
the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any

from penstock.common.user_types import Key, StateValue
from penstock.runtime.state.table import MISSING, REMOVED, Pruned, Sweep, TableDelta


class HashMapTable:
    """Entries as Python objects. Keys are the user's key, or (key, namespace) pairs if `namespaced`."""

    __slots__ = ("data", "namespaced", "touched")

    def __init__(self, namespaced: bool) -> None:
        self.namespaced = namespaced
        self.data: dict[Any, Any] = {}
        self.touched: dict[Any, Any] = {}

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the entry under `key`, or `default`."""
        value = self.touched.get(key, MISSING)
        if value is MISSING:
            return self.data.get(key, default)
        return default if value is REMOVED else value

    def put(self, key: Key, value: StateValue) -> None:
        """Write an entry."""
        self.touched[key] = value

    def get_many(self, keys: Sequence[Any], default: object = None) -> list[Any]:
        """Return the entries under many keys."""
        touched, data = self.touched, self.data
        if not touched:
            return list(map(data.get, keys, repeat(default)))
        get = self.get
        return [get(key, default) for key in keys]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Write many entries."""
        self.touched.update(zip(keys, values, strict=True))

    def remove(self, key: object) -> None:
        """Remove an entry if it exists."""
        if key in self.data:
            self.touched[key] = REMOVED
        else:
            self.touched.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        touched = self.touched
        for key, value in self.data.items():
            if key not in touched:
                yield key, value
        for key, value in touched.items():
            if value is not REMOVED:
                yield key, value

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all entries: pairs if namespaced."""
        return (entry for entry, _ in self.items())

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def about(self) -> int:
        """Return the approximate number of entries, without counting them."""
        return max(len(self.data), len(self.touched))

    def merge(self) -> TableDelta:
        """End the interval: merge `touched` into the rest and return it."""
        touched, self.touched = self.touched, {}
        data = self.data
        removed = [key for key, value in touched.items() if value is REMOVED]
        for key in removed:
            del touched[key]
            del data[key]
        data.update(touched)
        return TableDelta(self.namespaced, touched, removed)

    def full(self) -> TableDelta:
        """Return everything, after `merge`."""
        return TableDelta(self.namespaced, self.data, [])

    def apply(self, delta: TableDelta) -> None:
        """Apply a delta during restore."""
        for key in delta.removed:
            self.data.pop(key, None)
        self.data.update(delta.written)

    def sweeper(self, size: int, pruned: Pruned) -> Sweep | None:
        """Return a function that checks `size` entries at a time for expiration."""
        # The cursor iterates over a copy of the keys, so that barriers do not move it; a copy is used for a whole pass
        # over the table.
        cursor: Iterator[Any] = iter(())
        data = self.data

        def sweep(current: object, now: int) -> None:
            # Entries touched since the barrier are skipped, and so is the current entry: the caller decides whether it
            # may still be read.
            nonlocal cursor
            touched = self.touched
            seen = 0
            for entry in islice(cursor, size):
                seen += 1
                stored = data.get(entry)
                if stored is None or entry in touched or entry == current:
                    continue
                left = pruned(stored, now)
                if left is None:
                    self.remove(entry)
                elif left is not stored:
                    self.put(entry, left)
            if seen < size and len(data) > seen:
                cursor = iter(list(data))

        return sweep
