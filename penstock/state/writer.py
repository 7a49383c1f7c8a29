"""Writes savepoints: new ones, or edited copies of snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, Literal, Self

from penstock.common.type_information import TypeInformation, shorten
from penstock.common.typeinfo import MapTypeInfo
from penstock.errors import ArgumentError, ArgumentTypeError, RestoreRefusedError
from penstock.graph.operator_ids import id_of_uid
from penstock.runtime.state.operator_state import BROADCAST, SPLIT, UNION
from penstock.runtime.state.redistribution import split_evenly
from penstock.state.catalog import TIMERS, OperatorInfo, find_operator
from penstock.state.declared_types import type_of
from penstock.state.edits import DROP, TransformEntries
from penstock.state.inputs import Column, rows_of, to_python
from penstock.state.operator_edits import OperatorEdit
from penstock.state.snapshot import Snapshot
from penstock.state.targets import (
    EditTarget,
    State,
    as_whole,
    check_hashable,
    name_of,
    refuse_twice,
    state_target,
)

_TIMES: Final = range(-(2**63), 2**63)


class SavepointWriter:
    """Collects the contents of a savepoint; `write` writes it.

    Everything is validated immediately; entries that are put are kept in memory until `write`. Entries of the edited snapshot
    are not: they are streamed.
    """

    def __init__(self, base: Snapshot | None, max_parallelism: int = 128) -> None:
        self.base = base
        self.max_parallelism = max_parallelism
        self.operators: dict[str, OperatorEdit] = {}  # by id
        self.dropped: set[str] = set()
        if base is not None:
            self.operators = {op.id: OperatorEdit(op, base) for op in base.operators}

    # Operators.

    def add_operator(self, uid: str) -> Self:
        """Add an operator that the edited snapshot does not have; not needed in a new savepoint."""
        if not isinstance(uid, str) or not uid:
            raise ArgumentTypeError(
                f"uid must be a str, got {uid!r}",
                hint="use the uid that the program sets with .uid(...)",
            )
        if any(edit.info.uid == uid for edit in self.operators.values()):
            raise ArgumentError(f"an operator with the uid '{uid}' already exists")
        info = OperatorInfo(id_of_uid(uid), uid, uid, 1, self.max_parallelism, ())
        self.operators[info.id] = OperatorEdit(info, None)
        return self

    def drop_operator(self, uid: str) -> Self:
        """Remove an operator with all its state; for a source, including its offsets."""
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

    # Keyed state.

    def put_value(
        self,
        uid: str,
        state: State,
        rows: object,
        key: Column = "key",
        value: Column = "value",
        *,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write value state: one row per key.

        `rows` is a pandas, Arrow or Spark frame, or a list of dictionaries or tuples (key first, value last). `key` and
        `value` are columns, or
        functions of a row. `state` is the state's name, or its descriptor, which also has the type and the TTL. Existing
        values of a key are
        replaced, other keys are kept. With `window` it is window state.
        """
        return self._put_single("value", uid, state, rows, key, value, type_info, window)

    def put_reducing(
        self,
        uid: str,
        state: State,
        rows: object,
        key: Column = "key",
        value: Column = "value",
        *,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write reducing state: a row has the reduced value of a key. See `put_value`."""
        return self._put_single("reducing", uid, state, rows, key, value, type_info, window)

    def put_aggregating(
        self,
        uid: str,
        state: State,
        rows: object,
        key: Column = "key",
        value: Column = "value",
        *,
        type_info: TypeInformation | None = None,
        window: Column | None = None,
    ) -> Self:
        """Write aggregating state: a row has the accumulator of a key. See `put_value`."""
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
        target = state_target(self._operator(uid), "list", state, type_info, window)
        element = target.type_info
        written: dict[Any, Any] = {}
        for number, entry, found in target.entries(rows, {"key": key, "value": value}, window):
            items = as_whole(found, list, target, number) if whole else [found]
            checked = [target.checked(item, element, number) for item in items]
            if whole:
                refuse_twice(written, entry, target, number)
            written.setdefault(entry, []).extend(checked)
        target.put({entry: items for entry, items in written.items() if items})
        return self

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
                f"the type of map state must be a map, got {type_info!r}",
                hint="use Types.MAP(..., ...)",
            )
        target = state_target(self._operator(uid), "map", state, type_info, window)
        kind = target.type_info
        key_type = kind.key_type_info if isinstance(kind, MapTypeInfo) else None
        value_type = kind.value_type_info if isinstance(kind, MapTypeInfo) else None
        columns = {"key": key, "map_key": map_key, "value": value}
        wanted = {name: column for name, column in columns.items() if column is not None}
        written: dict[Any, Any] = {}
        for number, entry, found in target.entries(rows, wanted, window):
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
        target.put({entry: items for entry, items in written.items() if items})
        return self

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
        """Register timers (epoch milliseconds) in addition to existing ones. With `window` they are window timers."""
        if domain not in {"event", "processing"}:
            raise ArgumentError(
                f"the time domain of timers must be 'event' or 'processing', got {domain!r}"
            )
        edit = self._operator(uid)
        target = EditTarget(
            edit, f"{TIMERS}{domain}", True, None, None, "timers", f"timers of '{uid}'"
        )
        written: dict[Any, Any] = {}
        columns = {"key": key, "timestamp": timestamp}
        for number, entry, moment in target.entries(rows, columns, window):
            if type(moment) is not int or moment not in _TIMES:
                raise ArgumentTypeError(
                    f"row {number}: the time of a timer must be in epoch milliseconds, got {shorten(moment)}"
                )
            owner, namespace = entry if window is not None else (entry, None)
            written[owner, (namespace, moment)] = True
        target.put(written)
        return self

    def change(self, uid: str, state: str, function: Callable[..., Any]) -> Self:
        """Change the values of a state: `function(key, value)` returns the new one, or DROP to remove the entry.

        For window state it is called as `function(key, value, window)`, for operator state with None as the key. A list
        or map is one value.
        Keyed state is changed when `write` is called.
        """
        if not callable(function):
            raise ArgumentTypeError(f"function must be callable, got {function!r}")
        edit = self._existing(uid)
        info = edit.state(state)
        if not info.is_keyed:
            edit.change_operator_state(info, function)
            return self
        if info.kind == "timers":
            raise ArgumentError(
                "timers have no value to change",
                hint=f"drop_state('{uid}', '{info.table}') and put_timers(...) replace them",
            )
        table = edit.table(info.table, namespaced=info.scope is not None)
        if table.schema is not None:
            table.schema = replace(table.schema, classes=())  # those of the old values
        declared = None if info.schema is None else type_of(info.schema.shape)
        what = edit.what(info.name)
        table.steps.append(
            TransformEntries(function, info.kind, info.ttl, table.namespaced, what, declared)
        )
        return self

    def drop_state(self, uid: str, state: str) -> Self:
        """Remove a state: keyed state, operator state, or timers (`timers/event`, `timers/processing`)."""
        edit = self._existing(uid)
        edit.clear(edit.state(state))
        return self

    # Operator state.

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
        found = rows_of(rows)
        take_key = found.getter(key, "key", 0)
        take_value = found.getter(value, "value", 1)
        written: dict[Any, Any] = {}
        for number, row in enumerate(found):
            own = take_key(row)
            check_hashable(own, "the key", number)
            if own in written:
                raise ArgumentError(f"row {number}: key {shorten(own)} occurs twice")
            written[own] = take_value(row)
        edit.put_operator_state(BROADCAST, name, [dict(written) for _ in edit.held()])
        return self

    def put_operator_list(
        self, uid: str, state: State, values: Iterable[Any], *, union: bool = False
    ) -> Self:
        """Write list state of an operator; with `union`, union list state. It replaces the whole state.

        List state is split evenly among the subtasks of the job, union list state goes to all.
        """
        edit, name = self._operator(uid), name_of(state, "list", "operator list state")
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ArgumentTypeError(
                f"the elements of a list must be iterable, got {shorten(values)}"
            )
        elements, count = [to_python(value) for value in values], len(edit.held())
        if union:
            parts = [elements, *([] for _ in range(count - 1))]
        else:
            parts = [split_evenly(elements, count, index) for index in range(count)]
        edit.put_operator_state(UNION if union else SPLIT, name, parts)
        return self

    # Writing.

    def write(self, directory: str | os.PathLike[str]) -> str:
        """Write the savepoint into a new directory below `directory`, and return its path.

        A job whose operators have these uids starts from it with `execution.state-recovery.path`.
        """
        from penstock.state.storing import store

        if not isinstance(directory, str | os.PathLike):
            raise ArgumentTypeError(f"directory must be a path, got {shorten(directory)}")
        return store(self, os.fspath(directory))

    # Internals.

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
        target = state_target(self._operator(uid), kind, state, type_info, window)
        written: dict[Any, Any] = {}
        for number, entry, found in target.entries(rows, {"key": key, "value": value}, window):
            refuse_twice(written, entry, target, number)
            if found is None:
                raise ArgumentError(
                    f"row {number}: the value of key {shorten(entry)} is None",
                    detail="None means that there is no state",
                    hint="remove the row",
                )
            written[entry] = target.checked(found, target.type_info, number)
        target.put(written)
        return self


def new_savepoint(max_parallelism: int = 128) -> SavepointWriter:
    """Start an empty savepoint. `max_parallelism` must be that of the job, `pipeline.max-parallelism`."""
    if isinstance(max_parallelism, bool) or not isinstance(max_parallelism, int):
        raise ArgumentTypeError(f"max_parallelism must be an integer, got {max_parallelism!r}")
    if not 1 <= max_parallelism <= 32768:
        raise ArgumentError(f"max_parallelism must be between 1 and 32768, got {max_parallelism}")
    return SavepointWriter(None, max_parallelism)


def edit(path: str | os.PathLike[str] | Snapshot) -> SavepointWriter:
    """Start a savepoint as a copy of a snapshot, to be edited. The snapshot itself is not changed."""
    from penstock.state.reading import read

    base = path if isinstance(path, Snapshot) else read(path)
    if base.manifest.has_in_flight_data:
        raise RestoreRefusedError(
            f"checkpoint {base.checkpoint_id} is unaligned and cannot be turned into a savepoint",
            detail="it contains records in flight between operators; they are not state, and would be lost",
            hint="take a savepoint of the job (it is always aligned), and edit that",
        )
    scales = [op.max_parallelism for op in base.manifest.operators.values()]
    return SavepointWriter(base, max(scales, default=128))


__all__ = ["DROP", "SavepointWriter", "edit", "new_savepoint"]
