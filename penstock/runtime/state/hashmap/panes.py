"""A state table in memory, organised by window first: window -> {key: value}.

Windows that end for all keys at once are read and dropped as a whole, without iterating over keys. It implements a
namespaced table:
deltas and full snapshots hold `(key, window)` entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.common.user_types import Key, StateValue
from penstock.runtime.state.hashmap.table import HashMapTable
from penstock.runtime.state.table import MISSING, TableDelta


class HashMapPaneTable(HashMapTable):
    """Entries as Python objects, by namespace and then by key.

    `data` and `touched` map a namespace to a dictionary by key. Every entry written since the last barrier is in
    `touched`; one that is in
    both counts as touched. `_dropped` holds entries of the last snapshot that were removed since.
    """

    __slots__ = ("_dropped",)

    def __init__(self, namespaced: bool = True) -> None:
        super().__init__(namespaced)
        self._dropped: list[tuple[Any, dict[Any, Any]]] = []

    def namespaces(self) -> list[Any]:
        """Return all namespaces that have entries."""
        return list(dict.fromkeys([*self.data, *self.touched]))

    def pane(self, namespace: object) -> tuple[dict[Any, Any], dict[Any, Any] | None]:
        """Return the dictionary to write a namespace's entries to, and that of earlier intervals, if any."""
        pane = self.touched.get(namespace)
        if pane is None:
            pane = self.touched[namespace] = {}
        return pane, self.data.get(namespace)

    def pop_pane(self, namespace: object) -> dict[Any, Any]:
        """Remove a namespace and return its entries by key."""
        base = self.data.pop(namespace, None)
        pane: dict[Any, Any] = self.touched.pop(namespace, None) or {}
        if base is None:
            return pane
        self._dropped.append((namespace, base))
        return {**base, **pane}

    def drop_pane(self, namespace: object) -> None:
        """Remove a namespace without returning its entries."""
        base = self.data.pop(namespace, None)
        self.touched.pop(namespace, None)
        if base is not None:
            self._dropped.append((namespace, base))

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the entry under `(key, namespace)`, or `default`."""
        inner, namespace = key
        for panes in (self.touched, self.data):
            pane = panes.get(namespace)
            if pane is not None:
                value = pane.get(inner, MISSING)
                if value is not MISSING:
                    return value
        return default

    def get_many(self, keys: Sequence[Any], default: object = None) -> list[Any]:
        """Return the entries under many keys."""
        return [self.get(key, default) for key in keys]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Write many entries."""
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def put(self, key: Key, value: StateValue) -> None:
        """Write an entry."""
        inner, namespace = key
        self.pane(namespace)[0][inner] = value

    def remove(self, key: Key) -> None:
        """Remove an entry if it exists."""
        inner, namespace = key
        for panes in (self.touched, self.data):
            pane = panes.get(namespace)
            if pane is not None and inner in pane:
                value = pane.pop(inner)
                if panes is self.data:
                    self._dropped.append((namespace, {inner: value}))
                if not pane:
                    del panes[namespace]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        touched = self.touched
        for namespace, base in self.data.items():
            pane = touched.get(namespace, {})
            for key, value in base.items():
                if key not in pane:
                    yield (key, namespace), value
        for namespace, pane in touched.items():
            for key, value in pane.items():
                yield (key, namespace), value

    def about(self) -> int:
        """Return the approximate number of entries: those of a window that spans a barrier may count twice."""
        return sum(len(pane) for panes in (self.data, self.touched) for pane in panes.values())

    def merge(self) -> TableDelta:
        """End the interval: merge `touched` into the rest and return it."""
        touched, self.touched = self.touched, {}
        dropped, self._dropped = self._dropped, []
        data = self.data
        written = {
            (key, namespace): value
            for namespace, pane in touched.items()
            for key, value in pane.items()
        }
        removed = {
            (key, namespace): None
            for namespace, base in dropped
            for key in base
            if (key, namespace) not in written
        }
        for namespace, pane in touched.items():
            base = data.get(namespace)
            if base is not None:
                base.update(pane)
            elif pane:
                data[namespace] = pane
        return TableDelta(self.namespaced, written, list(removed))

    def full(self) -> TableDelta:
        """Return everything, after `merge`."""
        return TableDelta(self.namespaced, dict(self.items()), [])

    def apply(self, delta: TableDelta) -> None:
        """Apply a delta during restore."""
        data = self.data
        for key, namespace in delta.removed:
            pane = data.get(namespace)
            if pane is not None:
                pane.pop(key, None)
                if not pane:
                    del data[namespace]
        last: Any = MISSING
        pane = {}
        for (key, namespace), value in delta.written.items():
            if namespace is not last:  # entries of one window are contiguous
                last = namespace
                pane = data.setdefault(namespace, {})
            pane[key] = value
