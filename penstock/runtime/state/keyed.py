"""The keyed state of one operator in one subtask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import InvalidProgramError
from penstock.runtime.state.panes import PANE_PREFIX, PaneTable
from penstock.runtime.state.states import KeyedState
from penstock.runtime.state.table import HashMapTable, TableDelta
from penstock.runtime.state.ttl import STATE_CLASSES


class KeyedStateBackend:
    """Holds the operator's tables, and the key (and namespace) that state access works on.

    The operator sets `current_key` before it calls user code, and `current_namespace` (a window) where state belongs to
    one.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.current_key: Any = None
        self.current_namespace: Any = None
        self._tables: dict[str, HashMapTable] = {}
        self._states: dict[str, KeyedState] = {}

    def table(self, name: str, *, namespaced: bool = False) -> HashMapTable:
        """Return the table `name`, created on first use."""
        table = self._tables.get(name)
        if table is None:
            kind = PaneTable if name.startswith(PANE_PREFIX) else HashMapTable
            table = self._tables[name] = kind(namespaced)
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
        table = self.table(name, namespaced=namespaced)
        state = STATE_CLASSES[descriptor.kind, descriptor.ttl_config is not None](
            self, table, descriptor
        )
        self._states[name] = state
        return state

    def snapshot(self) -> dict[str, TableDelta]:
        """End the epoch: return what each table changed."""
        deltas = {}
        for name, table in self._tables.items():
            delta = table.merge()
            if delta.written or delta.removed:
                deltas[name] = delta
        return deltas

    def full_snapshot(self) -> dict[str, TableDelta]:
        """Return all there is, after `snapshot`, without state that has expired."""
        deltas = {name: table.full() for name, table in self._tables.items()}
        for name, state in self._states.items():
            deltas[name] = state.live(deltas[name])
        return deltas

    def apply(
        self, deltas: dict[str, TableDelta], owns: Callable[[Any], bool] | None = None
    ) -> None:
        """Replay deltas while restoring; `owns` tells which keys belong to this subtask (None: all)."""
        for name, delta in deltas.items():
            owned = delta if owns is None else _only_owned(delta, owns)
            self.table(name, namespaced=delta.namespaced).apply(owned)

    def keys(self, name: str) -> list[Any]:
        """Return the keys that have an entry in state `name`."""
        table = self._tables.get(name)
        if table is None:
            return []
        keys = (entry for entry, _ in table.items())
        return list(dict.fromkeys(key[0] for key in keys)) if table.namespaced else list(keys)


def _only_owned(delta: TableDelta, owns: Callable[[Any], bool]) -> TableDelta:
    if delta.namespaced:
        written = {entry: value for entry, value in delta.written.items() if owns(entry[0])}
        removed = [entry for entry in delta.removed if owns(entry[0])]
    else:
        written = {entry: value for entry, value in delta.written.items() if owns(entry)}
        removed = [entry for entry in delta.removed if owns(entry)]
    return TableDelta(delta.namespaced, written, removed)
