"""Window panes in RocksDB, ordered by window end: the counterpart of PaneTable.

Key of an entry: table name | order of the window | window | key group | key. A window that ends is one key range.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.common.user_types import Key, StateValue
from penstock.runtime.state.rocksdb.key_codec import decode, encode, is_exact, order_of, skip
from penstock.runtime.state.rocksdb.store import after
from penstock.runtime.state.rocksdb.tables import StoredTable, TableOwner, dump, load
from penstock.runtime.state.table import MISSING, TableDelta

if TYPE_CHECKING:
    from rocksdict import WriteBatch


class StoredPane:
    """The stored contents of a window; the window operator's loops call `get`."""

    __slots__ = ("_table", "filled", "prefix")

    def __init__(self, table: RocksDBPaneTable, namespace: Any, *, filled: bool) -> None:
        self._table = table
        self.prefix = table.encode_namespace(namespace)
        self.filled = filled

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the contents for a key, or `default`."""
        if not self.filled:
            return default
        table = self._table
        assert table.backend.store is not None
        data = table.backend.store.get(self.prefix + table.group_of(key) + encode(key))
        return default if data is None else load(data)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all keys and contents."""
        store = self._table.backend.store
        if self.filled and store is not None:
            for data, value in store.scan(self.prefix, after(self.prefix)):
                yield self._table.decode_key(data, value, len(self.prefix)), load(value)


class RocksDBPaneTable(StoredTable):
    """Entries by namespace and then by key.

    `touched` has the entries since the last barrier, by namespace; `data` the namespaces in the database.
    """

    def __init__(self, backend: TableOwner, name: str, namespaced: bool = True) -> None:
        super().__init__(backend, name, namespaced)
        self.touched: dict[Any, dict[Any, Any]] = {}
        self.data: dict[Any, StoredPane] = {}
        self._handed_out: dict[Any, StoredPane] = {}
        self._dropped: list[bytes] = []
        for namespace in self._stored_namespaces():
            self.data[namespace] = StoredPane(self, namespace, filled=True)

    def _stored_namespaces(self) -> Iterator[Any]:
        position = self.prefix
        while True:
            found = next(self.stored(position), None)
            if found is None:
                return
            data, value = found
            start = len(self.prefix) + 8
            yield pickle.loads(memoryview(value)[1:])[0][1] if value[0] else decode(data, start)
            position = after(data[: skip(data, start)])

    def encode_namespace(self, namespace: object) -> bytes:
        """Return the key prefix of a namespace."""
        number = namespace if type(namespace) is int else getattr(namespace, "end", 0)
        return self.prefix + order_of(number) + encode(namespace)

    def decode_key(self, data: bytes, value: bytes, size: int) -> object:
        """Return the key of an entry whose encoded namespace has this size."""
        return pickle.loads(memoryview(value)[1:])[0][0] if value[0] else decode(data, size + 2)

    def namespaces(self) -> list[Any]:
        """Return all namespaces that have entries."""
        return list(dict.fromkeys([*self.data, *self.touched]))

    def pane(self, namespace: object) -> tuple[dict[Any, Any], StoredPane]:
        """Return the dictionary to write a namespace's entries to, and the stored pane."""
        pane = self.touched.get(namespace)
        if pane is None:
            pane = self.touched[namespace] = {}
        stored = self.data.get(namespace) or self._handed_out.get(namespace)
        if stored is None:
            stored = self._handed_out[namespace] = StoredPane(self, namespace, filled=False)
        return pane, stored

    def pop_pane(self, namespace: object) -> dict[Any, Any]:
        """Remove a namespace and return its entries by key."""
        stored = self.data.pop(namespace, None)
        self._handed_out.pop(namespace, None)
        pane = self.touched.pop(namespace, {})
        if stored is None:
            return pane
        base = dict(stored.items())
        self._dropped.append(stored.prefix)
        return {**base, **pane}

    def drop_pane(self, namespace: object) -> None:
        """Remove a namespace without returning its entries."""
        stored = self.data.pop(namespace, None)
        self._handed_out.pop(namespace, None)
        self.touched.pop(namespace, None)
        if stored is not None:
            self._dropped.append(stored.prefix)

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the entry under `(key, namespace)`, or `default`."""
        inner, namespace = key
        value = self.touched.get(namespace, {}).get(inner, MISSING)
        if value is MISSING:
            stored = self.data.get(namespace)
            return default if stored is None else stored.get(inner, default)
        return value

    def put(self, key: Key, value: StateValue) -> None:
        """Write an entry."""
        inner, namespace = key
        self.pane(namespace)[0][inner] = value

    def remove(self, key: Key) -> None:
        """Remove an entry if it exists."""
        inner, namespace = key
        pane = self.touched.get(namespace)
        if pane is not None:
            pane.pop(inner, None)
            if not pane:
                del self.touched[namespace]
        stored = self.data.get(namespace)
        if stored is not None:
            self.backend.delete_now(stored.prefix + self.group_of(inner) + encode(inner))
            if next(stored.items(), None) is None:
                del self.data[namespace]
                self._handed_out.pop(namespace, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        for namespace, stored in self.data.items():
            pane = self.touched.get(namespace, {})
            for key, value in stored.items():
                if key not in pane:
                    yield (key, namespace), value
        for namespace, pane in self.touched.items():
            for key, value in pane.items():
                yield (key, namespace), value

    def apply(self, delta: TableDelta) -> None:
        """Apply entries during restore."""
        for entry in delta.removed:
            self.remove(entry)
        for entry, value in delta.written.items():
            self.put(entry, value)

    def pending(self) -> int:
        """Return the number of cached entries."""
        return sum(map(len, self.touched.values()))

    def write(self, batch: WriteBatch) -> bool:
        """Add the changes to a batch and clear them; return whether there were any.

        Dictionaries that `pane` has returned stay in use: they are emptied.
        """
        dropped, self._dropped = self._dropped, []
        for prefix in dropped:
            batch.delete_range(prefix, after(prefix))
        changed = bool(dropped)
        for namespace, pane in self.touched.items():
            if not pane:
                continue
            changed = True
            stored = self.data.get(namespace)
            if stored is None:
                stored = self._handed_out.pop(namespace, None) or StoredPane(
                    self, namespace, filled=True
                )
                self.data[namespace] = stored
            exact = is_exact(namespace)
            for key, value in pane.items():
                keys = MISSING if exact and is_exact(key) else (key, namespace)
                batch.put(stored.prefix + self.group_of(key) + encode(key), dump(value, keys))
            pane.clear()
            stored.filled = True
        return changed

    def forget_handed_out(self) -> None:
        """Called at a barrier, when no dictionaries are in use any more."""
        self.touched = {}
        self._handed_out = {}
