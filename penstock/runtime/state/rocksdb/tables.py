"""State tables in RocksDB, behind the epoch's cache of objects.

Key of an entry: table name | key group | key | namespace, of an entry of a map: ... | key in the map. A value is one byte
and a pickle: 0, the value; 1, the keys as objects and the value, for keys that cannot be read back from their
bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from penstock.common.pickling import dumps
from penstock.graph.key_groups import key_group_of
from penstock.runtime.state.rocksdb.key_codec import decode, encode, is_exact, skip
from penstock.runtime.state.rocksdb.store import RocksDBStore, after
from penstock.runtime.state.table import MISSING, REMOVED, Pruned, Sweep, TableDelta

DATA: Final = b"\x01"  # what keys of entries begin with; those of the backend's own begin with 0
_MANY: Final = 32
_WORTH_IT: Final = b"1"


def dump(value: Any, keys: Any) -> bytes:
    """Return the bytes of a value; `keys` are its keys if they cannot be read back, else MISSING."""
    if keys is MISSING:
        return b"\0" + dumps(value)
    return b"\1" + dumps((keys, value))


def load(data: bytes) -> Any:
    """Return the value in bytes that `dump` made."""
    value = pickle.loads(memoryview(data)[1:])
    return value if data[0] == 0 else value[1]


def convert(data: bytes, kind: str, conversion: Callable[[Any], Any]) -> bytes:
    """Return the bytes of an entry of some kind of state with its values converted.

    The first byte says whether keys are beside the value, and whether a list has segments (`lists.py`).
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
    """What a table must know of the backend it belongs to. There is no store before the first entry is written."""

    store: RocksDBStore | None
    max_parallelism: int

    def read_own(self, key: bytes) -> bytes | None:
        """Return what the backend itself has put into the database."""

    def delete_now(self, key: bytes) -> None:
        """Delete an entry from the database at once."""

    def relieve(self, *, at_once: bool = False) -> None:
        """Write to the database before the barrier if the epoch has touched more than is good to keep in memory."""


