"""State with a TTL: the five kinds of state that expire.

Entries hold their values with the time of the last access: `(value, timestamp)`, per element in lists and per entry in maps. A
value has expired when timestamp + ttl <= now. Expired values are removed when they are read, and are omitted from full snapshots.
Values that are never read are found in hashmap by checking a few entries at every access, in RocksDB by a search before each
checkpoint (`RocksDBStateBackend._clean` in `penstock.runtime.state.rocksdb.backend`). Lists and maps in RocksDB have classes of their
own: `penstock.runtime.state.rocksdb.lists` and `map_state`. The settings are in `penstock.state_descriptors.ttl`;
`penstock.runtime.state.schema` converts restored values when TTL was turned on or off.

In SQL, `table.exec.state.ttl` (`penstock.sql.physical.settings`) and STATE_TTL hints (`penstock.sql.logical.hints`, of joins
`penstock.sql.physical.hints`) set the TTL of an operator. SQL operators keep times of their own, in `penstock.runtime.columnar`: rows
in `joins.sides`, aggregates in `accumulator_columns`, distinct values in `aggregates.distinct`, lists of rows in
`operators.materialize`, and the running values of OVER in `operators.over_time`. With a TTL, `operators.group_aggregate` and
`operators.normalize` also emit rows that have not changed, so that the state of operators behind them does not expire too early.
`operators.temporal_join` keeps the versions of an event-time join without a TTL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.common.user_types import Key, StateValue
from penstock.runtime.state.states import (
    STATE_CLASSES,
    KeyContext,
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedState,
    KeyedValueState,
)
from penstock.runtime.state.table import StateTable, TableDelta
from penstock.state_descriptors.ttl import StateTtlConfig


class TtlState(KeyedState):
    """Base class: determines and removes expired values."""

    def __init__(self, backend: KeyContext, table: StateTable, descriptor: Any) -> None:
        super().__init__(backend, table, descriptor)
        config: StateTtlConfig = descriptor.ttl_config
        cleanup = config.get_cleanup_strategies()
        incremental = cleanup.get_incremental_cleanup_strategy()
        self.ttl = config.ttl_ms
        self.on_read = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self.return_expired = (
            config.get_state_visibility()
            is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        )
        self.cleans_in_background = (
            incremental is not None
            or cleanup.get_rocksdb_compact_filter_cleanup_strategy() is not None
        )
        self._sweep = (
            table.sweeper(incremental.cleanup_size, self.pruned)
            if incremental is not None and incremental.cleanup_size
            else None
        )
        self.clean_snapshots = cleanup.in_full_snapshot() or cleanup.is_cleanup_in_background()

    def pruned(self, stored: StateValue, now: int) -> StateValue:
        """Return the live part of an entry: itself if nothing has expired, None if everything has."""
        return None if stored[1] + self.ttl <= now else stored

    def access(self, entry: object) -> int:
        """Return the current time, after checking some other entries."""
        now = self.backend.clock()
        if self._sweep is not None:
            self._sweep(entry, now)
        return now

    def live(self, delta: TableDelta) -> TableDelta:
        """Return a full snapshot of the table without expired entries."""
        if not self.clean_snapshots:
            return delta
        now = self.backend.clock()
        written = {}
        for entry, stored in delta.written.items():
            left = self.pruned(stored, now)
            if left is not None:
                written[entry] = left
        return TableDelta(delta.namespaced, written, delta.removed, delta.schema)

    def read(self) -> StateValue:
        """Return the single value of the current key, or None."""
        entry = self.entry()
        now = self.access(entry)
        stored = self.table.get(entry)
        if stored is None:
            return None
        value, timestamp = stored
        if timestamp + self.ttl <= now:
            self.table.remove(entry)
            return value if self.return_expired else None
        if self.on_read and timestamp != now:
            self.table.put(entry, (value, now))
        return value

    def current(self, stored: StateValue, now: int) -> StateValue:
        """Return the value that a write builds on, or None."""
        if stored is None or (stored[1] + self.ttl <= now and not self.return_expired):
            return None
        return stored[0]


class TtlValueState(TtlState, KeyedValueState):
    """A single value per key that expires."""

    def value(self) -> StateValue:
        """Return the value, or None."""
        return self.read()

    def update(self, value: object) -> None:
        """Set the value; None removes it."""
        entry = self.entry()
        now = self.access(entry)
        if value is None:
            self.table.remove(entry)
        else:
            self.table.put(entry, (value, now))


class TtlListState(TtlState, KeyedListState):
    """A list per key whose elements expire individually."""

    def pruned(self, stored: StateValue, now: int) -> StateValue:
        """Return the elements that have not expired."""
        oldest = now - self.ttl
        left = [element for element in stored if element[1] > oldest]
        return stored if len(left) == len(stored) else left or None

    def get(self) -> Iterator[Any]:
        """Iterate over the elements."""
        entry = self.entry()
        now = self.access(entry)
        stored = self.table.get(entry)
        if stored is None:
            return iter(())
        left = self.pruned(stored, now)
        if left is None:
            self.table.remove(entry)
        elif self.on_read:
            self.table.put(entry, [(value, now) for value, _ in left])
        elif left is not stored and not self.return_expired:
            self.table.put(entry, left)
        visible = stored if self.return_expired else left or ()
        return iter([value for value, _ in visible])

    def add(self, value: StateValue) -> None:
        """Append an element."""
        super().add((value, self.access(self.entry())))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        now = self.access(self.entry())
        super().add_all([(value, now) for value in values])

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty list removes the state."""
        now = self.access(self.entry())
        super().update([(value, now) for value in values])


