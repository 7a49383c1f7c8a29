"""The keyed state of one operator in one subtask."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.errors import InvalidProgramError
from penstock.graph.key_groups import key_group_of
from penstock.runtime.state import schema as schemas
from penstock.runtime.state.panes import PANE_PREFIX, PaneTable
from penstock.runtime.state.schema import StateSchema
from penstock.runtime.state.states import KeyedState
from penstock.runtime.state.table import HashMapTable, TableDelta
from penstock.runtime.state.ttl import STATE_CLASSES


class KeyedStateBackend:
    """Holds the operator's tables, and the key (and namespace) that state access works on.

    The operator sets `current_key` before it calls user code, and `current_namespace` (a window) where state belongs to
    one.
    """

    in_memory = True

    def __init__(self, clock: Callable[[], int], operator: str = "") -> None:
        self.clock = clock
        self.operator = operator
        self.current_key: Any = None
        self.current_namespace: Any = None
        self.schemas: dict[
            str, StateSchema
        ] = {}  # what is known of states, by the name of their table
        self._tables: dict[str, Any] = {}
        self._states: dict[str, KeyedState] = {}

    def table(self, name: str, *, namespaced: bool = False) -> Any:
        """Return the table `name`, created on first use: a HashMapTable, or what stands for one in another backend."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._create_table(name, namespaced)
        elif table.namespaced != namespaced:
            raise InvalidProgramError(
                f"state '{name}' is used both per key and per key and window",
                hint="give one of the two state descriptors another name",
            )
        return table

    def _create_table(self, name: str, namespaced: bool) -> Any:
        return (PaneTable if name.startswith(PANE_PREFIX) else HashMapTable)(namespaced)

    def _state_class(self, kind: str, ttl: bool) -> type[KeyedState]:
        return STATE_CLASSES[kind, ttl]

    def create_timer_queue(self, name: str) -> Any:
        """Return the queue of the timers `name`."""
        from penstock.runtime.time.timers import TimerQueue

        return TimerQueue(self, name)

    def has_entries(self, name: str) -> bool:
        """Whether the table `name` is there and holds anything."""
        table = self._tables.get(name)
        return table is not None and next(table.items(), None) is not None

    def get_state(self, descriptor: Any, *, namespaced: bool = False) -> Any:
        """Return the state object for a descriptor; the same object for the same name."""
        name = f"{'window' if namespaced else 'state'}/{descriptor.name}"
        state = self._states.get(name)
        if state is not None:
            if state.kind != descriptor.kind:
                raise InvalidProgramError(
                    f"state '{descriptor.name}' was registered as {state.kind} state and is now asked for as "
                    f"{descriptor.kind} state",
                    hint="give one of the two state descriptors another name",
                )
            return state
        wanted = StateSchema.of(descriptor)
        before = self.schemas.get(name)
        if before is not None:
            schemas.check(self.operator, descriptor.name, before, wanted)
        self.schemas[name] = wanted
        table = self.table(name, namespaced=namespaced)
        if before is not None and before.ttl != wanted.ttl:
            self._convert_ttl(table, wanted)
        state = self._state_class(wanted.kind, wanted.ttl)(self, table, descriptor)
        self._states[name] = state
        return state

    def snapshot(self) -> dict[str, TableDelta]:
        """End the epoch: return what each table changed."""
        deltas = {}
        for name, table in self._tables.items():
            delta = table.merge()
            if delta.written or delta.removed:
                delta.schema = self.schemas.get(name)
                deltas[name] = delta
        return deltas

    def full_snapshot(self) -> dict[str, TableDelta]:
        """Return all there is, after `snapshot`, without state that has expired."""
        deltas = {name: table.full() for name, table in self._tables.items()}
        for name, state in self._states.items():
            deltas[name] = state.live(deltas[name])
        for name, delta in deltas.items():
            delta.schema = self.schemas.get(name)
        return deltas

    def apply(
        self,
        deltas: dict[str, TableDelta],
        owns: Callable[[Any], bool] | None = None,
        others: dict[str, StateSchema] | None = None,
    ) -> None:
        """Replay deltas while restoring; `owns` tells which keys belong to this subtask (None: all).

        `others` are the schemas of entries that came from other subtasks.
        """
        for name, delta in deltas.items():
            owned = delta if owns is None else _only_owned(delta, owns)
            schema = delta.schema
            if schema is not None:
                self.schemas[name] = self._combined(name, schema, others or {})
                if self.schemas[name].ttl != schema.ttl:
                    convert = schemas.ttl_converter(not schema.ttl, self.clock())
                    owned = replace(
                        owned,
                        written={
                            entry: _converted(schema.kind, stored, convert)
                            for entry, stored in owned.written.items()
                        },
                    )
            self.table(name, namespaced=delta.namespaced).apply(owned)

    def _combined(
        self, name: str, schema: StateSchema, others: dict[str, StateSchema]
    ) -> StateSchema:
        """Return the schema of a table that gets the entries of one more subtask."""
        other = others.get(name)
        if other is None:
            return schema
        return schemas.combined(self.operator, name.partition("/")[2], other, schema)

    def _convert_ttl(self, table: Any, wanted: StateSchema) -> None:
        """Rewrite restored entries because their state now expires, or does so no longer."""
        convert = schemas.ttl_converter(wanted.ttl, self.clock())
        for entry, stored in list(table.items()):
            table.put(entry, _converted(wanted.kind, stored, convert))

    def write_snapshot(self, state_io: Any, chain: Any, name: Any, *, force: bool) -> Any:
        """End the epoch and make its state durable; return the new chain, or None if nothing has changed.

        `chain` is the one that this snapshot continues, None if there is none; `force` asks for a snapshot in any case.
        """
        delta = self.snapshot()
        if not (delta or force):
            return None
        return state_io.store(chain, name, delta, self.full_snapshot)

    def restore(
        self, state_io: Any, chains: tuple[Any, ...], owned: range | None, max_parallelism: int
    ) -> Any:
        """Start from chains of snapshots; return the one that the next snapshot continues, or None.

        `owned` are the key groups to keep, None for all. With several chains, or one that holds other subtasks' keys
        too, or one of another backend or of a savepoint, the next snapshot starts a chain of its own.
        """
        owns = owner_of(owned, max_parallelism)
        for chain in chains:
            others = dict(self.schemas)
            for deltas in read_chain(state_io, chain, max_parallelism, owned):
                self.apply(deltas, owns, others)
        if len(chains) != 1 or owned is not None or database_of(chains[0]) is not None:
            return None
        return None if getattr(chains[0], "is_savepoint", False) else chains[0]

    def expect(self, keys: Collection[Any]) -> None:
        """Prepare for records with these keys, where the backend can: they are processed next."""

    def relieve(self) -> None:
        """Make room in memory, where the backend can."""

    def close(self) -> None:
        """Release resources."""

    def keys(self, name: str) -> list[Any]:
        """Return the keys that have an entry in state `name`."""
        table = self._tables.get(name)
        if table is None:
            return []
        keys = (entry for entry, _ in table.items())
        return list(dict.fromkeys(key[0] for key in keys)) if table.namespaced else list(keys)