class StoredTable:
    """Base of all tables in RocksDB."""

    def __init__(self, backend: TableOwner, name: str, namespaced: bool) -> None:
        self.backend = backend
        self.name = name
        self.namespaced = namespaced
        self.prefix = DATA + encode(name)
        self.end = after(self.prefix)
        self._groups = backend.max_parallelism

    def group_of(self, key: Any) -> bytes:
        """Return the bytes of a key's key group."""
        return key_group_of(key, self._groups).to_bytes(2, "big")

    def pending(self) -> int:
        """Return how many entries are kept as objects."""
        raise NotImplementedError

    def changed_values(self) -> Collection[Any]:
        """Return the values that the next `write` writes; what was removed may be among them."""
        return ()

    def write(self, batch: Any) -> bool:
        """Add what changed to a batch and forget it; return whether there was anything."""
        raise NotImplementedError

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry under `key`, or `default`."""
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        """Write an entry."""
        raise NotImplementedError

    def get_many(self, keys: Sequence[Any], default: Any = None) -> list[Any]:
        """Return the entries under many keys."""
        return [self.get(key, default) for key in keys]

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Write many entries."""
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change meanwhile."""
        raise NotImplementedError

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all entries: pairs if namespaced."""
        return (entry for entry, _ in self.items())

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def sweeper(self, size: int, pruned: Pruned) -> Sweep | None:
        """Return None: expired entries are looked for at barriers, not at every access."""
        return None

    def expect(self, keys: Collection[Any]) -> None:
        """Read ahead, if that is worth it: the next records have these keys, each of which is there once."""

    def full(self) -> TableDelta:
        """Return everything."""
        return TableDelta(self.namespaced, dict(self.items()), [])

    def stored(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Iterate over what the database holds of the table, from a key on."""
        store = self.backend.store
        return iter(()) if store is None else store.scan(start or self.prefix, self.end)


class RocksDBTable(StoredTable):
    """Entries by key, or by (key, namespace): the counterpart of HashMapTable.

    `touched` has what this epoch wrote (REMOVED for what it removed), `loaded` what it read.

    `_ahead` has the bytes (None: there are none) of keys that are expected to be asked for, read in one go, which takes half
    of the time of reading them one by one or less (`RocksDBStore.get_many`). A table begins to read ahead when most keys of
    a batch were asked for, and stops when most of what it read was not.
    """

    def __init__(self, backend: TableOwner, name: str, namespaced: bool) -> None:
        super().__init__(backend, name, namespaced)
        self.touched: dict[Any, Any] = {}
        self.loaded: dict[Any, Any] = {}
        self._ahead: dict[Any, bytes | None] = {}
        self._count_ahead = 0  # how many entries were read ahead for the last batch
        self._count_wanted = 0  # how many keys of the last batch were not in memory
        self._count_read = 0  # how many entries it read one by one
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

    def decode_entry(self, data: bytes, value: bytes) -> Any:
        """Return the entry's key as an object."""
        if value[0]:
            return pickle.loads(memoryview(value)[1:])[0]
        start = len(self.prefix) + 2
        if self.namespaced:
            return decode(data, start), decode(data, skip(data, start))
        return decode(data, start)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry under `key`, or `default`."""
        value = self.touched.get(key, MISSING)
        if value is MISSING:
            value = self.loaded.get(key, MISSING)
            if value is MISSING:
                value = self.loaded[key] = self._load(key)
        return default if value is REMOVED else value

    def _load(self, key: Any) -> Any:
        data = self.fetch(key)
        return REMOVED if data is None else load(data)

    def fetch(self, key: Any) -> bytes | None:
        """Return the bytes of an entry, read ahead or now; None if there is none."""
        data: Any = self._ahead.pop(key, MISSING) if self._ahead else MISSING
        if data is MISSING:
            self._count_read += 1
            store = self.backend.store
            data = None if store is None else store.get(self.encode_entry(key))
        found: bytes | None = data
        return found

    def expect(self, keys: Collection[Any]) -> None:
        """Read ahead, if that is worth it: the next records have these keys, each of which is there once."""
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

    def get_many(self, keys: Sequence[Any], default: Any = None) -> list[Any]:
        """Return the entries under many keys: what is not in memory is read in one go."""
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
        """Learn from the last batch whether reading ahead is worth it, and forget the batch."""
        if self._count_ahead:
            self._worth = 2 * len(self._ahead) <= self._count_ahead
        elif self._count_wanted:
            self._worth = 2 * self._count_read >= self._count_wanted
        self._ahead = {}
        self._count_ahead = self._count_wanted = self._count_read = 0

    def put(self, key: Any, value: Any) -> None:
        """Write an entry."""
        self.touched[key] = value

    def remove(self, key: Any) -> None:
        """Remove an entry if it is there."""
        if self.backend.store is None or self.loaded.get(key) is REMOVED:
            self.touched.pop(key, None)
        else:
            self.touched[key] = REMOVED

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change meanwhile."""
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
        """Take over entries while restoring."""
        self.touched.update(dict.fromkeys(delta.removed, REMOVED))
        self.touched.update(delta.written)

    def pending(self) -> int:
        """Return how many entries are kept as objects."""
        return len(self.touched) + len(self.loaded)

    def changed_values(self) -> Collection[Any]:
        """Return the values that the next `write` writes; what was removed may be among them."""
        return self.touched.values()

    def write(self, batch: Any) -> bool:
        """Add what changed to a batch and forget it; return whether there was anything."""
        touched, self.touched = self.touched, {}
        self.loaded = {}
        self._judge_reading()
        changed = self._write_entries(batch, touched)
        worth = _WORTH_IT if self._worth else None
        if changed and worth != self._known_worth:
            # For the next process: most databases are opened for an epoch or two.
            self._known_worth = worth
            if worth is None:
                batch.delete(self._worth_key())
            else:
                batch.put(self._worth_key(), worth)
        return changed

    def _write_entries(self, batch: Any, touched: dict[Any, Any]) -> bool:
        put, encode_entry = batch.put, self.encode_entry
        for key, value in touched.items():
            if value is REMOVED:
                batch.delete(encode_entry(key))
            else:
                put(encode_entry(key), dump(value, MISSING if is_exact(key) else key))
        return bool(touched)

    def look_at(self, start: bytes, count: int) -> Iterator[tuple[bytes, Any, Any]]:
        """Iterate over some stored entries that nobody has touched: (position, entry, value)."""
        for data, value in islice(self.stored(start), count):
            key = self.decode_entry(data, value)
            if key not in self.touched and key not in self.loaded:
                yield data, key, load(value)
            else:
                yield data, MISSING, None


class RocksDBMapTable(StoredTable):
    """A dictionary per entry, of which each item is an entry of the database.

    `touched` and `loaded` hold, by entry, items by key; `complete` are the entries of which all is loaded;
    `cleared` those whose items in the database count no more.
    """

    def __init__(self, backend: TableOwner, name: str, namespaced: bool) -> None:
        super().__init__(backend, name, namespaced)
        self.touched: dict[Any, dict[Any, Any]] = {}
        self.loaded: dict[Any, dict[Any, Any]] = {}
        self.complete: set[Any] = set()
        self.cleared: dict[Any, None] = {}
        self._count = 0  # about how many items `touched` and `loaded` have

    def encode_entry(self, entry: Any) -> bytes:
        """Return what the keys of an entry's items begin with."""
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

    def lookup(self, entry: Any, key: Any) -> Any:
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

    def put_item(self, entry: Any, key: Any, value: Any) -> None:
        """Set an item."""
        touched = self.touched.get(entry)
        if touched is None:
            touched = self.touched[entry] = {}
        touched[key] = value
        self._count += 1

    def remove_item(self, entry: Any, key: Any) -> None:
        """Remove an item if it is there."""
        if entry in self.cleared or self.backend.store is None:
            self.touched.get(entry, {}).pop(key, None)
        else:
            self.put_item(entry, key, REMOVED)

    def read(self, entry: Any) -> dict[Any, Any]:
        """Return all items of an entry."""
        if entry in self.cleared:
            stored: dict[Any, Any] = {}
        else:
            stored = self._load_all(entry)
        found = {**stored, **self.touched.get(entry, {})}
        return {key: value for key, value in found.items() if value is not REMOVED}

    def _load_all(self, entry: Any) -> dict[Any, Any]:
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

    def is_empty(self, entry: Any) -> bool:
        """Whether an entry has no items."""
        if any(value is not REMOVED for value in self.touched.get(entry, {}).values()):
            return False
        return not self.read(entry)

    # As other tables: an entry is a dictionary

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the items of an entry as a dictionary, or `default` if there are none."""
        return self.read(key) or default

    def put(self, key: Any, value: dict[Any, Any]) -> None:
        """Replace all items of an entry."""
        self.remove(key)
        self.touched[key] = dict(value)
        self._count += len(value)

    def remove(self, key: Any) -> None:
        """Remove all items of an entry."""
        self.touched.pop(key, None)
        self.loaded.pop(key, None)
        self.complete.discard(key)
        if self.backend.store is not None:
            self.cleared[key] = None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change meanwhile."""
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
        """Take over entries while restoring."""
        for entry in delta.removed:
            self.remove(entry)
        for entry, items in delta.written.items():
            self.put(entry, items)

    def pending(self) -> int:
        """Return about how many items are kept as objects: asked for with every batch, so they are not counted anew."""
        return self._count + len(self.cleared)

    def changed_values(self) -> Collection[Any]:
        """Return the items that the next `write` writes; what was removed may be among them."""
        return self.touched.values()

    def write(self, batch: Any) -> bool:
        """Add what changed to a batch and forget it; return whether there was anything."""
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

    def _delete_all(self, batch: Any, prefix: bytes) -> bool:
        store = self.backend.store
        if store is None:
            return False
        # Few are deleted one by one: what marks a whole range as deleted slows down later reads.
        keys = list(islice(store.scan_keys(prefix, after(prefix)), _MANY))
        if len(keys) == _MANY:
            batch.delete_range(prefix, after(prefix))
        else:
            for key in keys:
                batch.delete(key)
        return bool(keys)

    def look_at(self, start: bytes, count: int) -> Iterator[tuple[bytes, Any, Any]]:
        """Iterate over some stored items that nobody has touched: (position, (entry, key), value)."""
        for data, value in islice(self.stored(start), count):
            entry, key = self.decode_item(data, value)
            if entry in self.touched or entry in self.loaded or entry in self.cleared:
                yield data, MISSING, None
            else:
                yield data, (entry, key), load(value)
