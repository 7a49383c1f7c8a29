"""Timers in RocksDB, ordered by time.

Key of a timer: table name | timestamp | key group | key | namespace. Timers registered or removed since the last barrier are
in memory, and the next few of the database; so neither a restore nor a snapshot reads the others.
"""

from __future__ import annotations

import heapq
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.common.user_types import Key, StateValue
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.state.rocksdb.key_codec import (
    decode,
    encode,
    is_exact,
    number_of,
    order_of,
    skip,
)
from penstock.runtime.state.rocksdb.tables import StoredTable, TableOwner
from penstock.runtime.state.table import TableDelta

if TYPE_CHECKING:
    from rocksdict import WriteBatch


Timer = tuple[int, Any, Any]  # timestamp, key, namespace
_FEW: Final = 32
_MANY: Final = 1024


class RocksDBTimerTable(StoredTable):
    """Pending timers of one time domain; both the table of the backend and the queue of the operator.

    As a table its entries are `(key, (namespace, timestamp))`, like those of a TimerQueue.

    `_added` may repeat timers of the database: registering twice has no effect. `_removed` applies to the database only.
    `_next` are
    the first timers of the database from `_position` on, prefetched.
    """

    def __init__(self, backend: TableOwner, name: str, namespaced: bool = True) -> None:
        super().__init__(backend, name, namespaced)
        self._added: dict[int, dict[tuple[Any, Any], None]] = {}
        self._times: list[int] = []
        self._removed: set[Timer] = set()
        self._count = 0  # approximate number of timers in `_added`
        self._next: deque[Timer] = deque()
        self._chunk = _FEW
        # No timer of the database is before this. Without it, a search for the first one would pass all tombstones.
        self._low = backend.read_own(self._low_key()) or self.prefix
        self._position: bytes | None = self._low

    def _low_key(self) -> bytes:
        return b"\0low/" + self.name.encode()

    def _encode(self, timer: Timer) -> bytes:
        timestamp, key, namespace = timer
        return (
            self.prefix + order_of(timestamp) + self.group_of(key) + encode(key) + encode(namespace)
        )

    def _decode(self, data: bytes, value: bytes) -> Timer:
        start = len(self.prefix)
        timestamp = number_of(data[start : start + 8])
        if value:
            key, namespace = pickle.loads(value)
            return timestamp, key, namespace
        start += 10
        return timestamp, decode(data, start), decode(data, skip(data, start))

    # Queue interface.

    def register(self, timestamp: int, key: object, namespace: object) -> None:
        """Add a timer; adding it twice has no effect."""
        timers = self._added.get(timestamp)
        if timers is None:
            timers = self._added[timestamp] = {}
            heapq.heappush(self._times, timestamp)
        timers[key, namespace] = None
        self._count += 1

    def delete(self, timestamp: int, key: object, namespace: object) -> None:
        """Remove a timer if it exists."""
        timers = self._added.get(timestamp)
        if timers is not None:
            timers.pop((key, namespace), None)
        if self.backend.store is not None:
            self._removed.add((timestamp, key, namespace))

    def count(self) -> int | None:
        """Return None: timers in the database are not counted."""
        return None

    def _next_added(self) -> int | None:
        times = self._times
        while times:
            if self._added.get(times[0]):
                return times[0]
            self._added.pop(heapq.heappop(times), None)
        return None

    def _next_stored(self) -> Timer | None:
        """Return the first timer of the database that was not removed, without taking it."""
        while True:
            if not self._next:
                self._read_ahead()
                if not self._next:
                    return None
            if self._next[0] not in self._removed:
                return self._next[0]
            self._next.popleft()

    def _read_ahead(self) -> None:
        if self._position is None:
            return
        last = None
        count, self._chunk = self._chunk, _MANY
        for data, value in islice(self.stored(self._position), count):
            self._next.append(self._decode(data, value))
            last = data
        self._position = last + b"\0" if last is not None and len(self._next) == count else None

    def next_time(self) -> int | None:
        """Return the earliest pending timestamp."""
        added, stored = self._next_added(), self._next_stored()
        if stored is None:
            return added
        return stored[0] if added is None else min(added, stored[0])

    def fire_until(self, limit: int, fire: Callable[[int, Any, Any], None]) -> None:
        """Fire all timers with timestamp <= limit, in order, including those registered in the meantime."""
        count = 0
        while (first := self.next_time()) is not None and first <= limit:
            timers = self._added.get(first)
            if timers:
                key, namespace = next(iter(timers))
                del timers[key, namespace]
                if self.backend.store is not None:
                    self._removed.add((first, key, namespace))
            else:
                timer = self._next.popleft()
                self._removed.add(timer)
                _, key, namespace = timer
            fire(first, key, namespace)
            count += 1
            if count % _MANY == 0:  # the watermark may advance far at once, and timers access state
                self.backend.trim_cache()

    # Table interface.

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return True for a timer that is pending, else `default`."""
        inner, (namespace, timestamp) = key
        timer = (timestamp, inner, namespace)
        if (inner, namespace) in self._added.get(timestamp, ()):
            return True
        store = self.backend.store
        if store is None or timer in self._removed or store.get(self._encode(timer)) is None:
            return default
        return True

    def put(self, key: Key, value: StateValue) -> None:
        """Register a timer."""
        inner, (namespace, timestamp) = key
        self.register(timestamp, inner, namespace)

    def remove(self, key: Key) -> None:
        """Delete a timer."""
        inner, (namespace, timestamp) = key
        self.delete(timestamp, inner, namespace)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""
        for data, value in self.stored(self._low):
            timer = self._decode(data, value)
            timestamp, key, namespace = timer
            added = (key, namespace) in self._added.get(timestamp, ())
            if timer not in self._removed and not added:
                yield (key, (namespace, timestamp)), True
        for timestamp, timers in self._added.items():
            for key, namespace in timers:
                yield (key, (namespace, timestamp)), True

    def apply(self, delta: TableDelta) -> None:
        """Apply timers during restore."""
        for entry in delta.removed:
            self.remove(entry)
        for entry in delta.written:
            self.put(entry, True)

    def pending(self) -> int:
        """Return the approximate number of cached timers: it is called for every batch, so they are not counted."""
        return self._count + len(self._removed)

    def write(self, batch: WriteBatch) -> bool:
        """Add the changes to a batch and clear them; return whether there were any."""
        first = self.next_time()
        added, self._added, self._times = self._added, {}, []
        self._count = 0
        removed, self._removed = self._removed, set()
        for timer in removed:
            batch.delete(self._encode(timer))
        changed = bool(removed)
        for timestamp, timers in added.items():
            for key, namespace in timers:
                changed = True
                exact = is_exact(key) and is_exact(namespace)
                batch.put(
                    self._encode((timestamp, key, namespace)),
                    b"" if exact else dumps((key, namespace)),
                )
        if changed:
            self._low = self.end if first is None else self.prefix + order_of(first)
            batch.put(self._low_key(), self._low)
            self._next.clear()
            self._chunk = _FEW
            self._position = None if first is None else self._low
        return changed
