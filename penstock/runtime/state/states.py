"""State objects for user functions: value, list, map, reducing, aggregating."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from penstock.common.user_types import Key, StateValue
from penstock.runtime.state.table import StateTable, TableDelta
from penstock.runtime.user_code import method_of


class KeyContext(Protocol):
    """The backend as seen by state objects: the current key and namespace, and the time."""

    clock: Callable[[], int]
    current_key: Key
    current_namespace: Any


class KeyedState:
    """Base class: finds the entry of the current key (and, in a namespaced table, the current window)."""

    kind = ""
    __slots__ = ("backend", "descriptor", "namespaced", "table")

    def __init__(self, backend: KeyContext, table: StateTable, descriptor: Any) -> None:
        self.backend = backend
        self.table = table
        self.descriptor = descriptor
        self.namespaced = table.namespaced

    def entry(self) -> Any:
        """Return the table key of the current key."""
        backend = self.backend
        if self.namespaced:
            return (backend.current_key, backend.current_namespace)
        return backend.current_key

    def clear(self) -> None:
        """Remove the state of the current key."""
        self.table.remove(self.entry())

    def live(self, delta: TableDelta) -> TableDelta:
        """Return a full snapshot of the table without expired entries; here, none expire."""
        return delta


class KeyedValueState(KeyedState):
    """A single value per key."""

    kind = "value"
    __slots__ = ()

    def value(self) -> StateValue:
        """Return the value, or None."""
        return self.table.get(self.entry())

    def update(self, value: object) -> None:
        """Set the value; None removes it."""
        if value is None:
            self.clear()
        else:
            self.table.put(self.entry(), value)


class KeyedListState(KeyedState):
    """A list per key."""

    kind = "list"
    __slots__ = ()

    def get(self) -> Iterator[Any]:
        """Iterate over the elements."""
        return iter(list(self.table.get(self.entry()) or ()))

    def __iter__(self) -> Iterator[Any]:
        return self.get()

    def add(self, value: StateValue) -> None:
        """Append an element."""
        entry = self.entry()
        elements = self.table.get(entry)
        if elements is None:
            elements = []
        elements.append(value)
        self.table.put(entry, elements)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        values = list(values)
        if values:
            entry = self.entry()
            elements = self.table.get(entry)
            if elements is None:
                elements = values
            else:
                elements += values
            self.table.put(entry, elements)

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements; an empty list removes the state."""
        values = list(values)
        if values:
            self.table.put(self.entry(), values)
        else:
            self.clear()


class KeyedMapState(KeyedState):
    """A dictionary per key."""

    kind = "map"
    __slots__ = ()

    def _read(self) -> dict[Any, Any]:
        found: dict[Any, Any] | None = self.table.get(self.entry())
        return {} if found is None else found

    def get(self, key: Key) -> StateValue:
        """Return the value under `key`, or None."""
        return self._read().get(key)

    def put(self, key: Key, value: StateValue) -> None:
        """Set one entry."""
        entry = self.entry()
        mapping = self.table.get(entry)
        if mapping is None:
            mapping = {}
        mapping[key] = value
        self.table.put(entry, mapping)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set several entries."""
        if dict_value:
            entry = self.entry()
            mapping = self.table.get(entry)
            if mapping is None:
                mapping = {}
            mapping.update(dict_value)
            self.table.put(entry, mapping)

    def remove(self, key: object) -> None:
        """Remove one entry if it exists."""
        entry = self.entry()
        mapping = self.table.get(entry)
        if mapping is not None and key in mapping:
            del mapping[key]
            if mapping:
                self.table.put(entry, mapping)
            else:
                self.table.remove(entry)

    def contains(self, key: object) -> bool:
        """Whether there is an entry under `key`."""
        return key in self._read()

    def items(self) -> list[tuple[Any, Any]]:
        """Return all entries."""
        return list(self._read().items())

    def keys(self) -> list[Any]:
        """Return all keys."""
        return list(self._read())

    def values(self) -> list[Any]:
        """Return all values."""
        return list(self._read().values())

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._read()

    __contains__ = contains

    def __getitem__(self, key: object) -> object:
        return self.get(key)

    def __setitem__(self, key: object, value: object) -> None:
        self.put(key, value)

    def __delitem__(self, key: object) -> None:
        self.remove(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class KeyedReducingState(KeyedState):
    """One value per key, folded with a ReduceFunction."""

    kind = "reducing"
    __slots__ = ("_reduce",)

    def __init__(self, backend: KeyContext, table: StateTable, descriptor: Any) -> None:
        super().__init__(backend, table, descriptor)
        self._reduce = method_of(descriptor.reduce_function, "reduce")

    def get(self) -> StateValue:
        """Return the folded value, or None."""
        return self.table.get(self.entry())

    def add(self, value: StateValue) -> None:
        """Fold a value in."""
        entry = self.entry()
        current = self.table.get(entry)
        self.table.put(entry, value if current is None else self._reduce(current, value))


class KeyedAggregatingState(KeyedState):
    """One accumulator per key, of an AggregateFunction."""

    kind = "aggregating"
    __slots__ = ("_function",)

    def __init__(self, backend: KeyContext, table: StateTable, descriptor: Any) -> None:
        super().__init__(backend, table, descriptor)
        self._function = descriptor.agg_function

    def get(self) -> StateValue:
        """Return the result of the accumulator, or None."""
        accumulator = self.table.get(self.entry())
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: StateValue) -> None:
        """Add a value to the accumulator."""
        entry = self.entry()
        accumulator = self.table.get(entry)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self.table.put(entry, self._function.add(value, accumulator))


STATE_CLASSES: dict[tuple[str, bool], type[KeyedState]] = {
    (state.kind, False): state
    for state in (
        KeyedValueState,
        KeyedListState,
        KeyedMapState,
        KeyedReducingState,
        KeyedAggregatingState,
    )
}
