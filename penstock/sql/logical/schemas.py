"""The output columns of nodes: names, types, and propagation of time attributes and windows.

A column stays a time attribute where rows leave in the order of watermarks: through projections that only pass it on, filters, unions of equals, joins
within intervals and windows, window aggregates. Everywhere else it becomes an ordinary timestamp, as Flink materialises it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    inputs_of,
    walk,
)
from penstock.sql.logical.conditions import conjuncts
from penstock.sql.logical.nodes import (
    Field,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalProject,
    LogicalValues,
    Schema,
    SqlLocation,
)
from penstock.sql.types import IntType, LocalZonedTimestampType, TimestampType

WINDOW_TIME = TimestampType(3, nullable=False)
PROCTIME = LocalZonedTimestampType(3, nullable=False)


def one_row() -> LogicalValues:
    """Return the row that SELECT without FROM computes its columns for. It has a column, because rows without any cannot be counted."""
    kind = IntType(nullable=False)
    return LogicalValues(schema=(Field("ZERO", kind),), rows=((Literal(kind, 0),),))


def plain(schema: Schema) -> Schema:
    """Return columns without time attributes and windows."""
    return tuple(replace(each, time=None, window=None) for each in schema)


def nullable(schema: Schema) -> Schema:
    """Return columns that may be NULL: those of the side of an outer join that may be missing."""
    return tuple(replace(each, type=each.type.nullable()) for each in schema)


def renamed(schema: Schema, names: Sequence[str]) -> Schema:
    """Return renamed columns; those without a new name keep their own."""
    rest = [each.name for each in schema[len(names) :]]
    return tuple(
        replace(each, name=name) for each, name in zip(schema, [*names, *rest], strict=True)
    )


def unique_names(names: Iterable[str]) -> list[str]:
    """Return names without repetition, as Flink numbers them.

    >>> unique_names(["id", "name", "id", "id"])
    ['id', 'name', 'id0', 'id1']
    """
    names = list(names)
    taken: set[str] = set()
    found = []
    for name in names:
        fresh, number = name, 0
        while fresh in taken:
            fresh, number = f"{name}{number}", number + 1
        taken.add(fresh)
        found.append(fresh)
    return found


def projected(names: Sequence[str], expressions: Sequence[Rex], schema: Schema) -> Schema:
    """Return the columns of a projection: those passed on stay what they are; PROCTIME() is a time attribute."""
    return tuple(
        _projected(name, rex, schema) for name, rex in zip(names, expressions, strict=True)
    )


def _projected(name: str, rex: Rex, schema: Schema) -> Field:
    if isinstance(rex, InputRef):
        return replace(schema[rex.index], name=name, type=rex.type)
    if isinstance(rex, Call) and rex.function == "PROCTIME":
        return Field(name, rex.type, time="proctime")
    return Field(name, rex.type)


def project(node: LogicalNode, expressions: Sequence[Rex], names: Sequence[str]) -> LogicalNode:
    """Return a projection; the node itself if it would change nothing."""
    schema = projected(names, expressions, node.schema)
    if schema == node.schema and all(
        isinstance(rex, InputRef) and rex.index == index for index, rex in enumerate(expressions)
    ):
        return node
    return LogicalProject(schema=schema, input=node, expressions=tuple(expressions))


def rename(node: LogicalNode, schema: Schema) -> LogicalNode:
    """Return the same rows under these names."""
    if schema == node.schema:
        return node
    return LogicalProject(schema=schema, input=node, expressions=references(node.schema))


def filtered(node: LogicalNode, condition: Rex) -> LogicalNode:
    """Return the rows for which a condition is TRUE."""
    return LogicalFilter(schema=node.schema, input=node, condition=condition)


def references(schema: Schema, start: int = 0) -> tuple[Rex, ...]:
    """Return all columns as expressions."""
    return tuple(InputRef(each.type, index) for index, each in enumerate(schema, start))


def join(
    left: LogicalNode,
    right: LogicalNode,
    kind: str,
    condition: Rex,
    *,
    temporal: Rex | None = None,
    hints: dict[str, object] | None = None,
    also: Sequence[Rex] = (),
    place: SqlLocation | None = None,
) -> LogicalJoin:
    """Return a join with its columns. `also`: filters on its rows, which help to determine the kind of join."""
    first, second = left.schema, right.schema
    nature = join_nature(left.schema, right.schema, [*conjuncts(condition), *also], temporal)
    if kind in {"SEMI", "ANTI"} and nature == "interval":
        nature = "regular"
    if nature == "regular":
        first, second = plain(first), plain(second)
    elif nature == "temporal":
        second = plain(second)
    elif nature == "interval":
        first, second = _without_windows(first), _without_windows(second)
    if kind in {"RIGHT", "FULL"}:
        first = nullable(first)
    if kind in {"LEFT", "FULL"}:
        second = nullable(second)
    schema = first if kind in {"SEMI", "ANTI"} else first + second
    return LogicalJoin(
        schema=schema,
        left=left,
        right=right,
        kind=kind,
        condition=condition,
        temporal=temporal,
        hints=dict(hints or {}),
        place=place,
    )


def join_nature(
    left: Schema, right: Schema, conditions: Sequence[Rex], temporal: Rex | None
) -> str:
    """Classify a join by its conditions: `temporal`, `window`, `interval` or `regular`."""
    if temporal is not None:
        return "temporal"
    both = left + right
    width = len(left)
    if {"start", "end"} <= {
        both[pair[0]].window
        for condition in conditions
        if (pair := _equal_windows(condition, both, width)) is not None
    }:
        return "window"
    bounds = {
        bound for condition in conditions for bound in _interval_bounds(condition, both, width)
    }
    return "interval" if {"lower", "upper"} <= bounds else "regular"


def _without_windows(schema: Schema) -> Schema:
    return tuple(replace(each, window=None) for each in schema)


def _equal_windows(condition: Rex, both: Schema, width: int) -> tuple[int, int] | None:
    """The columns of windows of both sides that a condition says to be equal."""
    if not (isinstance(condition, Call) and condition.function == "="):
        return None
    first, second = condition.operands
    if not (isinstance(first, InputRef) and isinstance(second, InputRef)):
        return None
    low, high = sorted((first.index, second.index))
    if low < width <= high and both[low].window and both[low].window == both[high].window:
        return low, high
    return None


def _interval_bounds(condition: Rex, both: Schema, width: int) -> set[str]:
    """Whether a condition bounds the distance of the times of both sides, and on which end: seen from the left side."""
    if not (isinstance(condition, Call) and condition.function in {"=", "<", "<=", ">", ">="}):
        return set()
    sides = [_time_side(each, both, width) for each in condition.operands]
    if None in sides or sides[0] == sides[1]:
        return set()
    if condition.function == "=":
        return {"lower", "upper"}
    is_upper = (sides[0] == "left") == condition.function.startswith("<")
    return {"upper" if is_upper else "lower"}


def _time_side(rex: Rex, both: Schema, width: int) -> str | None:
    """The side whose time attribute an expression shifts by a constant; None for any other expression."""
    columns = inputs_of(rex)
    if len(columns) != 1:
        return None
    (index,) = columns
    if both[index].time is None:
        return None
    for each in walk(rex):
        if isinstance(each, Call) and each.function not in {"+", "-", "CAST"}:
            return None
    return "left" if index < width else "right"
