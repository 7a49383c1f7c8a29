"""The interface of keyed state backends, and the code that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from penstock.common.user_types import Key, StateValue
from penstock.errors import InvalidProgramError
from penstock.graph.key_groups import key_group_of
from penstock.runtime.state import class_shapes
from penstock.runtime.state import schema as schemas
from penstock.runtime.state.schema import StateSchema
from penstock.runtime.state.states import KeyedState
from penstock.runtime.state.table import TableDelta
from penstock.runtime.state.timers import Timers
from penstock.runtime.state.ttl import STATE_CLASSES

Deltas = dict[str, TableDelta]  # by the name of the table
# (state_io, chain, max_parallelism, owned) -> the tables of a chain of snapshots, oldest first, whichever backend wrote it
ReadChain = Callable[[Any, Any, int, range | None], Iterator[Deltas]]
# A snapshot that was taken but is not durable yet: its future chain, as needed for the next snapshot, and a function that
# writes it. The
# function is called with the chain on storage at that time, and whether that ends with the previous snapshot (otherwise
# writing that
# failed), perhaps in another thread, and returns the new chain.
Prepared = tuple[Any, Callable[[Any, bool], Any]]


def load_tables(
    state_io: Any,
    chain: Any,
    max_parallelism: int,  # noqa: ARG001 - used by backends with databases only
    owned: range | None,
) -> Iterator[Deltas]:
    """Read a chain of tables, as written by the hashmap backend and by savepoints."""
    deltas: Iterator[Deltas] = state_io.load(chain, owned)
    return deltas


class KeyedStateBackend(ABC):
    """Holds the operator's tables, and the current key (and namespace) of state access.

    The operator sets `current_key` before it calls user code, and `current_namespace` (a window) where state belongs to one.
    `read_chain` reads the snapshots of other backends.
    """

    in_memory: ClassVar[
        bool
    ]  # whether all state is Python objects: then `expect` and `trim_cache` are pointless

    def __init__(
        self, clock: Callable[[], int], operator: str = "", read_chain: ReadChain = load_tables
    ) -> None:
        self.clock = clock
        self.operator = operator
        self.read_chain = read_chain
        self.current_key: Key = None
        self.current_namespace: Any = None
        # schemas of states, by the name of their table
        self.schemas: dict[str, StateSchema] = {}
        self._tables: dict[str, Any] = {}
        self._states: dict[str, KeyedState] = {}

    # The methods of a backend.

    @abstractmethod
    def create_table(self, name: str, namespaced: bool) -> object:
        """Return a new table: a StateTable; a PaneTable if its name begins with PANE_PREFIX."""

    @abstractmethod
    def create_timer_queue(self, name: str) -> Timers:
        """Return the queue of the timers `name`, which begins with TIMER_PREFIX."""

    def state_class(self, kind: str, ttl: bool) -> type[KeyedState]:
        """Return the class of the state objects for user functions."""
        return STATE_CLASSES[kind, ttl]

    @abstractmethod
    def convert_ttl(self, table: Any, wanted: StateSchema) -> None:
        """Convert restored entries because their TTL was enabled or disabled."""

    @abstractmethod
    def snapshot(self) -> Deltas:
        """End the interval; return the changes of each table, if the backend writes tables."""

    @abstractmethod
    def begin_snapshot(
        self, state_io: object, chain: object, name: object, *, force: bool
    ) -> Prepared | None:
        """Take the synchronous part of a snapshot; return the function for the asynchronous part, or None if nothing has changed.

        `chain` is the one that this snapshot continues, None if there is none; `force` requests a snapshot in any case.
        Snapshots are
        written in the order in which they were taken, while state already changes.
        """

    @abstractmethod
    def restore(
        self, state_io: object, chains: tuple[Any, ...], owned: range | None, max_parallelism: int
    ) -> Any:
        """Restore chains of snapshots; return the one that the next snapshot continues, or None.

        `owned` are the key groups to keep, None for all. With several chains, or one with keys of other subtasks, or one
        of another backend
        or of a savepoint, the next snapshot starts a new chain.
        """

    def expect(self, keys: Collection[Any]) -> None:
        """Prefetch state for the next records with these keys, if the backend supports it."""

    def trim_cache(self, *, at_once: bool = False) -> None:
        """Reduce memory usage, if the backend supports it: if it is high, or `at_once`."""

    @abstractmethod
    def about_entries(self) -> int | None:
        """Return the approximate number of entries of all tables, without counting; None if unknown."""

    def close(self) -> None:
        """Release resources."""

    # Shared code.

    def table(self, name: str, *, namespaced: bool = False) -> Any:
        """Return the table `name`, created on first use."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self.create_table(name, namespaced)
        elif table.namespaced != namespaced:
            raise InvalidProgramError(
                f"state '{name}' is used both as global state and as window state",
                hint="give one of the two state descriptors another name",
            )
        return table

    def has_entries(self, name: str) -> bool:
        """Whether the table `name` exists and is not empty."""
        table = self._tables.get(name)
        return table is not None and next(table.items(), None) is not None

    def get_state(self, descriptor: Any, *, namespaced: bool = False) -> object:
        """Return the state object for a descriptor; the same object for the same name."""
        name = f"{'window' if namespaced else 'state'}/{descriptor.name}"
        state = self._states.get(name)
        if state is not None:
            if state.kind != descriptor.kind:
                raise InvalidProgramError(
                    f"state '{descriptor.name}' was registered as {state.kind} state and is now accessed as "
                    f"{descriptor.kind} state",
                    hint="give one of the two state descriptors another name",
                )
            return state
        wanted = StateSchema.of(descriptor)
        before = self.schemas.get(name)
        if before is not None:
            schemas.check(self.operator, descriptor.name, before, wanted)
            wanted = replace(wanted, classes=before.classes)
        self.schemas[name] = wanted
        table = self.table(name, namespaced=namespaced)
        if before is not None and before.ttl != wanted.ttl:
            self.convert_ttl(table, wanted)
        state = self.state_class(wanted.kind, wanted.ttl)(self, table, descriptor)
        self._states[name] = state
        return state

    def note_classes(self, name: str, values: Collection[Any]) -> None:
        """Record the classes of values that are written to the table `name`, if it belongs to a state.

        The classes of restored state that was not accessed yet were not compared: they stay as recorded.
        """
        schema = self.schemas.get(name)
        if schema is None or name not in self._states or not schema.holds_objects:
            return
        found = class_shapes.shapes_in(values)
        if found:
            classes = class_shapes.merged(schema.classes, found.values())
            if classes != schema.classes:
                self.schemas[name] = replace(schema, classes=classes)

    def full_snapshot(self) -> Deltas:
        """Return all entries, after `snapshot`, without expired state."""
        deltas = {name: table.full() for name, table in self._tables.items()}
        for name, state in self._states.items():
            deltas[name] = state.live(deltas[name])
        for name, delta in deltas.items():
            delta.schema = self.schemas.get(name)
        return deltas

    def apply(
        self,
        deltas: Deltas,
        owns: Callable[[Any], bool] | None = None,
        others: dict[str, StateSchema] | None = None,
    ) -> None:
        """Apply deltas during restore; `owns` returns whether a key belongs to this subtask (None: all do).

        `others` are the schemas of entries from other subtasks.
        """
        for name, delta in deltas.items():
            owned = delta if owns is None else _only_owned(delta, owns)
            schema = delta.schema
            if schema is not None:
                self.schemas[name] = self.combined(name, schema, others or {})
                if self.schemas[name].ttl != schema.ttl:
                    convert = schemas.ttl_converter(not schema.ttl, self.clock())
                    owned = replace(
                        owned,
                        written={
                            entry: convert_entry(schema.kind, stored, convert)
                            for entry, stored in owned.written.items()
                        },
                    )
            self.table(name, namespaced=delta.namespaced).apply(owned)

    def combined(
        self, name: str, schema: StateSchema, others: dict[str, StateSchema]
    ) -> StateSchema:
        """Return the schema of a table that gets the entries of another subtask."""
        other = others.get(name)
        if other is None:
            return schema
        return schemas.combined(self.operator, name.partition("/")[2], other, schema)

    def keys(self, name: str) -> list[Any]:
        """Return the keys that have an entry in state `name`."""
        table = self._tables.get(name)
        if table is None:
            return []
        keys = table.keys()
        return list(dict.fromkeys(key[0] for key in keys)) if table.namespaced else list(keys)


def database_of(chain: object) -> Any:
    """Return the database snapshot of a chain, or None if it consists of tables."""
    return getattr(chain, "database", None)


def owner_of(owned: range | None, max_parallelism: int) -> Callable[[Any], bool] | None:
    """Return a function that returns whether a key belongs to some key groups; None: all do."""
    if owned is None:
        return None
    return lambda key: key_group_of(key, max_parallelism) in owned


def convert_entry(kind: str, stored: StateValue, convert: Callable[[Any], Any]) -> object:
    """Return an entry of some kind of state with its values converted."""
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
