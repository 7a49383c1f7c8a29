"""Writes savepoints: from nothing, or from another snapshot with changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

from penstock.common.state import StateDescriptor
from penstock.common.type_information import TypeInformation, shorten
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo, check_type
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.graph.operator_ids import id_of_uid
from penstock.runtime.state import schema as schemas
from penstock.runtime.state.operator_state import BROADCAST, SPLIT, UNION
from penstock.runtime.state.redistribution import split_evenly
from penstock.runtime.state.schema import StateSchema, shape_of
from penstock.state.catalog import TIMERS, OperatorInfo, StateInfo, find_operator, find_state
from penstock.state.edits import (
    DROP,
    Change,
    Clear,
    Put,
    TableEdit,
    as_window,
    now_ms,
    with_times,
)
from penstock.state.inputs import Column, Rows, rows_of
from penstock.state.snapshot import Snapshot
from penstock.state.targets import (
    State,
    Target,
    as_whole,
    check_hashable,
    check_key,
    name_of,
    refuse_twice,
    with_ttl,
)


class OperatorEdit:
    """What becomes of one operator."""

    def __init__(self, info: OperatorInfo, *, is_new: bool) -> None:
        self.info = info
        self.is_new = is_new
        self.tables: dict[str, TableEdit] = {}
        self.locals: list[dict[str, Any]] | None = None  # by subtask; None: as they were


class SavepointWriter:
    """Collects what a savepoint shall hold; `write` writes it.

    Everything is checked when it is said; entries that are put are kept in memory until then. Entries of the snapshot that is
    edited are not: they stream through.
    """

    def __init__(self, base: Snapshot | None, max_parallelism: int = 128) -> None:
        self.base = base
        self.max_parallelism = max_parallelism
        self.operators: dict[str, OperatorEdit] = {}  # by id
        self.dropped: set[str] = set()
        if base is not None:
            self.operators = {op.id: OperatorEdit(op, is_new=False) for op in base.operators}

    # Operators

    def add_operator(self, uid: str) -> Self:
        """Add an operator that the edited snapshot does not have; in a new savepoint any uid is one."""
        if not isinstance(uid, str) or not uid:
            raise ArgumentTypeError(
                f"a uid is a text, not {uid!r}", hint="it is what the program says with .uid(...)"
            )
        if any(edit.info.uid == uid for edit in self.operators.values()):
            raise ArgumentError(f"there is an operator with the uid '{uid}' already")
        info = OperatorInfo(id_of_uid(uid), uid, uid, 1, self.max_parallelism, ())
        self.operators[info.id] = OperatorEdit(info, is_new=True)
        self.dropped.discard(info.id)
        return self

    def drop_operator(self, uid: str) -> Self:
        """Leave out an operator with all its state; of a source, the offsets too."""
        found = self._existing(uid).info.id
        del self.operators[found]
        self.dropped.add(found)
        return self

    def _operator(self, uid: str) -> OperatorEdit:
        if self.base is None:
            known = [edit for edit in self.operators.values() if edit.info.uid == uid]
            if not known:
                self.add_operator(uid)
            return self.operators[id_of_uid(uid)]
        return self._existing(uid)

    def _existing(self, uid: str) -> OperatorEdit:
        try:
            found = find_operator([edit.info for edit in self.operators.values()], uid)
        except ArgumentError as error:
            if self.base is None or "has no operator" not in error.message:
                raise
            raise ArgumentError(
                error.message,
                detail=error.detail,
                hint=f"{error.hint} For an operator that the snapshot does not have, call .add_operator('{uid}') first",
            ) from None
        return self.operators[found.id]

    # Keyed state

    def put_value(
        self,
        uid: str,
        state: State,
        rows: Any,
        key: Column = "key",
        value: Column = "value",
        *,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write value state: a row is the value of a key.

        `rows` is a frame of pandas, Arrow or Spark, or a list of dictionaries or tuples (key first, value last). `key` and `value`
        are columns, or functions of a row. `state` is the state's name, or its descriptor, which says the type and the time
        to live as well. What a key had before is replaced, other keys keep what they have. With `window` the state
        belongs to windows.
        """
        return self._put_single("value", uid, state, rows, key, value, type_info, window)

    def put_reducing(
        self,
        uid: str,
        state: State,
        rows: Any,
        key: Column = "key",
        value: Column = "value",
        *,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write reducing state: a row is the reduced value of a key. See `put_value`."""
        return self._put_single("reducing", uid, state, rows, key, value, type_info, window)

    def put_aggregating(
        self,
        uid: str,
        state: State,
        rows: Any,
        key: Column = "key",
        value: Column = "value",
        *,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write aggregating state: a row is the accumulator of a key. See `put_value`."""
        return self._put_single("aggregating", uid, state, rows, key, value, type_info, window)

    def put_list(
        self,
        uid: str,
        state: State,
        rows: Any,
        key: Column = "key",
        value: Column = "value",
        *,
        whole: bool = False,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write list state: a row is an element, in order; or, with `whole`, the list of a key.

        `type_info` is the type of an element. See `put_value`.
        """
        target = self._target("list", uid, state, type_info, window)
        element = target.type_info
        parts = self._entries(target, rows, {"key": key, "value": value}, window)
        written: dict[Any, Any] = {}
        for number, entry, found in parts:
            items = as_whole(found, list, target, number) if whole else [found]
            checked = [target.checked(item, element, number) for item in items]
            if whole:
                refuse_twice(written, entry, target, number)
            written.setdefault(entry, []).extend(checked)
        return self._put(target, {entry: items for entry, items in written.items() if items})

    def put_map(
        self,
        uid: str,
        state: State,
        rows: Any,
        key: Column = "key",
        map_key: Column | None = "map_key",
        value: Column = "value",
        *,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write map state: a row is an entry; or, with `map_key=None`, the dictionary of a key.

        `type_info` is `Types.MAP(key type, value type)`. See `put_value`.
        """
        if type_info is not None and not isinstance(type_info, MapTypeInfo):
            raise ArgumentTypeError(
                f"the type of map state is a map, not {type_info!r}",
                hint="give Types.MAP(..., ...)",
            )
        target = self._target("map", uid, state, type_info, window)
        kind = target.type_info
        key_type = kind.key_type_info if isinstance(kind, MapTypeInfo) else None
        value_type = kind.value_type_info if isinstance(kind, MapTypeInfo) else None
        columns = {"key": key, "map_key": map_key, "value": value}
        wanted = {name: column for name, column in columns.items() if column is not None}
        written: dict[Any, Any] = {}
        for number, entry, found in self._entries(target, rows, wanted, window):
            if map_key is None:
                refuse_twice(written, entry, target, number)
                items = as_whole(found, dict, target, number).items()
            else:
                items = [found]
            held = written.setdefault(entry, {})
            for name, item in items:
                name = target.checked(name, key_type, number)  # noqa: PLW2901
                check_hashable(name, "the key of a map", number)
                if name in held:
                    raise ArgumentError(
                        f"row {number}: key {shorten(name)} occurs twice in a map of {target.what}"
                    )
                held[name] = target.checked(item, value_type, number)
        return self._put(target, {entry: items for entry, items in written.items() if items})

    def put_timers(
        self,
        uid: str,
        rows: Any,
        key: Column = "key",
        timestamp: Column = "timestamp",
        *,
        domain: Literal["event", "processing"] = "event",
        window: Column | None = None,
    ) -> Self:
        """Register timers (epoch milliseconds), besides those that are there. With `window` they are those of windows."""
        if domain not in {"event", "processing"}:
            raise ArgumentError(f"timers are in 'event' or 'processing' time, not in {domain!r}")
        edit = self._operator(uid)
        target = Target(edit, f"{TIMERS}{domain}", True, None, None, "timers", f"timers of '{uid}'")
        written: dict[Any, Any] = {}
        columns = {"key": key, "timestamp": timestamp}
        for number, entry, moment in self._entries(target, rows, columns, window):
            if type(moment) is not int:
                raise ArgumentTypeError(
                    f"row {number}: the time of a timer is a number of milliseconds, not {shorten(moment)}"
                )
            owner, namespace = entry if window is not None else (entry, None)
            written[owner, (namespace, moment)] = True
        return self._put(target, written)

    def change(self, uid: str, state: str, function: Callable[..., Any]) -> Self:
        """Change the values of a state: `function(key, value)` returns the new one, or DROP to remove the entry.

        For state of windows it is called as `function(key, value, window)`, for operator state with None as the key. A list or
        map is one value. Keyed state is changed by `write`.
        """
        if not callable(function):
            raise ArgumentTypeError(f"function is not one: {function!r}")
        edit = self._existing(uid)
        info = self._state(edit, state)
        what = f"state '{info.name}' of operator '{edit.info.label}'"
        if not info.is_keyed:
            self._change_locals(edit, info, function, what)
            return self
        if info.kind == "timers":
            raise ArgumentError(
                "timers have no value that could be changed",
                hint=f"drop_state('{uid}', '{info.table}') and put_timers(...) replace them",
            )
        table = self._table(edit, info)
        namespaced = table.namespaced
        table.steps.append(Change(function, info.kind, info.ttl, namespaced, what))
        return self

    def drop_state(self, uid: str, state: str) -> Self:
        """Remove a state: keyed state, operator state, or timers (`timers/event`, `timers/processing`)."""
        edit = self._existing(uid)
        info = self._state(edit, state)
        if info.is_keyed:
            table = self._table(edit, info)
            table.steps = [Clear()]
            table.schema = None
        else:
            for values in self._locals(edit):
                values.pop(info.table, None)
        return self

    # Operator state

    def put_broadcast(
        self,
        uid: str,
        state: State,
        rows: Any,
        key: Column = "key",
        value: Column = "value",
    ) -> Self:
        """Write broadcast state: a row is an entry. It replaces the whole state."""
        edit, name = self._operator(uid), name_of(state, "map", "broadcast state")
        found, number = rows_of(rows), 0
        take_key = found.getter(key, "key", 0)
        take_value = found.getter(value, "value", 1)
        written: dict[Any, Any] = {}
        for number, row in enumerate(found):
            own = take_key(row)
            check_hashable(own, "the key", number)
            if own in written:
                raise ArgumentError(f"row {number}: key {shorten(own)} occurs twice")
            written[own] = take_value(row)
        for values in self._locals(edit):
            self._refuse_other_kind(edit, values, name, BROADCAST)
            values[BROADCAST + name] = dict(written)
        return self

    def put_operator_list(
        self, uid: str, state: State, values: Iterable[Any], *, union: bool = False
    ) -> Self:
        """Write list state of an operator; with `union`, union list state. It replaces the whole state.

        List state is dealt out evenly to the subtasks of the job, union list state goes to all.
        """
        edit, name = self._operator(uid), name_of(state, "list", "operator list state")
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ArgumentTypeError(f"the elements of a list cannot be made of {shorten(values)}")
        from penstock.state.inputs import to_python

        elements = [to_python(value) for value in values]
        held = self._locals(edit)
        for index, each in enumerate(held):
            self._refuse_other_kind(edit, each, name, UNION if union else SPLIT)
            if union:
                each[UNION + name] = list(elements) if index == 0 else []
            else:
                each[SPLIT + name] = split_evenly(elements, len(held), index)
        return self

    # Writing

    def write(self, directory: str | os.PathLike[str]) -> str:
        """Write the savepoint into a new directory below `directory`, and return its path.

        A job whose operators have these uids starts from it with `execution.state-recovery.path`.
        """
        from penstock.state.storing import store

        if not isinstance(directory, str | os.PathLike):
            raise ArgumentTypeError(f"the directory is a path, not {shorten(directory)}")
        return store(self, os.fspath(directory))

    # Inside

    def _put_single(
        self,
        kind: str,
        uid: str,
        state: State,
        rows: Any,
        key: Column,
        value: Column,
        type_info: TypeInformation | None,
        window: Column | None,
    ) -> Self:
        target = self._target(kind, uid, state, type_info, window)
        written: dict[Any, Any] = {}
        parts = self._entries(target, rows, {"key": key, "value": value}, window)
        for number, entry, found in parts:
            refuse_twice(written, entry, target, number)
            if found is None:
                raise ArgumentError(
                    f"row {number}: the value of key {shorten(entry)} is None",
                    detail="state without a value is no state",
                    hint="leave the row out",
                )
            written[entry] = target.checked(found, target.type_info, number)
        return self._put(target, written)

    def _target(
        self,
        kind: str,
        uid: str,
        state: State,
        type_info: TypeInformation | None,
        window: Column | None,
    ) -> Target:
        edit, name = self._operator(uid), name_of(state, kind, f"{kind} state")
        if isinstance(state, StateDescriptor):
            if type_info is not None:
                raise ArgumentError("the state descriptor says the type, so type_info cannot too")
            wanted = StateSchema.of(state)
            given = getattr(state, "type_info", None)
            element = (
                given.elem_type if isinstance(given, ListTypeInfo) and kind == "list" else given
            )
        else:
            element = None if type_info is None else check_type(type_info, "type_info")
            declared = ListTypeInfo(element) if kind == "list" and element is not None else element
            wanted = StateSchema(
                kind,
                None if declared is None else shape_of(declared),
                "any type" if declared is None else repr(declared),
                ttl=False,
            )
        table = f"{'state' if window is None else 'window'}/{name}"
        before = self._schema_before(edit, table)
        if before is not None:
            schemas.check(edit.info.label, name, before, wanted)
            if not isinstance(state, StateDescriptor):
                # The program knows best what it declared; rows alone say nothing against it.
                wanted = before if wanted.shape is None else with_ttl(wanted, before.ttl)
        what = f"state '{name}' of operator '{edit.info.label}'"
        return Target(edit, table, window is not None, wanted, element, kind, what)

    def _entries(
        self, target: Target, rows: Any, columns: dict[str, Column], window: Column | None
    ) -> Iterable[tuple[int, Any, Any]]:
        """Yield (number of the row, key or (key, window), value or pair of map key and value)."""
        found: Rows = rows_of(rows)
        names = list(columns)
        if window is not None:
            names.insert(1, "window")
            columns = {**columns, "window": window}
        take = {name: found.getter(columns[name], name, at) for at, name in enumerate(names)}
        last = take["timestamp" if "timestamp" in take else "value"]
        groups = target.edit.info.max_parallelism
        for number, row in enumerate(found):
            key = take["key"](row)
            check_key(key, number, groups)
            value = last(row)
            if "map_key" in take:
                value = (take["map_key"](row), value)
            if window is not None:
                yield number, (key, as_window(take["window"](row))), value
            else:
                yield number, key, value

    def _put(self, target: Target, written: dict[Any, Any]) -> Self:
        edit, name = target.edit, target.table
        schema = target.schema
        if schema is not None and schema.ttl:
            now = now_ms()
            written = {key: with_times(item, schema.kind, now) for key, item in written.items()}
        table = edit.tables.get(name)
        if table is None:
            table = edit.tables[name] = TableEdit(target.namespaced, schema)
        table.schema = schema
        table.steps.append(Put(written, target.namespaced))
        return self

    def _table(self, edit: OperatorEdit, info: StateInfo) -> TableEdit:
        table = edit.tables.get(info.table)
        if table is None:
            table = edit.tables[info.table] = TableEdit(info.scope is not None, info.schema)
        return table

    def _schema_before(self, edit: OperatorEdit, table: str) -> StateSchema | None:
        touched = edit.tables.get(table)
        if touched is not None:
            return touched.schema
        return next((state.schema for state in edit.info.states if state.table == table), None)

    def _state(self, edit: OperatorEdit, wanted: str) -> StateInfo:
        """Return a state of the snapshot, or one that was put before."""
        from penstock.state.catalog import describe_operator_state, describe_table

        known = {state.table: state for state in edit.info.states}
        for name, table in edit.tables.items():
            known[name] = describe_table(name, table.namespaced, table.schema, None, None)
        for values in edit.locals or ():
            for name, value in values.items():
                known[name] = describe_operator_state(name, [value])
        return find_state(edit.info, wanted, list(known.values()))

    def _locals(self, edit: OperatorEdit) -> list[dict[str, Any]]:
        if edit.locals is None:
            if self.base is None or edit.is_new:
                edit.locals = [{}]
            else:
                edit.locals = [dict(values) for values in self.base.locals_of(edit.info.id)] or [{}]
        return edit.locals

    def _refuse_other_kind(
        self, edit: OperatorEdit, values: dict[str, Any], name: str, prefix: str
    ) -> None:
        for other in (SPLIT, UNION, BROADCAST):
            if other != prefix and other + name in values:
                raise ArgumentError(
                    f"operator '{edit.info.label}' has another kind of state called '{name}'",
                    hint=f"drop_state('{edit.info.label}', '{other + name}') removes it",
                )

    def _change_locals(
        self, edit: OperatorEdit, info: StateInfo, function: Callable[..., Any], what: str
    ) -> None:
        def entries(held: Any) -> Iterable[tuple[Any, Any]]:
            if info.kind == "broadcast":
                return held.items()  # type: ignore[no-any-return]
            return [(None, value) for value in held]

        if info.kind == "operator":
            raise ArgumentError(f"{what} is the operator's own and cannot be changed")
        step = Change(function, "value", False, False, what)
        for values in self._locals(edit):
            if info.table in values:
                changed = step.apply(iter(entries(values[info.table])), lambda _: True)
                is_map = info.kind == "broadcast"
                values[info.table] = dict(changed) if is_map else [value for _, value in changed]


def new_savepoint(max_parallelism: int = 128) -> SavepointWriter:
    """Begin a savepoint from nothing. `max_parallelism` must be that of the job, `pipeline.max-parallelism`."""
    if isinstance(max_parallelism, bool) or not isinstance(max_parallelism, int):
        raise ArgumentTypeError(f"max_parallelism is a number, not {max_parallelism!r}")
    if not 1 <= max_parallelism <= 32768:
        raise ArgumentError(f"max_parallelism is between 1 and 32768, not {max_parallelism}")
    return SavepointWriter(None, max_parallelism)


def edit(path: str | os.PathLike[str] | Snapshot) -> SavepointWriter:
    """Begin a savepoint that is like a snapshot, but for the changes that you make. The snapshot stays as it is."""
    from penstock.state.reading import read

    base = path if isinstance(path, Snapshot) else read(path)
    scales = [op.max_parallelism for op in base.manifest.operators.values()]
    return SavepointWriter(base, max(scales, default=128))


__all__ = ["DROP", "SavepointWriter", "edit", "new_savepoint"]
