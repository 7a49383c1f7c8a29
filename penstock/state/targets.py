"""Targets of a SavepointWriter for entries of keyed state, and their validation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.common.type_information import TypeInformation, shorten
from penstock.common.typeinfo import ListTypeInfo, check_type
from penstock.common.user_types import Key
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError
from penstock.graph.key_groups import holds_nan, key_group_of
from penstock.graph.keys import as_key
from penstock.runtime.state import schema as schemas
from penstock.runtime.state.schema import StateSchema, shape_of
from penstock.state.declared_types import type_of
from penstock.state.edits import PutEntries, as_window, check_kind, now_ms, with_times
from penstock.state.inputs import Column, rows_of
from penstock.state.operator_edits import OperatorEdit
from penstock.state_descriptors.descriptors import StateDescriptor

State = str | StateDescriptor


@dataclass(frozen=True, slots=True)
class EditTarget:
    """A table to write entries to. `type_info` is the type of its values, of a list's elements, or of maps."""

    edit: OperatorEdit
    table: str
    namespaced: bool
    schema: StateSchema | None
    type_info: TypeInformation | None
    kind: str
    what: str

    def checked(self, value: Any, kind: TypeInformation | None, number: int) -> Any:
        """Return a value converted to its declared type."""
        if kind is None or value is None:
            return value
        try:
            return kind.validate(value)
        except PenstockError as error:
            raise ArgumentError(
                f"row {number}: {error.message}", detail=error.detail, hint=error.hint
            ) from error

    def entries(
        self, rows: Any, columns: dict[str, Column], window: Column | None
    ) -> Iterator[tuple[int, Any, Any]]:
        """Yield (number of the row, key or (key, window), value or pair of map key and value)."""
        found = rows_of(rows)
        names = list(columns)
        if window is not None:
            names.insert(1, "window")
            columns = {**columns, "window": window}
        take = {name: found.getter(columns[name], name, at) for at, name in enumerate(names)}
        last = take["timestamp" if "timestamp" in take else "value"]
        groups = self.edit.info.max_parallelism
        for number, row in enumerate(found):
            key = take["key"](row)
            key = check_key(key, number, groups)
            value = last(row)
            if "map_key" in take:
                value = (take["map_key"](row), value)
            if window is not None:
                yield number, (key, as_window(take["window"](row))), value
            else:
                yield number, key, value

    def put(self, written: dict[Any, Any]) -> None:
        """Write entries, replacing existing ones."""
        schema = self.schema
        if schema is not None and schema.ttl:
            now = now_ms()
            written = {key: with_times(item, schema.kind, now) for key, item in written.items()}
        table = self.edit.table(self.table, namespaced=self.namespaced)
        table.declare(schema)
        table.steps.append(PutEntries(written, self.namespaced))


def state_target(
    edit: OperatorEdit,
    kind: str,
    state: State,
    type_info: TypeInformation | None,
    window: Column | None,
) -> EditTarget:
    """Return the target for entries of a keyed state; reject one that does not fit the existing state."""
    name = name_of(state, kind, f"{kind} state")
    table = f"{'state' if window is None else 'window'}/{name}"
    before = edit.schema(table)
    if isinstance(state, StateDescriptor):
        if type_info is not None:
            raise ArgumentError("pass either a state descriptor or type_info, not both")
        wanted, declared = StateSchema.of(state), getattr(state, "type_info", None)
    else:
        element = None if type_info is None else check_type(type_info, "type_info")
        declared = ListTypeInfo(element) if kind == "list" and element is not None else element
        wanted = StateSchema(
            kind,
            None if declared is None else shape_of(declared),
            "any type" if declared is None else repr(declared),
            ttl=before is not None and before.ttl,
        )
    if before is not None:
        schemas.check(edit.info.label, name, before, wanted)
        if wanted.shape is None and not isinstance(state, StateDescriptor):
            # The program knows its declaration best; rows alone do not contradict it.
            wanted, declared = before, type_of(before.shape)
    if kind == "list" and isinstance(declared, ListTypeInfo):
        declared = declared.elem_type
    return EditTarget(edit, table, window is not None, wanted, declared, kind, edit.what(name))


def name_of(state: State, kind: str, what: str) -> str:
    """Return the name of a state given as a name or a descriptor."""
    if isinstance(state, StateDescriptor):
        if state.kind != kind:
            raise ArgumentError(
                f"{what} needs a descriptor of {kind} state, got {type(state).__name__}"
            )
        return state.name
    if not isinstance(state, str) or not state:
        raise ArgumentTypeError(
            f"a state must be given as a name or a descriptor, got {state!r}",
        )
    return state


def refuse_twice(written: dict[Any, Any], entry: Any, target: EditTarget, number: int) -> None:
    """Reject a second value for a key."""
    if entry in written:
        raise ArgumentError(
            f"row {number}: key {shorten(entry)} occurs twice",
            detail=f"{target.what} has one value per key",
            hint="aggregate the rows first, or use put_list",
        )


def as_whole(value: Any, wanted: type, target: EditTarget, number: int) -> Any:
    """Return a whole list or dictionary; reject other values."""
    if isinstance(value, tuple) and wanted is list:
        value = list(value)
    if isinstance(value, list) and wanted is dict and all(_is_pair(item) for item in value):
        value = dict(value)  # Arrow's form of maps
    try:
        check_kind(value, target.kind, target.what)
    except ArgumentError as error:
        raise ArgumentError(f"row {number}: {error.message}") from None
    return value


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def check_hashable(key: Key, what: str, number: int) -> None:
    """Reject a value that cannot be a dictionary key."""
    try:
        hash(key)
    except TypeError as error:
        raise ArgumentTypeError(
            f"row {number}: {what} must be hashable, got {shorten(key)}",
            detail=str(error),
            hint="a key must be a number, a string, a date or a tuple of these: key=lambda row: (row['a'], row['b'])",
        ) from None


def check_key(key: Key, number: int, max_parallelism: int) -> Any:
    """Return a key in the form used by state; reject invalid keys."""
    if isinstance(key, list | bytearray | tuple):
        with contextlib.suppress(TypeError):  # of its content; reported by the next check
            key = as_key(key)
    check_hashable(key, "the key", number)
    if holds_nan(key):
        raise ArgumentError(
            f"row {number}: NaN is not allowed as a key: {shorten(key)}",
            detail="NaN does not equal itself, so its state could not be found",
            hint="remove the row, or set the key",
        )
    try:
        key_group_of(key, max_parallelism)
    except PenstockError as error:
        raise ArgumentTypeError(
            f"row {number}: {error.message}", detail=error.detail, hint=error.hint
        ) from None
    return key
