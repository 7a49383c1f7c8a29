"""Expressions with the names of columns, for people who read plans."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
    UserCall,
)

_INFIX = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR", "LIKE", "||"}
    | {"IS DISTINCT FROM", "IS NOT DISTINCT FROM", "SIMILAR TO"}
)
_POSTFIX = frozenset(
    {"IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"}
    | {"IS UNKNOWN", "IS NOT UNKNOWN"}
)


def show(rex: Rex, names: Sequence[str]) -> str:
    """Return an expression as text.

    >>> from penstock.sql.types import IntType
    >>> show(Call(IntType(), "+", (InputRef(IntType(), 0), Literal(IntType(), 1))), ["a"])
    '(a + 1)'
    """
    if isinstance(rex, InputRef):
        return names[rex.index] if rex.index < len(names) else str(rex)
    if isinstance(rex, Literal):
        return _literal(rex)
    if isinstance(rex, Symbol):
        return rex.name
    if isinstance(rex, UserCall):
        return f"{rex.name}({', '.join(show(each, names) for each in rex.operands)})"
    assert isinstance(rex, Call)
    parts = [show(each, names) for each in rex.operands]
    if rex.function in _INFIX and len(parts) > 1:
        return f"({f' {rex.function} '.join(parts)})"
    if rex.function in _POSTFIX:
        return f"({parts[0]} {rex.function})"
    if rex.function in {"CAST", "TRY_CAST"}:
        return f"{rex.function}({parts[0]} AS {rex.type})"
    return f"{rex.function}({', '.join(parts)})"


def _literal(rex: Literal) -> str:
    value = rex.value
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.timedelta):
        return f"{value // dt.timedelta(milliseconds=1)}:INTERVAL"
    return str(value)


def show_call(call: AggregateCall, names: Sequence[str]) -> str:
    """Return a call of an aggregate function as text."""
    inner = ", ".join(show(each, names) for each in call.operands) or (
        "*" if call.function == "COUNT" else ""
    )
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{inner})"
    if call.filter is not None:
        text += f" FILTER {show(call.filter, names)}"
    return text


def show_order(order: Sequence[SortKey], names: Sequence[str]) -> str:
    """Return the columns of ORDER BY as text."""
    return ", ".join(f"{names[key.index]} {'ASC' if key.ascending else 'DESC'}" for key in order)


def show_millis(millis: int) -> str:
    """Return a duration as people say it.

    >>> show_millis(10_000), show_millis(90_000), show_millis(7_200_000)
    ('10 s', '90 s', '2 h')
    """
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if millis and millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"


def show_columns(columns: Sequence[int], names: Sequence[str]) -> str:
    """Return some columns."""
    return ", ".join(names[each] for each in columns)


def show_as(text: str, name: str) -> str:
    """Return an expression with the name of its column.

    >>> show_as("(a + 1)", "b"), show_as("a", "a")
    ('(a + 1) AS b', 'a')
    """
    return text if text == name else f"{text} AS {name}"


def show_ttl(ttl_ms: int) -> list[str]:
    """Return the part of a description for state that expires."""
    return [f"stateTtl=[{show_millis(ttl_ms)}]"] if ttl_ms else []


def show_path(path: Any, separator: str = ", ") -> str:
    """Return the path of a table."""
    return separator.join((path.catalog, path.database, path.name))


def show_window(window: WindowDefinition, names: Sequence[str]) -> str:
    """Return the description of a window function."""
    match window.kind:
        case "SESSION":
            parts = [f"gap=[{show_millis(window.gap)}]"]
            if window.partition:
                keys = ", ".join(names[at] for at in window.partition)
                parts.append(f"partition keys=[{keys}]")
        case "TUMBLE":
            parts = [f"size=[{show_millis(window.size)}]"]
        case "HOP":
            parts = [f"size=[{show_millis(window.size)}]", f"slide=[{show_millis(window.slide)}]"]
        case _:
            step = f"step=[{show_millis(window.slide)}]"
            parts = [f"max_size=[{show_millis(window.size)}]", step]
    if window.offset:
        parts.append(f"offset=[{show_millis(window.offset)}]")
    return f"{window.kind}({', '.join(parts)})"
