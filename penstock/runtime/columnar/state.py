"""Working sets of keyed state: a cache in front of the state tables.

A write-behind cache: misses are read from the table, changes are written to it before each snapshot (`flush`, called in `barrier()`), and
when the cache has grown over its bound, which also evicts entries that were not used lately. Values are not to be changed in place: a snapshot
may still be written while they would change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock.common.user_types import Key
from penstock.runtime.state.table import MISSING, StateTable

BOUND: Final = 500_000  # entries


def read_many(table: StateTable, keys: Sequence[Any], default: object = None) -> list[Any]:
    """Return the entries under many keys, read in one go where the backend can."""
    found: list[Any] = table.get_many(keys, default)
    return found


def is_empty(table: StateTable) -> bool:
    """Whether a table has no entries: then a working set that has let nothing go knows all there is."""
    return next(iter(table.items()), None) is None


class KeyedCache:
    """Entries of a state table, kept as objects while they are in use.

    >>> from penstock.runtime.state.hashmap.table import HashMapTable
    >>> table = HashMapTable(namespaced=False)
    >>> cache = KeyedCache(table)
    >>> cache.put("a", (1,))
    >>> cache.get("a"), table.get("a")
    ((1,), None)
    >>> cache.flush()
    >>> table.get("a")
    (1,)
    """

    __slots__ = ("_bound", "_dirty", "_live", "_table")

    def __init__(self, table: StateTable, bound: int = BOUND) -> None:
        self._table = table
        self._bound = bound
        self._live: dict[Any, Any] = {}  # MISSING for keys that are known to have no entry
        self._dirty: dict[Any, None] = {}

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the entry under `key`, or `default`."""
        live = self._live
        value = live.get(key, default)
        if value is default and key not in live:
            value = live[key] = self._table.get(key, MISSING)
        return default if value is MISSING else value

    def get_many(self, keys: Sequence[Any], default: object = None) -> list[Any]:
        """Return the entries under many keys: misses are read in one go where the backend can."""
        live = self._live
        missing = [key for key in keys if key not in live]
        if missing:
            live.update(zip(missing, read_many(self._table, missing, MISSING), strict=True))
        found = list(map(live.__getitem__, keys))
        return [default if value is MISSING else value for value in found]

    def put(self, key: Key, value: Any) -> None:
        """Write an entry."""
        self._live[key] = value
        self._dirty[key] = None

    def put_many(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Write many entries."""
        self._live.update(zip(keys, values, strict=True))
        self._dirty.update(dict.fromkeys(keys))

    def remove(self, key: Key) -> None:
        """Remove an entry if it is there."""
        self._live[key] = MISSING
        self._dirty[key] = None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries of the table and of the cache. The cache must not change meanwhile."""
        self.flush()
        return iter(self._table.items())

    def __len__(self) -> int:
        """Return how many entries are kept as objects."""
        return len(self._live)

    def trim_cache(self) -> None:
        """Evict entries that were not used lately if there are too many; called between batches."""
        if len(self._live) > self._bound:
            self.flush()
            # Dictionaries keep insertion order: the older half is evicted.
            keep = len(self._live) // 2
            entries = list(self._live.items())[-keep:]
            self._live = {key: value for key, value in entries if value is not MISSING}

    def forget(self) -> None:
        """Discard changes that have not been written to the table."""
        self._dirty = {}

    def flush(self) -> None:
        """Write the changed entries to the state table, before every snapshot."""
        live, table = self._live, self._table
        put, remove = table.put, table.remove
        for key in self._dirty:
            value = live[key]
            if value is MISSING:
                remove(key)
                del live[key]
            else:
                put(key, value)
        self._dirty = {}
