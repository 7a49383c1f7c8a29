"""Descriptions of the tables of a snapshot, and lookup by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import ArgumentError
from penstock.graph.operator_specs import StateTableDescription, spec_kinds
from penstock.graph.state_description import StateDescription
from penstock.runtime.state.operator_state import BROADCAST, SPLIT, UNION
from penstock.runtime.state.panes import PANE_PREFIX
from penstock.runtime.state.schema import StateSchema

TIMERS: Final = "timers/"
EVENT_TIMERS: Final = "timers/event"
PROCESSING_TIMERS: Final = "timers/processing"
_STATE: Final = "state/"
_WINDOW: Final = "window/"
_OPERATOR_KINDS: Final = {SPLIT: "operator list", UNION: "union list", BROADCAST: "broadcast"}


@dataclass(frozen=True, slots=True)
class StateInfo:
    """One state of an operator.

    `kind` is value, list, map, reducing, aggregating (keyed state); contents (of windows); timers; operator list, union
    list, broadcast
    (operator state); or operator (internal state of an operator). `scope` is the name of the namespace column besides the
    key, such as
    `window`, or None. `table` is the state's full name, in case a name is not unique. `entries` and `size` (bytes) are
    None if computing
    them would mean to read everything. `internal` says that the state is an implementation detail: its form may change
    with any release.
    """

    name: str
    table: str
    kind: str
    type: str
    ttl: bool = False
    scope: str | None = None
    entries: int | None = None
    size: int | None = None
    internal: bool = False
    schema: StateSchema | None = None

    @property
    def is_keyed(self) -> bool:
        """Whether the state is keyed, not operator state."""
        return not self.kind.startswith(("operator", "union", "broadcast"))


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """One operator of a snapshot. `size` is the size of its keyed state on storage in bytes.

    `description` describes the query that the state belongs to; None for other operators, and in older snapshots.
    """

    id: str
    uid: str | None
    name: str
    parallelism: int
    max_parallelism: int
    states: tuple[StateInfo, ...]
    size: int = 0
    description: StateDescription | None = None

    @property
    def label(self) -> str:
        """The display name: the uid, else the name."""
        return self.uid or self.name

    def __str__(self) -> str:
        known = [f"uid {self.uid}"] if self.uid else []
        known.append(f"id {self.id[:8]}")
        scale = f"parallelism {self.parallelism} of {self.max_parallelism}"
        size = f", {format_size(self.size)}" if self.size else ""
        lines = [f"{self.name} ({', '.join(known)}), {scale}{size}"]
        if self.description is not None:
            lines.append(f"  made for {self.description}")
        width = max((len(state.name) for state in self.states), default=0)
        lines += [f"  {state.name:<{width}}  {_describe(state)}" for state in self.states]
        return "\n".join(lines)


def _describe(state: StateInfo) -> str:
    text = state.kind if state.kind in {"timers", "operator"} else f"{state.kind} of {_type(state)}"
    if state.kind == "contents":
        text = state.type
    if state.scope is not None and state.kind not in {"contents", "timers"}:
        text += f", by {state.scope}"
    if state.ttl:
        text += ", expires"
    if state.entries is not None:
        text += f", {state.entries} {'entry' if state.entries == 1 else 'entries'}"
    if state.size is not None:
        text += f", {format_size(state.size)}"
    return text + (" [internal]" if state.internal else "")


def _type(state: StateInfo) -> str:
    """Return the type without the part that the kind implies: that a list holds a list."""
    text = state.type
    for prefix in ("ListTypeInfo<", "MapTypeInfo<"):
        if text.startswith(prefix) and state.kind in {"list", "map"}:
            return text.removeprefix(prefix).removesuffix(">")
    return text


def format_size(size: int) -> str:
    """Return a number of bytes in human-readable form.

    >>> format_size(512), format_size(20480), format_size(3 << 30)
    ('512 B', '20.0 KB', '3.0 GB')
    """
    if size < 1024:
        return f"{size} B"
    number = float(size)
    for unit in ("KB", "MB", "GB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TB"


def describe_table(
    table: str,
    namespaced: bool,
    schema: StateSchema | None,
    entries: int | None,
    size: int | None,
) -> StateInfo:
    """Describe a table of keyed state."""
    if table.startswith(TIMERS):
        return StateInfo(table, table, "timers", "timers", False, "namespace", entries, size)
    prefix = next((each for each in (_STATE, _WINDOW) if table.startswith(each)), None)
    if prefix is not None:
        return StateInfo(
            name=table.removeprefix(prefix),
            table=table,
            kind=schema.kind if schema is not None else "value",
            type=schema.text if schema is not None else "any type",
            ttl=schema is not None and schema.ttl,
            scope="window" if namespaced else None,
            entries=entries,
            size=size,
            schema=schema,
        )
    name = table.removeprefix(PANE_PREFIX)
    known = _own_table(name)
    scope = (known.scope or "namespace") if namespaced else None
    return StateInfo(
        name, table, known.kind, known.text, False, scope, entries, size, known.internal, schema
    )


def _own_table(name: str) -> StateTableDescription:
    """Return an operator's declaration of a table; operators that are not imported have none."""
    own = (table for kind in spec_kinds() for table in kind.state_tables if table.name == name)
    return next(own, StateTableDescription(name, internal=True))


