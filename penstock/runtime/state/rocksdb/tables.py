"""State tables in RocksDB, behind a cache of objects.

Key of an entry: table name | key group | key | namespace, of an entry of a map: ... | key in the map. A value is one byte
and a pickle:
0, the value; 1, the keys as objects and the value, for keys that cannot be decoded from their bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.common.user_types import Key, StateValue
from penstock.graph.key_groups import key_group_of
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.state.rocksdb.key_codec import decode, encode, is_exact, skip
from penstock.runtime.state.rocksdb.store import RocksDBStore, after
from penstock.runtime.state.table import MISSING, REMOVED, Pruned, Sweep, TableDelta

if TYPE_CHECKING:
    from rocksdict import WriteBatch


DATA: Final = b"\x01"  # prefix of entry keys; the backend's own keys begin with 0
_MANY: Final = 32
_WORTH_IT: Final = b"1"


def dump(value: object, keys: object) -> bytes:
    """Encode a value; `keys` are its keys if they cannot be decoded from their bytes, else MISSING."""
    if keys is MISSING:
        return b"\0" + dumps(value)
    return b"\1" + dumps((keys, value))


def load(data: bytes) -> Any:
    """Decode a value encoded by `dump`."""
    value = pickle.loads(memoryview(data)[1:])
    return value if data[0] == 0 else value[1]


def convert(data: bytes, kind: str, conversion: Callable[[Any], Any]) -> bytes:
    """Return the bytes of an entry with its values converted.

    The first byte says whether keys are stored with the value, and whether a list has segments (`lists.py`).
    """
    value = pickle.loads(memoryview(data)[1:])
    keys = None
    if data[0] & 1:
        keys, value = value
    if kind != "list":
        value = conversion(value)
    elif data[0] & 2:
        value = value[0], [conversion(element) for element in value[1]]
    else:
        value = [conversion(element) for element in value]
    return data[:1] + dumps((keys, value) if data[0] & 1 else value)


class TableOwner(Protocol):
    """The backend as seen by its tables. There is no store before the first entry is written."""

    store: RocksDBStore | None
    max_parallelism: int

    def read_own(self, key: bytes) -> bytes | None:
        """Return a value that the backend itself stored in the database."""

    def delete_now(self, key: bytes) -> None:
        """Delete an entry from the database immediately."""

    def trim_cache(self, *, at_once: bool = False) -> None:
        """Write to the database before the barrier if too many entries are cached."""


class StoredTable:
    """Base class of all tables in RocksDB."""

    def __init__(self, backend: TableOwner, name: str, namespaced: bool) -> None:
        self.backend = backend
        self.name = name
        self.namespaced = namespaced
        self.prefix = DATA + encode(name)
        self.end = after(self.prefix)
        self._groups = backend.max_parallelism

    def group_of(self, key: object) -> bytes:
        """Return the bytes of a key's key group."""
        return key_group_of(key, self._groups).to_bytes(2, "big")

    def pending(self) -> int:
        """Return the number of cached entries."""
        raise NotImplementedError

    def changed_values(self) -> Collection[Any]:
        """Return the values that the next `write` writes; may include removed ones."""
        return ()

    def write(self, batch: object) -> bool:
        """Add the changes to a batch and clear them; return whether there were any."""
        raise NotImplementedError

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the entry under `key`, or `default`."""
        raise NotImplementedError

    def put(self, key: Key, value: StateValue) -> None:
        """Write an entry."""
        raise NotImplementedError

    def get_many(self, keys: Sequence[Any], default: object = None) -> list[Any]:
        """Return the entries under many keys."""
        return [self.get(key, default) for key in keys]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Write many entries."""
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        raise NotImplementedError

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all entries: pairs if namespaced."""
        return (entry for entry, _ in self.items())

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def sweeper(self, size: int, pruned: Pruned) -> Sweep | None:
        """Return None: expired entries are searched for at barriers, not at every access."""
        return None

    def expect(self, keys: Collection[Any]) -> None:
        """Prefetch these distinct keys of the next records, if that is worthwhile."""

    def full(self) -> TableDelta:
        """Return everything."""
        return TableDelta(self.namespaced, dict(self.items()), [])

    def stored(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the stored entries of the table, from a key on."""
        store = self.backend.store
        return iter(()) if store is None else store.scan(start or self.prefix, self.end)


