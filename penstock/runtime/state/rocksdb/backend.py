"""The rocksdb backend: the keyed state of one operator in one subtask, in its own database.

Between barriers, accessed state is cached as objects, as in the hashmap backend. At the barrier the changes are written to the
database, the database is checkpointed by hard links, and new files are uploaded to checkpoint storage. So the cost of a
checkpoint depends on the accessed state, not on the size of the state.

A database belongs to one attempt. It starts as links to the files of the last completed checkpoint, and is deleted with the
attempt; only files named by a checkpoint's manifest count.
"""

from __future__ import annotations

import contextlib
import pickle
import weakref
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.errors import CheckpointError
from penstock.processes import temporary
from penstock.runtime.state.keyed import (
    KeyedStateBackend,
    Prepared,
    ReadChain,
    database_of,
    load_tables,
    owner_of,
)
from penstock.runtime.state.panes import PANE_PREFIX
from penstock.runtime.state.rocksdb.key_codec import encode, skip
from penstock.runtime.state.rocksdb.lists import (
    RocksDBListState,
    RocksDBListTable,
    RocksDBTtlListState,
)
from penstock.runtime.state.rocksdb.local_directory import LocalDirectory, remove
from penstock.runtime.state.rocksdb.map_state import RocksDBMapState, RocksDBTtlMapState
from penstock.runtime.state.rocksdb.panes import RocksDBPaneTable
from penstock.runtime.state.rocksdb.settings import RocksDBSettings
from penstock.runtime.state.rocksdb.store import CHANGES, RocksDBStore, after
from penstock.runtime.state.rocksdb.tables import (
    DATA,
    RocksDBMapTable,
    RocksDBTable,
    StoredTable,
    convert,
)
from penstock.runtime.state.rocksdb.timers import RocksDBTimerTable
from penstock.runtime.state.schema import StateSchema, ttl_converter
from penstock.runtime.state.states import KeyedState
from penstock.runtime.state.table import MISSING, TableDelta
from penstock.runtime.state.timers import TIMER_PREFIX, Timers
from penstock.runtime.state.ttl import TtlState

if TYPE_CHECKING:
    from rocksdict import WriteBatch


_TABLE: Final = b"\0table/"  # a table's name -> (namespaced, schema)
_CURSOR: Final = b"\0cursor/"  # a table's name -> position of the search for expired entries
_IMPORT_AT_ONCE: Final = 10_000
_LOOK_AT_LEAST: Final = 100
_MUCH: Final = 1 << 20