def _is_own_state(name: str) -> bool:
    return any(name in kind.operator_states for kind in spec_kinds())


def describe_operator_state(name: str, values: Sequence[Any]) -> StateInfo:
    """Describe an operator state; `values` has one per subtask that holds it."""
    for prefix, kind in _OPERATOR_KINDS.items():
        if name.startswith(prefix):
            own = name.removeprefix(prefix)
            held = values[:1] if prefix == BROADCAST else values
            count = sum(map(len, held))
            internal = prefix == SPLIT and _is_own_state(own)
            return StateInfo(own, name, kind, "any type", entries=count, internal=internal)
    return StateInfo(name, name, "operator", "object", entries=len(values), internal=True)


def find_operator(operators: Sequence[OperatorInfo], wanted: str) -> OperatorInfo:
    """Return the operator with a uid, an id (or a prefix of at least 8 digits) or a name."""
    if not isinstance(wanted, str) or not wanted:
        raise ArgumentError(
            f"an operator must be selected by its uid, name or id, got {wanted!r}",
            hint=f"the snapshot has {_listed(_labels(operators))}",
        )
    matches: tuple[Callable[[OperatorInfo], bool], ...] = (
        lambda op: op.uid == wanted,
        lambda op: op.id == wanted,
        lambda op: op.name == wanted,
        lambda op: len(wanted) >= 8 and op.id.startswith(wanted),
    )
    for match in matches:
        found = [op for op in operators if match(op)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ArgumentError(
                f"'{wanted}' is ambiguous: it matches {len(found)} operators of the snapshot",
                detail="; ".join(f"id {op.id}" + (f", uid {op.uid}" if op.uid else "") for op in found),
                hint="use the uid or the id of one of them; operators get a uid with .uid(...)",
            )  # fmt: skip
    raise unknown("operator", wanted, _labels(operators), "the snapshot")


def find_state(operator: OperatorInfo, wanted: str, states: Sequence[StateInfo]) -> StateInfo:
    """Return the state with a name, or with a table's full name, among some of an operator's states."""
    matches: tuple[Callable[[StateInfo], bool], ...] = (
        lambda state: state.table == wanted,
        lambda state: state.name == wanted,
    )
    for match in matches:
        found = [state for state in states if match(state)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ArgumentError(
                f"'{wanted}' is ambiguous: operator '{operator.label}' has {len(found)} such states",
                hint="use the full name: " + ", ".join(f"'{state.table}'" for state in found),
            )
    names = [state.name for state in states]
    raise unknown("state", wanted, names, f"operator '{operator.label}'")


def unknown(what: str, wanted: object, names: Iterable[str], owner: str) -> ArgumentError:
    """Return the error for an unknown name, with similar ones."""
    known = list(dict.fromkeys(names))
    near = difflib.get_close_matches(str(wanted), known, n=3, cutoff=0.6)
    if near:
        hint = f"did you mean {' or '.join(repr(name) for name in near)}?"
    else:
        hint = f"use one of {_listed(known)}"
    return ArgumentError(
        f"{owner} has no {what} '{wanted}'", detail=f"it has {_listed(known)}", hint=hint
    )


def _labels(operators: Sequence[OperatorInfo]) -> list[str]:
    return [label for op in operators for label in (op.uid, op.name) if label]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return (shown + more) or "none"
