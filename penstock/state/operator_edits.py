"""Edits of one operator of a savepoint: its tables of keyed state, and its operator state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.errors import ArgumentError
from penstock.runtime.state.operator_state import BROADCAST, SPLIT, UNION
from penstock.runtime.state.schema import StateSchema
from penstock.state.catalog import (
    OperatorInfo,
    StateInfo,
    describe_operator_state,
    describe_table,
    find_state,
)
from penstock.state.edits import ClearEntries, TableEdit, TransformEntries
from penstock.state.snapshot import Snapshot


class OperatorEdit:
    """The edits of one operator; `base` is the snapshot that it comes from, None if it is new."""

    def __init__(self, info: OperatorInfo, base: Snapshot | None) -> None:
        self.info = info
        self.base = base
        self.tables: dict[str, TableEdit] = {}
        self.locals: list[dict[str, Any]] | None = None  # by subtask; None: unchanged
        self.rewritten: set[str] = set()  # operator state whose objects are new

    def state(self, wanted: str) -> StateInfo:
        """Return a state of the snapshot, or one that was put before."""
        known = {state.table: state for state in self.info.states}
        for name, table in self.tables.items():
            known[name] = describe_table(name, table.namespaced, table.schema, None, None)
        for values in self.locals or ():
            for name, value in values.items():
                known[name] = describe_operator_state(name, [value])
        return find_state(self.info, wanted, list(known.values()))

    def what(self, state: str) -> str:
        """Return the name of a state for errors."""
        return f"state '{state}' of operator '{self.info.label}'"

    # Keyed state.

    def table(self, name: str, *, namespaced: bool) -> TableEdit:
        """Return the edits of a table, empty if it has none yet."""
        if name not in self.tables:
            self.tables[name] = TableEdit(namespaced, self.schema(name))
        return self.tables[name]

    def schema(self, table: str) -> StateSchema | None:
        """Return the schema of a table's state, including edits so far."""
        if table in self.tables:
            return self.tables[table].schema
        return next((state.schema for state in self.info.states if state.table == table), None)

    def clear(self, info: StateInfo) -> None:
        """Remove a state."""
        if info.is_keyed:
            table = self.table(info.table, namespaced=info.scope is not None)
            table.steps = [ClearEntries()]
            table.schema = None
        else:
            self.rewritten.add(info.table)
            for values in self.held():
                values.pop(info.table, None)

    # Operator state.

    def held(self) -> list[dict[str, Any]]:
        """Return the operator state of each subtask, for modification."""
        if self.locals is None:
            before = [] if self.base is None else self.base.locals_of(self.info.id)
            self.locals = [dict(values) for values in before] or [{}]
        return self.locals

    def put_operator_state(self, prefix: str, name: str, parts: Iterable[Any]) -> None:
        """Replace an operator state; `parts` has that of each subtask."""
        for values, part in zip(self.held(), parts, strict=True):
            for other in (SPLIT, UNION, BROADCAST):
                if other != prefix and other + name in values:
                    raise ArgumentError(
                        f"operator '{self.info.label}' has another kind of state called '{name}'",
                        hint=f"drop_state('{self.info.label}', '{other + name}') removes it",
                    )
            values[prefix + name] = part
        self.rewritten.add(prefix + name)

    def change_operator_state(self, info: StateInfo, function: Callable[..., Any]) -> None:
        """Call a function with the elements of a list, or the entries of a broadcast state."""
        what = self.what(info.name)
        if info.kind == "operator":
            raise ArgumentError(f"{what} is internal and cannot be changed")
        is_map = info.kind == "broadcast"
        self.rewritten.add(info.table)
        step = TransformEntries(function, "value", False, False, what)
        for values in self.held():
            if info.table in values:
                held = values[info.table]
                entries = held.items() if is_map else [(None, value) for value in held]
                changed = step.apply(iter(entries), lambda _: True)
                values[info.table] = dict(changed) if is_map else [value for _, value in changed]
