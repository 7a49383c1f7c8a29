"""Map state with one database entry per map entry: an access costs as much as the item, not as the map."""

from __future__ import annotations

from typing import Any

from penstock.common.user_types import Key, StateValue
from penstock.runtime.state.rocksdb.tables import RocksDBMapTable
from penstock.runtime.state.states import KeyedMapState
from penstock.runtime.state.table import MISSING, TableDelta
from penstock.runtime.state.ttl import TtlState


class RocksDBMapState(KeyedMapState):
    """A dictionary per key. Items are ordered by their keys' bytes, with those since the last barrier last."""

    __slots__ = ()
    table: RocksDBMapTable

    def _read(self) -> dict[Any, Any]:
        return self.table.read(self.entry())

    def get(self, key: Key) -> StateValue:
        """Return the value under `key`, or None."""
        found = self.table.lookup(self.entry(), key)
        return None if found is MISSING else found

    def put(self, key: Key, value: StateValue) -> None:
        """Set one entry."""
        self.table.put_item(self.entry(), key, value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set several entries."""
        entry = self.entry()
        for key, value in dict_value.items():
            self.table.put_item(entry, key, value)

    def remove(self, key: object) -> None:
        """Remove one entry if it exists."""
        self.table.remove_item(self.entry(), key)

    def contains(self, key: object) -> bool:
        """Whether there is an entry under `key`."""
        return self.table.lookup(self.entry(), key) is not MISSING

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return self.table.is_empty(self.entry())

    __contains__ = contains


class RocksDBTtlMapState(TtlState, RocksDBMapState):
    """A dictionary per key whose entries expire individually: each is `(value, timestamp)`."""

    def live(self, delta: TableDelta) -> TableDelta:
        """Return a full snapshot of the table without expired entries."""
        if not self.clean_snapshots:
            return delta
        now = self.backend.clock()
        written = {}
        for entry, items in delta.written.items():
            left = {key: item for key, item in items.items() if self.pruned(item, now) is not None}
            if left:
                written[entry] = left
        return TableDelta(delta.namespaced, written, delta.removed, delta.schema)

    def _lookup(self, key: object) -> tuple[Any] | None:
        """Return the value under `key` in a one-tuple, or None if there is no visible value."""
        entry = self.entry()
        found = self.table.lookup(entry, key)
        if found is MISSING:
            return None
        now = self.backend.clock()
        value, timestamp = found
        if timestamp + self.ttl <= now:
            self.table.remove_item(entry, key)
            return (value,) if self.return_expired else None
        if self.on_read and timestamp != now:
            self.table.put_item(entry, key, (value, now))
        return (value,)

    def get(self, key: Key) -> StateValue:
        """Return the value under `key`, or None."""
        found = self._lookup(key)
        return None if found is None else found[0]

    def contains(self, key: object) -> bool:
        """Whether there is an entry under `key`."""
        return self._lookup(key) is not None

    def put(self, key: Key, value: StateValue) -> None:
        """Set one entry."""
        self.table.put_item(self.entry(), key, (value, self.backend.clock()))

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set several entries."""
        now = self.backend.clock()
        super().put_all({key: (value, now) for key, value in dict_value.items()})

    def items(self) -> list[tuple[Any, Any]]:
        """Return all entries."""
        entry, now = self.entry(), self.backend.clock()
        result = []
        for key, (value, timestamp) in self.table.read(entry).items():
            expired = timestamp + self.ttl <= now
            if expired:
                self.table.remove_item(entry, key)
            elif self.on_read and timestamp != now:
                self.table.put_item(entry, key, (value, now))
            if self.return_expired or not expired:
                result.append((key, value))
        return result

    def keys(self) -> list[Any]:
        """Return all keys."""
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        """Return all values."""
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        """Whether there is no visible entry. This is not a read: it does not refresh the TTL."""
        now = self.backend.clock()
        items = self.table.read(self.entry()).values()
        return not any(self.return_expired or item[1] + self.ttl > now for item in items)

    __contains__ = contains