class RocksDBTable(StoredTable):
    """Entries by key, or by (key, namespace): the counterpart of HashMapTable.

    `touched` has the entries written since the barrier (REMOVED for removed ones), `loaded` those read.

    `_ahead` has the prefetched bytes (None: no entry) of expected keys, read in one call, which takes at most half of the
    time of reading
    them one by one (`RocksDBStore.get_many`). A table starts to prefetch when most keys of a batch were read, and stops
    when most
    prefetched entries were not.
    """

    def __init__(self, backend: TableOwner, name: str, namespaced: bool) -> None:
        super().__init__(backend, name, namespaced)
        self.touched: dict[Any, Any] = {}
        self.loaded: dict[Any, Any] = {}
        self._ahead: dict[Any, bytes | None] = {}
        self._count_ahead = 0  # entries prefetched for the last batch
        self._count_wanted = 0  # keys of the last batch that were not cached
        self._count_read = 0  # entries read one by one
        self._known_worth = backend.read_own(self._worth_key())
        self._worth = self._known_worth == _WORTH_IT

    def _worth_key(self) -> bytes:
        return b"\0ahead/" + self.name.encode()

    def encode_entry(self, entry: Any) -> bytes:
        """Return the database's key of an entry."""
        if self.namespaced:
            key, namespace = entry
            return self.prefix + self.group_of(key) + encode(key) + encode(namespace)
        return self.prefix + self.group_of(entry) + encode(entry)

    def decode_entry(self, data: bytes, value: bytes) -> object:
        """Return the entry's key as an object."""
        if value[0]:
            return pickle.loads(memoryview(value)[1:])[0]
        start = len(self.prefix) + 2
        if self.namespaced:
            return decode(data, start), decode(data, skip(data, start))
        return decode(data, start)

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the entry under `key`, or `default`."""
        value = self.touched.get(key, MISSING)
        if value is MISSING:
            value = self.loaded.get(key, MISSING)
            if value is MISSING:
                value = self.loaded[key] = self._load(key)
        return default if value is REMOVED else value

    def _load(self, key: object) -> object:
        data = self.fetch(key)
        return REMOVED if data is None else load(data)

    def fetch(self, key: object) -> bytes | None:
        """Return the bytes of an entry, prefetched or read now; None if there is none."""
        data: Any = self._ahead.pop(key, MISSING) if self._ahead else MISSING
        if data is MISSING:
            self._count_read += 1
            store = self.backend.store
            data = None if store is None else store.get(self.encode_entry(key))
        found: bytes | None = data
        return found

    def expect(self, keys: Collection[Any]) -> None:
        """Prefetch these distinct keys of the next records, if that is worthwhile."""
        store = self.backend.store
        if store is None or self.namespaced:
            return
        self._judge_reading()
        touched, loaded = self.touched, self.loaded
        wanted = [key for key in keys if key not in touched and key not in loaded]
        self._count_wanted = len(wanted)
        if self._worth and len(wanted) > 1:
            found = store.get_many([self.encode_entry(key) for key in wanted])
            self._ahead = dict(zip(wanted, found, strict=True))
            self._count_ahead = len(wanted)

    def get_many(self, keys: Sequence[Any], default: object = None) -> list[Any]:
        """Return the entries under many keys: those not cached are read in one call."""
        store = self.backend.store
        touched, loaded = self.touched, self.loaded
        if store is None and not touched:
            return [default] * len(keys)
        if store is not None:
            wanted = [key for key in keys if key not in touched and key not in loaded]
            if len(wanted) > 1:
                found = store.get_many([self.encode_entry(key) for key in wanted])
                for key, data in zip(wanted, found, strict=True):
                    loaded[key] = REMOVED if data is None else load(data)
        get = self.get
        return [get(key, default) for key in keys]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Write many entries."""
        self.touched.update(zip(keys, values, strict=True))

    def _judge_reading(self) -> None:
        """Decide from the last batch whether prefetching is worthwhile, and reset the counters."""
        if self._count_ahead:
            self._worth = 2 * len(self._ahead) <= self._count_ahead
        elif self._count_wanted:
            self._worth = 2 * self._count_read >= self._count_wanted
        self._ahead = {}
        self._count_ahead = self._count_wanted = self._count_read = 0

    def put(self, key: Key, value: StateValue) -> None:
        """Write an entry."""
        self.touched[key] = value

    def remove(self, key: object) -> None:
        """Remove an entry if it exists."""
        if self.backend.store is None or self.loaded.get(key) is REMOVED:
            self.touched.pop(key, None)
        else:
            self.touched[key] = REMOVED

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        touched, loaded = self.touched, self.loaded
        for data, value in self.stored():
            key = self.decode_entry(data, value)
            if key not in touched:
                found = loaded.get(key, MISSING)
                yield key, load(value) if found is MISSING else found
        for key, value in touched.items():
            if value is not REMOVED:
                yield key, value

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all entries: pairs if namespaced."""
        for data, value in self.stored():
            key = self.decode_entry(data, value)
            if key not in self.touched:
                yield key
        yield from [key for key, value in self.touched.items() if value is not REMOVED]

    def apply(self, delta: TableDelta) -> None:
        """Apply entries during restore."""
        self.touched.update(dict.fromkeys(delta.removed, REMOVED))
        self.touched.update(delta.written)

    def pending(self) -> int:
        """Return the number of cached entries."""
        return len(self.touched) + len(self.loaded)

    def changed_values(self) -> Collection[Any]:
        """Return the values that the next `write` writes; may include removed ones."""
        return self.touched.values()

    def write(self, batch: WriteBatch) -> bool:
        """Add the changes to a batch and clear them; return whether there were any."""
        touched, self.touched = self.touched, {}
        self.loaded = {}
        self._judge_reading()
        changed = self._write_entries(batch, touched)
        worth = _WORTH_IT if self._worth else None
        if changed and worth != self._known_worth:
            # For the next process: most databases are open only for an epoch or two.
            self._known_worth = worth
            if worth is None:
                batch.delete(self._worth_key())
            else:
                batch.put(self._worth_key(), worth)
        return changed

    def _write_entries(self, batch: WriteBatch, touched: dict[Any, Any]) -> bool:
        put, encode_entry = batch.put, self.encode_entry
        for key, value in touched.items():
            if value is REMOVED:
                batch.delete(encode_entry(key))
            else:
                put(encode_entry(key), dump(value, MISSING if is_exact(key) else key))
        return bool(touched)

    def look_at(self, start: bytes, count: int) -> Iterator[tuple[bytes, Any, Any]]:
        """Iterate over some stored entries that are not cached: (position, entry, value)."""
        for data, value in islice(self.stored(start), count):
            key = self.decode_entry(data, value)
            if key not in self.touched and key not in self.loaded:
                yield data, key, load(value)
            else:
                yield data, MISSING, None


class RocksDBMapTable(StoredTable):
    """A dictionary per entry, with one database entry per item.

    `touched` and `loaded` hold, by entry, items by key; `complete` are the entries that are loaded completely; `cleared`
    those whose items in
    the database no longer count.
    """

    def __init__(self, backend: TableOwner, name: str, namespaced: bool) -> None:
        super().__init__(backend, name, namespaced)
        self.touched: dict[Any, dict[Any, Any]] = {}
        self.loaded: dict[Any, dict[Any, Any]] = {}
        self.complete: set[Any] = set()
        self.cleared: dict[Any, None] = {}
        self._count = 0  # approximate number of items in `touched` and `loaded`

    def encode_entry(self, entry: Any) -> bytes:
        """Return the key prefix of an entry's items."""
        if self.namespaced:
            key, namespace = entry
            return self.prefix + self.group_of(key) + encode(key) + encode(namespace)
        return self.prefix + self.group_of(entry) + encode(entry)

    def decode_item(self, data: bytes, value: bytes) -> tuple[Any, Any]:
        """Return an entry and a key in its map as objects."""
        if value[0]:
            entry, key = pickle.loads(memoryview(value)[1:])[0]
            return entry, key
        start = len(self.prefix) + 2
        middle = skip(data, start)
        if self.namespaced:
            end = skip(data, middle)
            return (decode(data, start), decode(data, middle)), decode(data, end)
        return decode(data, start), decode(data, middle)

    def lookup(self, entry: object, key: object) -> Any:
        """Return the item under `key`, or MISSING."""
        touched = self.touched.get(entry)
        if touched is not None:
            value = touched.get(key, MISSING)
            if value is not MISSING:
                return MISSING if value is REMOVED else value
        if entry in self.cleared:
            return MISSING
        loaded = self.loaded.get(entry)
        if loaded is None:
            loaded = self.loaded[entry] = {}
        value = loaded.get(key, MISSING)
        if value is MISSING and entry not in self.complete:
            store = self.backend.store
            data = None if store is None else store.get(self.encode_entry(entry) + encode(key))
            value = loaded[key] = REMOVED if data is None else load(data)
            self._count += 1
        return MISSING if value is REMOVED else value

    def put_item(self, entry: object, key: object, value: object) -> None:
        """Set an item."""
        touched = self.touched.get(entry)
        if touched is None:
            touched = self.touched[entry] = {}
        touched[key] = value
        self._count += 1

    def remove_item(self, entry: object, key: object) -> None:
        """Remove an item if it exists."""
        if entry in self.cleared or self.backend.store is None:
            self.touched.get(entry, {}).pop(key, None)
        else:
            self.put_item(entry, key, REMOVED)

    def read(self, entry: object) -> dict[Any, Any]:
        """Return all items of an entry."""
        if entry in self.cleared:
            stored: dict[Any, Any] = {}
        else:
            stored = self._load_all(entry)
        found = {**stored, **self.touched.get(entry, {})}
        return {key: value for key, value in found.items() if value is not REMOVED}

    def _load_all(self, entry: object) -> dict[Any, Any]:
        loaded = self.loaded.setdefault(entry, {})
        store = self.backend.store
        if store is not None and entry not in self.complete:
            prefix = self.encode_entry(entry)
            for data, value in store.scan(prefix, after(prefix)):
                key = self.decode_item(data, value)[1]
                if key not in loaded:
                    loaded[key] = load(value)
            self._count += len(loaded)
        self.complete.add(entry)
        return loaded

    def is_empty(self, entry: object) -> bool:
        """Whether an entry has no items."""
        if any(value is not REMOVED for value in self.touched.get(entry, {}).values()):
            return False
        return not self.read(entry)

    # Table interface: an entry is a dictionary.

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the items of an entry as a dictionary, or `default` if there are none."""
        return self.read(key) or default

    def put(self, key: Key, value: dict[Any, Any]) -> None:
        """Replace all items of an entry."""
        self.remove(key)
        self.touched[key] = dict(value)
        self._count += len(value)

    def remove(self, key: object) -> None:
        """Remove all items of an entry."""
        self.touched.pop(key, None)
        self.loaded.pop(key, None)
        self.complete.discard(key)
        if self.backend.store is not None:
            self.cleared[key] = None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        current: Any = MISSING
        found: dict[Any, Any] = {}
        seen: set[Any] = set()
        for data, value in self.stored():
            entry, key = self.decode_item(data, value)
            if entry != current:
                if found:
                    yield current, found
                current, found = entry, {}
                seen.add(entry)
                hidden = entry in self.cleared
                touched = self.touched.get(entry, {})
                loaded = self.loaded.get(entry, {})
                found.update({k: v for k, v in touched.items() if v is not REMOVED})
            if not hidden and key not in touched:
                found[key] = loaded[key] if key in loaded else load(value)
        if found:
            yield current, found
        for entry, touched in self.touched.items():
            if entry not in seen:
                found = {key: value for key, value in touched.items() if value is not REMOVED}
                if found:
                    yield entry, found

    def apply(self, delta: TableDelta) -> None:
        """Apply entries during restore."""
        for entry in delta.removed:
            self.remove(entry)
        for entry, items in delta.written.items():
            self.put(entry, items)

    def pending(self) -> int:
        """Return the approximate number of cached items: it is called for every batch, so they are not counted."""
        return self._count + len(self.cleared)

    def changed_values(self) -> Collection[Any]:
        """Return the items that the next `write` writes; may include removed ones."""
        return self.touched.values()

    def write(self, batch: WriteBatch) -> bool:
        """Add the changes to a batch and clear them; return whether there were any."""
        touched, self.touched = self.touched, {}
        cleared, self.cleared = self.cleared, {}
        self.loaded, self.complete = {}, set()
        self._count = 0
        changed = False
        for entry in cleared:
            changed |= self._delete_all(batch, self.encode_entry(entry))
        for entry, items in touched.items():
            if not items:
                continue
            changed = True
            prefix = self.encode_entry(entry)
            exact = is_exact(entry)
            for key, value in items.items():
                if value is REMOVED:
                    batch.delete(prefix + encode(key))
                else:
                    keys = MISSING if exact and is_exact(key) else (entry, key)
                    batch.put(prefix + encode(key), dump(value, keys))
        return changed

    def _delete_all(self, batch: WriteBatch, prefix: bytes) -> bool:
        store = self.backend.store
        if store is None:
            return False
        # A few are deleted one by one: range tombstones slow down later reads.
        keys = list(islice(store.scan_keys(prefix, after(prefix)), _MANY))
        if len(keys) == _MANY:
            batch.delete_range(prefix, after(prefix))
        else:
            for key in keys:
                batch.delete(key)
        return bool(keys)

    def look_at(self, start: bytes, count: int) -> Iterator[tuple[bytes, Any, Any]]:
        """Iterate over some stored items that are not cached: (position, (entry, key), value)."""
        for data, value in islice(self.stored(start), count):
            entry, key = self.decode_item(data, value)
            if entry in self.touched or entry in self.loaded or entry in self.cleared:
                yield data, MISSING, None
            else:
                yield data, (entry, key), load(value)
