"""Reads the entries of one table in one chain of state, whichever backend or savepoint wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.handles import StateChain, StateHandle, read_state
from penstock.checkpoint.manifest_store import explain_deleted_checkpoint
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common.user_types import Key
from penstock.errors import ArgumentError, FileError
from penstock.files.file_system import resolve
from penstock.files.paths import is_absolute
from penstock.graph.key_groups import key_group_of
from penstock.runtime.state.schema import StateSchema
from penstock.runtime.state.table import TableDelta
from penstock.state.databases import Databases
from penstock.state.edits import SwitchTtl, now_ms
from penstock.state.unpickling import explained, load, load_leniently

if TYPE_CHECKING:
    from penstock.runtime.state.rocksdb.store import RocksDBStore
    from penstock.savepoint.table_files import TableFile

# Entries of a database are counted by reading its keys, if it is not larger than this.
_COUNT_UP_TO = 64 << 20

Entry = tuple[Any, Any, Any]  # key, namespace (None if there is none), value


@dataclass(slots=True)
class TableSummary:
    """A table without its values; `entries` and `size` are None if they are expensive to compute."""

    namespaced: bool
    schema: StateSchema | None
    entries: int | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ChainReader:
    """Reads chains of state. It is sent to Spark tasks, so it holds only the path."""

    directory: str
    max_parallelism: int
    checkpoint_id: int | None = (
        None  # of the checkpoint, which a running job may delete; None for a savepoint
    )

    def tables(self, chain: StateChain, databases: Databases) -> dict[str, TableSummary]:
        """Return the tables of a chain, by name."""
        with explain_deleted_checkpoint(self.directory, self.checkpoint_id):
            return self._tables(chain, databases)

    def _tables(self, chain: StateChain, databases: Databases) -> dict[str, TableSummary]:
        if chain.database is not None:
            with databases.opened(self.directory, chain.database) as store:
                return _tables_of(store, counted=chain.size <= _COUNT_UP_TO)
        if chain.is_savepoint:
            return self._headers(chain)
        return self._count(chain)

    def parts(self, chain: StateChain, table: str) -> list[StateChain]:
        """Return the parts of a chain that can be read separately: each of a table's files in a savepoint, else the chain."""
        if not chain.is_savepoint:
            return [chain]
        with explain_deleted_checkpoint(self.directory, self.checkpoint_id):
            return [
                StateChain((replace(handle, kind="full"),))
                for handle in chain
                if self._name_in(handle) == table
            ]

    def may_hold(self, chain: StateChain, key: Key) -> bool:
        """Whether a chain covers the key group of a key."""
        group = key_group_of(key, self.max_parallelism)
        return any(start <= group < end for start, end in (h.key_groups for h in chain))

    def _name_in(self, handle: StateHandle) -> str:
        with _peek(self.directory, handle) as file:
            return file.header.name

    def _headers(self, chain: StateChain) -> dict[str, TableSummary]:
        """Return the tables of a savepoint, from the headers of its files."""
        summaries: dict[str, TableSummary] = {}
        for handle in chain:
            with _peek(self.directory, handle) as file:
                header, rows = file.header, file.rows
            found = summaries.setdefault(
                header.name, TableSummary(header.namespaced, header.schema, 0, 0)
            )
            found.entries = (found.entries or 0) + rows
            found.size = (found.size or 0) + handle.size
        return summaries

    def entries(
        self,
        chain: StateChain,
        table: str,
        databases: Databases,
        operator: str,
        *,
        ttl: bool | None = None,
    ) -> Iterator[Entry]:
        """Iterate over the entries of a table; `operator` is for errors.

        `ttl` is the wanted form of values, with or without TTL timestamps: subtasks that have not used a state since the
        program changed its TTL
        have the old form. None: as stored.
        """
        what = f"state '{table}' of operator '{operator}'"
        found = self._entries(chain, table, databases, what, ttl)
        with explain_deleted_checkpoint(self.directory, self.checkpoint_id):
            while True:
                with explained(what):
                    entry = next(found, None)
                if entry is None:
                    return
                yield entry

    def _entries(
        self, chain: StateChain, table: str, databases: Databases, what: str, ttl: bool | None
    ) -> Iterator[Entry]:
        if chain.database is not None:
            with databases.opened(self.directory, chain.database) as store:
                described = _described(store, table)
                found = _stored_entries(store, table, self.max_parallelism)
                yield from _with_ttl(found, described, ttl)
            return
        if chain.is_savepoint:
            yield from self._saved_entries(chain, table, ttl)
            return
        found, schema = self._merged_entries(chain, table, what)
        yield from _with_ttl(found, schema, ttl)

    def _merged_entries(
        self, chain: StateChain, table: str, what: str
    ) -> tuple[Iterator[Entry], StateSchema | None]:
        merged: dict[Any, Any] = {}
        namespaced, schema = False, None
        for tables in self._snapshots(chain, lambda data: load(data, what)):
            delta = tables.get(table)
            if delta is None:
                continue
            namespaced, schema = delta.namespaced, delta.schema or schema
            if not merged:
                merged = delta.written
                continue
            for entry in delta.removed:
                merged.pop(entry, None)
            merged.update(delta.written)
        return _split(merged, namespaced), schema

    def _saved_entries(self, chain: StateChain, table: str, ttl: bool | None) -> Iterator[Entry]:
        from penstock.savepoint.table_files import read_named

        storage = CheckpointFileSystem(self.directory)
        for handle in chain:
            if len(chain) > 1 and self._name_in(handle) != table:
                continue
            for name, delta in read_named(storage, handle):
                if name != table:
                    break
                yield from _with_ttl(_split(delta.written, delta.namespaced), delta.schema, ttl)

    def _snapshots(
        self, chain: StateChain, unpickle: Callable[[bytes], Any]
    ) -> Iterator[dict[str, TableDelta]]:
        storage = CheckpointFileSystem(self.directory)
        for handle in chain:
            yield self._tables_in(storage, handle, unpickle)

    def _tables_in(
        self, storage: CheckpointFileSystem, handle: StateHandle, unpickle: Callable[[bytes], Any]
    ) -> dict[str, TableDelta]:
        tables: dict[str, TableDelta] = unpickle(read_state(storage, handle))
        return tables

    def _count(self, chain: StateChain) -> dict[str, TableSummary]:
        """Return the tables of object snapshots: each is one pickle, which is read anyway."""
        summaries: dict[str, TableSummary] = {}
        keys: dict[str, set[Any]] = {}
        for tables in self._snapshots(chain, load_leniently):
            for name, delta in tables.items():
                held = keys.setdefault(name, set())
                held.difference_update(delta.removed)
                held.update(delta.written)
                summaries[name] = TableSummary(delta.namespaced, delta.schema, len(held))
        return summaries