class TtlMapState(TtlState, KeyedMapState):
    """A dictionary per key whose entries expire individually."""

    def pruned(self, stored: StateValue, now: int) -> StateValue:
        """Return the entries that have not expired."""
        oldest = now - self.ttl
        left = {key: item for key, item in stored.items() if item[1] > oldest}
        return stored if len(left) == len(stored) else left or None

    def _lookup(self, key: object) -> tuple[Any] | None:
        """Return the value under `key` in a one-tuple, or None if there is no visible value."""
        entry = self.entry()
        now = self.access(entry)
        mapping = self.table.get(entry)
        if mapping is None or key not in mapping:
            return None
        value, timestamp = mapping[key]
        if timestamp + self.ttl <= now:
            super().remove(key)
            return (value,) if self.return_expired else None
        if self.on_read and timestamp != now:
            mapping[key] = (value, now)
            self.table.put(entry, mapping)
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
        super().put(key, (value, self.access(self.entry())))

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set several entries."""
        now = self.access(self.entry())
        super().put_all({key: (value, now) for key, value in dict_value.items()})

    def items(self) -> list[tuple[Any, Any]]:
        """Return all entries."""
        entry = self.entry()
        now = self.access(entry)
        stored = self.table.get(entry)
        if stored is None:
            return []
        left = self.pruned(stored, now)
        visible = stored if self.return_expired else left or {}
        result = [(key, value) for key, (value, _) in visible.items()]
        if left is None:
            self.table.remove(entry)
        elif self.on_read:
            self.table.put(entry, {key: (value, now) for key, (value, _) in left.items()})
        elif left is not stored:
            self.table.put(entry, left)
        return result

    def keys(self) -> list[Any]:
        """Return all keys."""
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        """Return all values."""
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        """Whether there is no visible entry. This is not a read: it does not refresh the TTL."""
        stored = self.table.get(self.entry())
        if stored is None or self.return_expired:
            return not stored
        return self.pruned(stored, self.backend.clock()) is None

    __contains__ = contains


class TtlReducingState(TtlState, KeyedReducingState):
    """One value per key, folded with a ReduceFunction, that expires."""

    def get(self) -> StateValue:
        """Return the folded value, or None."""
        return self.read()

    def add(self, value: StateValue) -> None:
        """Fold a value in."""
        entry = self.entry()
        now = self.access(entry)
        current = self.current(self.table.get(entry), now)
        self.table.put(entry, (value if current is None else self._reduce(current, value), now))


class TtlAggregatingState(TtlState, KeyedAggregatingState):
    """One accumulator per key, of an AggregateFunction, that expires."""

    def get(self) -> StateValue:
        """Return the result of the accumulator, or None."""
        accumulator = self.read()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: StateValue) -> None:
        """Add a value to the accumulator."""
        entry = self.entry()
        now = self.access(entry)
        accumulator = self.current(self.table.get(entry), now)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self.table.put(entry, (self._function.add(value, accumulator), now))


STATE_CLASSES.update(
    {
        (state.kind, True): state
        for state in (
            TtlValueState,
            TtlListState,
            TtlMapState,
            TtlReducingState,
            TtlAggregatingState,
        )
    }
)

__all__ = [
    "STATE_CLASSES",
    "TtlAggregatingState",
    "TtlListState",
    "TtlMapState",
    "TtlReducingState",
    "TtlState",
    "TtlValueState",
]