_TABLES: Final[dict[str | None, type[StoredTable]]] = {
    "list": RocksDBListTable,
    "map": RocksDBMapTable,
}
_STATES: Final[dict[tuple[str, bool], type[KeyedState]]] = {
    ("list", False): RocksDBListState,
    ("list", True): RocksDBTtlListState,
    ("map", False): RocksDBMapState,
    ("map", True): RocksDBTtlMapState,
}


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """Tables in RocksDB. `place` is the local directory; the database is created with the first entry."""

    in_memory: ClassVar[bool] = False

    def __init__(
        self,
        clock: Callable[[], int],
        place: LocalDirectory,
        settings: RocksDBSettings,
        max_parallelism: int,
        operator: str = "",
        read_chain: ReadChain = load_tables,
    ) -> None:
        super().__init__(clock, operator, read_chain)
        self.place = place
        self.settings = settings
        self.max_parallelism = max_parallelism
        self.store: RocksDBStore | None = None
        self._changed = False  # whether the database has changes that no checkpoint contains
        self._described: dict[str, Any] = {}  # tables whose description is in the database
        self._taken: set[Path] = set()  # snapshots that are not written yet

    @classmethod
    def temporary(
        cls,
        clock: Callable[[], int],
        max_parallelism: int = 128,
        settings: RocksDBSettings | None = None,
        operator: str = "",
    ) -> RocksDBKeyedStateBackend:
        """Return a backend in a new temporary directory, for tests; the directory is deleted with the backend."""
        directory = temporary.create_directory("state")
        place = LocalDirectory((directory,), "temporary", "operator", 0)
        backend = cls(clock, place, settings or RocksDBSettings(), max_parallelism, operator)
        weakref.finalize(backend, remove, Path(directory))
        return backend

    # Tables and states.

    def create_table(self, name: str, namespaced: bool) -> StoredTable:
        """Return a new table: its kind follows from its name, or from the state that it belongs to."""
        if name.startswith(PANE_PREFIX):
            return RocksDBPaneTable(self, name, namespaced)
        if name.startswith(TIMER_PREFIX):
            return RocksDBTimerTable(self, name, namespaced)
        schema = self.schemas.get(name)
        kind = None if schema is None else schema.kind
        return _TABLES.get(kind, RocksDBTable)(self, name, namespaced)

    def state_class(self, kind: str, ttl: bool) -> type[KeyedState]:
        """Return the class of the state objects for user functions: lists and maps have their own here."""
        return _STATES.get((kind, ttl)) or super().state_class(kind, ttl)

    def create_timer_queue(self, name: str) -> Timers:
        """Return the queue of the timers `name`, which is their table."""
        queue: Timers = self.table(name, namespaced=True)
        return queue

    def read_own(self, key: bytes) -> bytes | None:
        """Return a value that the backend itself stored in the database."""
        if self.store is None:
            return None
        return self.store.get(key)

    def delete_now(self, key: bytes) -> None:
        """Delete an entry from the database immediately."""
        assert self.store is not None
        self.store.delete(key)
        self._changed = True

    # Writing.

    def snapshot(self) -> dict[str, TableDelta]:
        """End the interval. The changes are in the database, not in the (empty) result: see `write_snapshot`."""
        self._end_interval()
        return {}

    def expect(self, keys: Collection[Any]) -> None:
        """Prefetch state for records with these keys."""
        distinct = dict.fromkeys(keys)
        for table in self._tables.values():
            table.expect(distinct)

    def trim_cache(self, *, at_once: bool = False) -> None:
        """Write to the database before the barrier if too many entries are cached."""
        pending = sum(table.pending() for table in self._tables.values())
        if pending > (0 if at_once else self.settings.spill_entries):
            self._clean_up()
            self._write_out()

    def begin_snapshot(
        self, state_io: Any, chain: object, name: Any, *, force: bool
    ) -> Prepared | None:
        """Take the synchronous part of a snapshot: the immutable files of the database are linked later."""
        self._end_interval()
        if not (self._changed or force):
            return None
        store = self._open()
        store.check()
        directory = self.place.new()
        self._taken.add(directory)
        store.plan_checkpoint(directory)
        changes = store.take_changes()
        self._changed = False

        def write(after: Any, follows: bool) -> Any:
            try:
                store.checkpoint()
                # Changes are relative to the previous snapshot: if that was not written, they are useless.
                if follows and changes and _adds_much(directory, database_of(after)):
                    (directory / CHANGES).write_bytes(pickle.dumps(changes, 5))
                result = state_io.store_files(after, name, directory, self.settings)
                (directory / CHANGES).unlink(missing_ok=True)
            except BaseException:
                self._drop(directory)
                raise
            self._publish(directory, result, after)
            return result

        return chain, write

    def _publish(self, directory: Path, chain: object, before: object) -> None:
        """Keep a local copy of the written snapshot, and of the one before."""
        snapshots = [
            database.snapshot for each in (chain, before) if (database := database_of(each))
        ]
        self.place.publish(directory, snapshots[0])
        self._taken.discard(directory)
        self.place.prune(snapshots)

    def _drop(self, directory: Path) -> None:
        remove(directory)
        self._taken.discard(directory)

    def _clean_up(self) -> None:
        """Search for expired entries, before the cache is cleared: its size determines the effort."""
        for name, state in self._states.items():
            if (
                isinstance(state, TtlState)
                and state.cleans_in_background
                and self.store is not None
            ):
                self._clean(self._tables[name], state)

    def _end_interval(self) -> None:
        self._clean_up()
        self._write_out()
        for table in self._tables.values():
            if isinstance(table, RocksDBPaneTable):
                table.forget_handed_out()

    def _open(self) -> RocksDBStore:
        if self.store is None:
            self.store = RocksDBStore(self.place.new(), self.settings)
        return self.store

    def _write_out(self) -> None:
        if self.store is None and not any(table.pending() for table in self._tables.values()):
            return
        store = self._open()
        batch = store.batch()
        for name, table in self._tables.items():
            self.note_classes(name, table.changed_values())
            if table.write(batch):
                self._changed = True
                self._describe(batch, name, table)
        if len(batch):
            store.write(batch)

    def _describe(self, batch: WriteBatch, name: str, table: Any) -> None:
        described = (table.namespaced, self.schemas.get(name))
        if self._described.get(name) != described:
            self._described[name] = described
            batch.put(_TABLE + name.encode(), pickle.dumps(described, 5))

    def _clean(self, table: Any, state: TtlState) -> None:
        """Check some entries and remove expired ones.

        About twice as many as were accessed since the last time, so the search is faster than the growth, and its cost depends
        on the work of the interval. The next search continues where this one stopped.
        """
        store = self._open()
        count = max(2 * table.pending(), _LOOK_AT_LEAST)
        own = _CURSOR + table.name.encode()
        start = store.get(own) or table.prefix
        now, seen, last = self.clock(), 0, start
        is_map = isinstance(table, RocksDBMapTable)
        for position, entry, stored in list(table.look_at(start, count)):
            seen, last = seen + 1, position
            if entry is MISSING:
                continue
            left = state.pruned(stored, now)
            if left is stored:
                continue
            if is_map:
                table.remove_item(*entry)
            elif left is None:
                table.remove(entry)
            else:
                table.put(entry, left)
        batch = store.batch()
        batch.put(own, table.prefix if seen < count else last + b"\0")
        store.write(batch)

    # Reading.

    def restore(
        self, state_io: object, chains: tuple[Any, ...], owned: range | None, max_parallelism: int
    ) -> Any:
        """Restore chains of snapshots; return the one that the next snapshot continues, or None."""
        if len(chains) == 1 and owned is None and database_of(chains[0]) is not None:
            self._open_snapshot(state_io, database_of(chains[0]))
            return chains[0]
        for chain in chains:
            database = database_of(chain)
            others = dict(self.schemas)
            if database is None:
                for deltas in self.read_chain(state_io, chain, max_parallelism, owned):
                    self.apply(deltas, owner_of(owned, max_parallelism), others)
                    self._write_out()
            else:
                self._import(state_io, database, owned, others)
        return None

    def _open_snapshot(self, state_io: object, handle: Any) -> None:
        local = self.place.find(handle.snapshot)
        if local is not None:
            with contextlib.suppress(CheckpointError, OSError):  # falls back to checkpoint storage
                self._open_files(local)
                return
            self.close()
            remove(local)
        self._open_files(self._fetch(state_io, handle))

    def _open_files(self, snapshot: Path) -> None:
        self.store = RocksDBStore(self.place.clone(snapshot), self.settings)
        self._open_tables()

    def _fetch(self, state_io: Any, handle: Any) -> Path:
        directory = self.place.new()
        directory.mkdir()
        try:
            state_io.fetch_files(handle, directory, self.settings)
        except BaseException:
            remove(directory)
            raise
        return self.place.publish(directory, handle.snapshot)

    def _open_tables(self) -> None:
        assert self.store is not None
        for name, (namespaced, schema) in read_tables(self.store).items():
            self._described[name] = (namespaced, schema)
            if schema is not None:
                self.schemas[name] = schema
            self.table(name, namespaced=namespaced)

    def _import(
        self, state_io: Any, handle: Any, owned: range | None, others: dict[str, StateSchema]
    ) -> None:
        """Copy the entries of some key groups from another subtask's database."""
        directory = self.place.new()
        directory.mkdir()
        other = None
        target = self._open()
        try:
            state_io.fetch_files(handle, directory, self.settings)
            other = RocksDBStore(directory, self.settings)
            tables = read_tables(other)
            for name, (namespaced, schema) in tables.items():
                entries = entries_of(other, name, owned)
                if schema is not None:
                    self.schemas[name] = self.combined(name, schema, others)
                    if self.schemas[name].ttl != schema.ttl:
                        entries = self._converted(entries, schema.kind, not schema.ttl)
                self._put_all(entries)
                batch = target.batch()
                self._describe(batch, name, _Described(namespaced))
                target.write(batch)
        finally:
            if other is not None:
                other.close()
            remove(directory)
        self._changed = True
        self._tables.clear()
        self._open_tables()

    def _put_all(self, entries: Iterator[tuple[bytes, bytes]]) -> None:
        store = self._open()
        while some := list(islice(entries, _IMPORT_AT_ONCE)):
            batch = store.batch()
            for key, value in some:
                batch.put(key, value)
            store.write(batch)
            self._changed = True

    def _converted(
        self, entries: Iterator[tuple[bytes, bytes]], kind: str, expires: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        conversion = ttl_converter(expires, self.clock())
        return ((key, convert(value, kind, conversion)) for key, value in entries)

    def convert_ttl(self, table: Any, wanted: StateSchema) -> None:
        """Convert restored entries because their TTL was enabled or disabled, some at a time."""
        self._write_out()
        if self.store is not None:
            self._put_all(self._converted(table.stored(), wanted.kind, wanted.ttl))
            batch = self.store.batch()
            self._describe(batch, table.name, table)
            self.store.write(batch)

    def deltas_of(
        self, directory: Path, at_once: int = _IMPORT_AT_ONCE
    ) -> Iterator[dict[str, TableDelta]]:
        """Open the database of a directory and read all its tables, some entries at a time."""
        self.store = RocksDBStore(directory, self.settings)
        self._open_tables()
        for name, table in self._tables.items():
            entries = table.items()
            while some := dict(islice(entries, at_once)):
                yield {name: TableDelta(table.namespaced, some, [], self.schemas.get(name))}

    def about_entries(self) -> int | None:
        """Return the estimate of RocksDB, which excludes unwritten entries and includes timers."""
        return 0 if self.store is None else self.store.about_keys()

    def close(self) -> None:
        """Close the database and delete its directory; local copies of snapshots stay, unless the database is broken.

        Snapshots that are not written by then are discarded.
        """
        for directory in list(self._taken):
            self._drop(directory)
        store, self.store = self.store, None
        self._tables.clear()
        self._states.clear()
        if store is not None:
            store.close()
            remove(store.directory)
            if store.is_broken:  # the copies may share the broken files
                self.place.prune(())


def _adds_much(directory: Path, base: Any) -> bool:
    """Whether the upload of a database's new files may be deferred."""
    if base is None:
        return False
    known = {file.local for file in base.files}
    new = [file for file in directory.glob("*.sst") if file.name not in known]
    return sum(file.stat().st_size for file in new) > _MUCH


class _Described:
    def __init__(self, namespaced: bool) -> None:
        self.namespaced = namespaced


def read_tables(store: RocksDBStore) -> dict[str, tuple[bool, StateSchema | None]]:
    """Return the tables of a database by name: whether they are namespaced, and their schema."""
    return {
        key[len(_TABLE) :].decode(): pickle.loads(value)
        for key, value in store.scan(_TABLE, after(_TABLE))
    }


def entries_of(
    store: RocksDBStore, name: str, owned: range | None
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the entries of a table that belong to some key groups."""
    prefix = DATA + encode(name)
    in_time_order = name.startswith((PANE_PREFIX, TIMER_PREFIX))
    if owned is None:
        yield from store.scan(prefix, after(prefix))
    elif not in_time_order:
        start, end = owned.start.to_bytes(2, "big"), owned.stop.to_bytes(2, "big")
        yield from store.scan(prefix + start, prefix + end)
    else:
        order_end = len(prefix) + 8
        for key, value in store.scan(prefix, after(prefix)):
            at = skip(key, order_end) if name.startswith(PANE_PREFIX) else order_end
            if int.from_bytes(key[at : at + 2], "big") in owned:
                yield key, value


def read_deltas(
    directory: Path, settings: RocksDBSettings, max_parallelism: int
) -> Iterator[dict[str, TableDelta]]:
    """Read all tables of a snapshot's files, some entries at a time, in the form of the hashmap backend."""
    place = LocalDirectory((str(directory.parent),), "reading", directory.name, 0)
    backend = RocksDBKeyedStateBackend(lambda: 0, place, settings, max_parallelism)
    try:
        yield from backend.deltas_of(place.clone(directory))
    finally:
        backend.close()
        remove(place.job)


__all__ = ["RocksDBKeyedStateBackend", "read_deltas", "read_tables"]
