"""The keyed state of one operator in one subtask: what every backend offers, and what is the same in all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, ClassVar

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
# A snapshot that was taken and is not durable yet: the chain that it will be, as far as whoever takes the next one must know it,
# and what writes it. That is called with the chain that storage has by then, and whether the snapshot before is the last of it (else it
# could not be written), perhaps in another thread, and returns the new one.
Prepared = tuple[Any, Callable[[Any, bool], Any]]


def load_tables(
    state_io: Any,
    chain: Any,
    max_parallelism: int,  # noqa: ARG001 - only those who read databases must know it
    owned: range | None,
) -> Iterator[Deltas]:
    """Read a chain of tables, as those of the hashmap backend and of savepoints are."""
    deltas: Iterator[Deltas] = state_io.load(chain, owned)
    return deltas


class KeyedStateBackend(ABC):
    """Holds the operator's tables, and the key (and namespace) that state access works on.

    The operator sets `current_key` before it calls user code, and `current_namespace` (a window) where state belongs to
    one. `read_chain` reads the snapshots that another backend wrote.
    """

    in_memory: ClassVar[
        bool
    ]  # whether all state is objects: then nothing is to be gained by `expect` and `relieve`

    def __init__(
        self, clock: Callable[[], int], operator: str = "", read_chain: ReadChain = load_tables
    ) -> None:
        self.clock = clock
        self.operator = operator
        self.read_chain = read_chain
        self.current_key: Any = None
        self.current_namespace: Any = None
        # what is known of states, by the name of their table
        self.schemas: dict[str, StateSchema] = {}
        self._tables: dict[str, Any] = {}
        self._states: dict[str, KeyedState] = {}

    # What a backend is made of

    @abstractmethod
    def create_table(self, name: str, namespaced: bool) -> Any:
        """Return a new table: a StateTable; a PaneTable if its name begins with PANE_PREFIX."""

    @abstractmethod
    def create_timer_queue(self, name: str) -> Timers:
        """Return the queue of the timers `name`, which begins with TIMER_PREFIX."""

    def state_class(self, kind: str, ttl: bool) -> type[KeyedState]:
        """Return the class of the objects that user functions get for a kind of state."""
        return STATE_CLASSES[kind, ttl]

    @abstractmethod
    def convert_ttl(self, table: Any, wanted: StateSchema) -> None:
        """Rewrite restored entries because their state now expires, or does so no longer."""

    @abstractmethod
    def snapshot(self) -> Deltas:
        """End the epoch; return what each table changed, if the backend writes tables."""

    @abstractmethod
    def begin_snapshot(
        self, state_io: Any, chain: Any, name: Any, *, force: bool
    ) -> Prepared | None:
        """End the epoch and take hold of its state; return what makes it durable, or None if nothing has changed.

        `chain` is the one that this snapshot continues, None if there is none; `force` asks for a snapshot in any case. Snapshots are
        written in the order in which they were taken, while state changes already.
        """

    @abstractmethod
    def restore(
        self, state_io: Any, chains: tuple[Any, ...], owned: range | None, max_parallelism: int
    ) -> Any:
        """Start from chains of snapshots; return the one that the next snapshot continues, or None.

        `owned` are the key groups to keep, None for all. With several chains, or one that holds other subtasks' keys
        too, or one of another backend or of a savepoint, the next snapshot starts a chain of its own.
        """

    def expect(self, keys: Collection[Any]) -> None:
        """Prepare for records with these keys, where the backend can: they are processed next."""

    def relieve(self, *, at_once: bool = False) -> None:
        """Make room in memory, where the backend can: if there is much, or `at_once`."""

    @abstractmethod
    def about_entries(self) -> int | None:
        """Return about how many entries all tables have, in no time; None if that is not known."""

    def close(self) -> None:
        """Release resources."""

    # What all backends share

    def table(self, name: str, *, namespaced: bool = False) -> Any:
        """Return the table `name`, created on first use."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self.create_table(name, namespaced)
        elif table.namespaced != namespaced:
            raise InvalidProgramError(
                f"state '{name}' is used both per key and per key and window",
                hint="give one of the two state descriptors another name",
            )
        return table

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
            wanted = replace(wanted, classes=before.classes)
        self.schemas[name] = wanted
        table = self.table(name, namespaced=namespaced)
        if before is not None and before.ttl != wanted.ttl:
            self.convert_ttl(table, wanted)
        state = self.state_class(wanted.kind, wanted.ttl)(self, table, descriptor)
        self._states[name] = state
        return state

    def note_classes(self, name: str, values: Collection[Any]) -> None:
        """Take note of the classes of values that are written to the table `name`, if it is that of a state.

        What is restored of a state that nobody has asked for yet was not compared: its classes stay as they were noted.
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
        """Return all there is, after `snapshot`, without state that has expired."""
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
        """Replay deltas while restoring; `owns` tells which keys belong to this subtask (None: all).

        `others` are the schemas of entries that came from other subtasks.
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
        """Return the schema of a table that gets the entries of one more subtask."""
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


def database_of(chain: Any) -> Any:
    """Return the snapshot of a database that a chain is, or None if it is one of tables."""
    return getattr(chain, "database", None)


def owner_of(owned: range | None, max_parallelism: int) -> Callable[[Any], bool] | None:
    """Return a function that tells whether a key belongs to some key groups; None: all do."""
    if owned is None:
        return None
    return lambda key: key_group_of(key, max_parallelism) in owned


def convert_entry(kind: str, stored: Any, convert: Callable[[Any], Any]) -> Any:
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