def _split(written: dict[Any, Any], namespaced: bool) -> Iterator[Entry]:
    for entry, value in written.items():
        key, namespace = entry if namespaced else (entry, None)
        yield key, namespace, value


def _with_ttl(
    entries: Iterator[Entry], schema: StateSchema | None, ttl: bool | None
) -> Iterator[Entry]:
    """Return entries with values in the wanted form; new TTL timestamps are the current time."""
    if ttl is None or schema is None or schema.ttl == ttl:
        return entries
    step = SwitchTtl(schema.kind, ttl, now_ms())
    return ((key, namespace, step.switched(value)) for key, namespace, value in entries)


@contextmanager
def _peek(directory: str, handle: StateHandle) -> Iterator[TableFile]:
    """Open a file of a savepoint for its metadata: only its end is read, and nothing is verified."""
    from penstock.savepoint.table_files import TableFile, open_table

    name = handle.name or ""
    if handle.name is None or not is_absolute(name):
        with open_table(CheckpointFileSystem(directory), handle) as file:
            yield file
        return
    try:
        files, path = resolve(name)
        opened = files.open_input(path)
    except (ArgumentError, FileError):
        with open_table(
            CheckpointFileSystem(directory), handle
        ) as file:  # raises the error that says what is wrong
            yield file
        return
    with opened:
        yield TableFile(opened, name)


def _tables_of(store: RocksDBStore, *, counted: bool) -> dict[str, TableSummary]:
    from penstock.runtime.state.rocksdb.backend import read_tables

    return {
        name: TableSummary(
            namespaced, schema, _count_stored(store, name, namespaced, schema) if counted else None
        )
        for name, (namespaced, schema) in read_tables(store).items()
    }


def _count_stored(
    store: RocksDBStore, name: str, namespaced: bool, schema: StateSchema | None
) -> int:
    from penstock.runtime.state.rocksdb.key_codec import encode, skip
    from penstock.runtime.state.rocksdb.store import after
    from penstock.runtime.state.rocksdb.tables import DATA

    prefix = DATA + encode(name)
    stored = store.scan_keys(prefix, after(prefix))
    if schema is None or schema.kind not in {"list", "map"}:
        return sum(1 for _ in stored)
    count, last = 0, b""
    for data in stored:  # one per item of a map, or per segment of a list
        end = skip(data, len(prefix) + 2)
        entry = data[: skip(data, end) if namespaced else end]
        count, last = count + (entry != last), entry
    return count


def _described(store: RocksDBStore, table: str) -> StateSchema | None:
    from penstock.runtime.state.rocksdb.backend import read_tables

    _, schema = read_tables(store).get(table, (False, None))
    return schema


def _stored_entries(store: RocksDBStore, table: str, max_parallelism: int) -> Iterator[Entry]:
    from penstock.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend, read_tables
    from penstock.runtime.state.rocksdb.local_directory import LocalDirectory
    from penstock.runtime.state.rocksdb.settings import RocksDBSettings

    described = read_tables(store).get(table)
    if described is None:
        return
    namespaced, schema = described
    place = LocalDirectory((str(store.directory.parent),), "reading", store.directory.name, 0)
    backend = RocksDBKeyedStateBackend(lambda: 0, place, RocksDBSettings(), max_parallelism)
    backend.store = store
    if schema is not None:
        backend.schemas[table] = schema
    for entry, value in backend.table(table, namespaced=namespaced).items():
        key, namespace = entry if namespaced else (entry, None)
        yield key, namespace, value