def database_of(chain: Any) -> Any:
    """Return the snapshot of a database that a chain is, or None if it is one of tables."""
    return getattr(chain, "database", None)


def read_chain(
    state_io: Any, chain: Any, max_parallelism: int, owned: range | None = None
) -> Iterator[dict[str, TableDelta]]:
    """Read the tables of a chain, oldest first, of whatever backend it is.

    With `owned`, entries of other key groups may be left out.
    """
    database = database_of(chain)
    if database is None:
        yield from state_io.load(chain, owned)
        return
    from penstock.graph.rocksdb_settings import RocksDBSettings
    from penstock.runtime.state.rocksdb.backend import read_deltas

    with tempfile.TemporaryDirectory(prefix="penstock-state-") as directory:
        path = Path(directory) / "database"
        path.mkdir()
        state_io.fetch_files(database, path, RocksDBSettings())
        yield from read_deltas(path, RocksDBSettings(), max_parallelism)


def owner_of(owned: range | None, max_parallelism: int) -> Callable[[Any], bool] | None:
    """Return a function that tells whether a key belongs to some key groups; None: all do."""
    if owned is None:
        return None
    return lambda key: key_group_of(key, max_parallelism) in owned


def _converted(kind: str, stored: Any, convert: Callable[[Any], Any]) -> Any:
    if kind == "list":
        return [convert(element) for element in stored]
    if kind == "map":
        return {key: convert(item) for key, item in stored.items()}
    return convert(stored)


def _only_owned(delta: TableDelta, owns: Callable[[Any], bool]) -> TableDelta:
    if delta.namespaced:
        written = {entry: value for entry, value in delta.written.items() if owns(entry[0])}
        removed = [entry for entry in delta.removed if owns(entry[0])]
    else:
        written = {entry: value for entry, value in delta.written.items() if owns(entry)}
        removed = [entry for entry in delta.removed if owns(entry)]
    return TableDelta(delta.namespaced, written, removed, delta.schema)
