"""List state in RocksDB: appending costs as much as the appended elements, not as the whole list.

The whole list is stored under the key of its entry, as in other tables, unless it is too large to be rewritten repeatedly.
Then it is split: the elements so far become a *segment* under the key and a number, and later elements are stored under the
key, with the number of segments. Reading the list reads all of them.

The first byte of a value has flags: 1 if the entry's key is stored with it (as in other tables), 2 if there are segments.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.common.user_types import Key, StateValue
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.state.rocksdb.key_codec import decode, is_exact, skip
from penstock.runtime.state.rocksdb.store import after
from penstock.runtime.state.rocksdb.tables import RocksDBTable, TableOwner, dump, load
from penstock.runtime.state.states import KeyedListState
from penstock.runtime.state.table import MISSING, REMOVED
from penstock.runtime.state.ttl import TtlListState

if TYPE_CHECKING:
    from rocksdict import WriteBatch


# A list is split when the value under its key is larger than this: the amount that is rewritten for a small append.
_CUT_BYTES: Final = 16 * 1024
_HAS_KEY: Final = 1
_HAS_SEGMENTS: Final = 2
_MANY: Final = 32

Head = tuple[int, list[Any]]  # the number of segments, and the elements after them


def load_head(data: bytes) -> Head:
    """Decode the value under the key of a list."""
    value = pickle.loads(memoryview(data)[1:])
    if data[0] & _HAS_KEY:
        value = value[1]
    return value if data[0] & _HAS_SEGMENTS else (0, value)


def dump_head(head: Head, key: object) -> bytes:
    """Encode the value under the key of a list; `key` is MISSING if it can be decoded from its bytes."""
    segments, elements = head
    if not segments:
        return dump(elements, key)
    if key is MISSING:
        return bytes([_HAS_SEGMENTS]) + dumps(head)
    return bytes([_HAS_SEGMENTS | _HAS_KEY]) + dumps((key, head))


def segment_key(entry: bytes, number: int) -> bytes:
    """Return the key of a segment: after that of its entry, before all others."""
    return entry + number.to_bytes(4, "big")


class RocksDBListTable(RocksDBTable):
    """A list per entry.

    `touched` has lists that are written as a whole, `appended` the elements added to other lists since the barrier.
    `loaded` has the lists
    that were read, with the added elements; `_uncut` are those of them without segments.
    """

    def __init__(self, backend: TableOwner, name: str, namespaced: bool) -> None:
        super().__init__(backend, name, namespaced)
        self.appended: dict[Any, list[Any]] = {}
        self._uncut: set[Any] = set()
        self._count_appended = 0

    def decode_entry(self, data: bytes, value: bytes) -> object:
        """Return the entry's key as an object."""
        if value[0] & _HAS_KEY:
            return pickle.loads(memoryview(value)[1:])[0]
        start = len(self.prefix) + 2
        if self.namespaced:
            return decode(data, start), decode(data, skip(data, start))
        return decode(data, start)

    def _is_segment(self, data: bytes) -> bool:
        end = skip(data, len(self.prefix) + 2)
        return (skip(data, end) if self.namespaced else end) < len(data)

    def append(self, entry: object, elements: list[Any]) -> None:
        """Append elements to a list; the list of elements is not copied."""
        self._count_appended += len(elements)
        known = self.touched.get(entry, MISSING)
        if known is MISSING and self.backend.store is not None:
            known = self.loaded.get(entry, MISSING)
            if entry not in self._uncut:
                if known is not MISSING:
                    known += elements
                added = self.appended.get(entry)
                if added is None:
                    self.appended[entry] = elements
                else:
                    added += elements
                return
        if known is MISSING or known is REMOVED:
            self.touched[entry] = elements
        else:
            known += elements
            self.touched[entry] = known

    def put(self, key: Key, value: StateValue) -> None:
        """Set a list."""
        self.appended.pop(key, None)
        self.touched[key] = value

    def remove(self, key: object) -> None:
        """Remove a list if it exists."""
        self.appended.pop(key, None)
        super().remove(key)

    def _load(self, key: object) -> object:
        data = self.fetch(key)
        added = self.appended.get(key)
        if data is None or not data[0] & _HAS_SEGMENTS:
            if added is None:
                self._uncut.add(key)
                return REMOVED if data is None else load(data)
            return [*added] if data is None else [*load(data), *added]
        elements = self._whole(self.encode_entry(key), data)
        return elements if added is None else elements + added

    def _whole(self, entry: bytes, data: bytes) -> list[Any]:
        segments, tail = load_head(data)
        if not segments:
            return tail
        store = self.backend.store
        assert store is not None
        stored = store.scan(segment_key(entry, 0), after(entry))
        return _joined((value for _, value in stored), tail)

    def _stored_lists(self) -> Iterator[tuple[Any, list[Any]]]:
        """Iterate over the current lists of the database, with appended elements."""
        entry: Any = MISSING
        segments: list[bytes] = []
        tail: list[Any] = []
        for data, value in self.stored():
            if self._is_segment(data):
                segments.append(value)
                continue
            if entry is not MISSING:
                yield entry, _joined(segments, tail)
            entry = self.decode_entry(data, value)
            segments, tail = [], load_head(value)[1]
        if entry is not MISSING:
            yield entry, _joined(segments, tail)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        new = dict(self.appended)
        for entry, elements in self._stored_lists():
            added = new.pop(entry, ())
            if entry not in self.touched:
                yield entry, [*elements, *added]
        for entry, value in self.touched.items():
            if value is not REMOVED:
                yield entry, value
        yield from new.items()

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all entries: pairs if namespaced."""
        new = dict(self.appended)
        for data, value in self.stored():
            if not self._is_segment(data):
                entry = self.decode_entry(data, value)
                new.pop(entry, None)
                if entry not in self.touched:
                    yield entry
        yield from [entry for entry, value in self.touched.items() if value is not REMOVED]
        yield from new

    def pending(self) -> int:
        """Return the number of cached entries, including appended elements."""
        return super().pending() + self._count_appended

    def changed_values(self) -> Collection[Any]:
        """Return the lists that the next `write` writes or appends; may include removed ones."""
        return [*self.touched.values(), *self.appended.values()]

    def _write_entries(self, batch: WriteBatch, touched: dict[Any, Any]) -> bool:
        appended, self.appended, self._count_appended = self.appended, {}, 0
        uncut, self._uncut = self._uncut, set()
        entries = {entry: self.encode_entry(entry) for entry in (*touched, *appended)}
        stored = self._heads(
            [(entry, place) for entry, place in entries.items() if entry not in uncut]
        )
        for entry, place in entries.items():
            data = stored.get(entry)
            segments, tail = (0, []) if data is None else load_head(data)
            if entry in appended:
                elements = tail + appended[entry]
            else:
                self._delete_segments(batch, place, segments)
                segments, elements = 0, touched[entry]
            if elements is REMOVED:
                batch.delete(place)
                continue
            key = MISSING if is_exact(entry) else entry
            head = dump_head((segments, elements), key)
            if len(head) > _CUT_BYTES:
                batch.put(segment_key(place, segments), dump(elements, MISSING))
                head = dump_head((segments + 1, []), key)
            batch.put(place, head)
        return bool(entries)

    def _heads(self, wanted: list[tuple[Any, bytes]]) -> dict[Any, bytes | None]:
        """Return the database values of some entries."""
        store = self.backend.store
        if store is None or not wanted:
            return {}
        found = store.get_many([place for _, place in wanted])
        return {entry: data for (entry, _), data in zip(wanted, found, strict=True)}

    def _delete_segments(self, batch: WriteBatch, place: bytes, count: int) -> None:
        # A few are deleted one by one: range tombstones slow down later reads.
        if count > _MANY:
            batch.delete_range(segment_key(place, 0), segment_key(place, count))
        else:
            for number in range(count):
                batch.delete(segment_key(place, number))

    def look_at(self, start: bytes, count: int) -> Iterator[tuple[bytes, Any, Any]]:
        """Iterate over some stored entries that are not cached: (position, entry, value)."""
        for data, value in islice(self.stored(start), count):
            if self._is_segment(data):
                yield data, MISSING, None
                continue
            key = self.decode_entry(data, value)
            if key in self.touched or key in self.loaded or key in self.appended:
                yield data, MISSING, None
            else:
                yield data, key, self._whole(data, value)


def _joined(segments: Iterable[bytes], tail: list[Any]) -> list[Any]:
    elements: list[Any] = []
    for segment in segments:
        elements += load(segment)
    elements += tail
    return elements


class RocksDBListState(KeyedListState):
    """A list per key. Appending does not read it."""

    __slots__ = ()
    table: RocksDBListTable

    def add(self, value: StateValue) -> None:
        """Append an element."""
        self.table.append(self.entry(), [value])

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        values = list(values)
        if values:
            self.table.append(self.entry(), values)


class RocksDBTtlListState(TtlListState, RocksDBListState):
    """A list per key whose elements expire one by one: each is `(value, timestamp)`."""
