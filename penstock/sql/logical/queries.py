"""Queries of all kinds: SELECT, VALUES, set operations, WITH."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.errors import UnsupportedQueryError
from penstock.sql.expr import typing
from penstock.sql.expr.nodes import Rex
from penstock.sql.logical.blocks import QueryBlock
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import (
    Field,
    LogicalNode,
    LogicalSetOperation,
    LogicalValues,
    Schema,
)
from penstock.sql.logical.over import direction
from penstock.sql.logical.schemas import (
    plain,
    project,
    references,
    rename,
    renamed,
)
from penstock.sql.logical.scope import NameScope, scope_of
from penstock.sql.parse import trees
from penstock.sql.types import DataType

_SET_OPERATIONS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
}


def query(context: LogicalPlanContext, tree: exp.Expr) -> LogicalNode:
    """Return the plan of a query."""
    with_ = tree.args.get("with_") or tree.args.get("with")
    if with_ is not None:
        context = _with(context, with_)
    if isinstance(tree, exp.Select):
        from penstock.sql.logical.select import select

        return select(context, tree)
    if isinstance(tree, exp.Subquery):
        return _tail(context, tree, query(context, tree.this))
    if isinstance(tree, exp.Values):
        return _tail(context, tree, values(context, tree))
    if type(tree) in _SET_OPERATIONS:
        return _tail(context, tree, set_operation(context, tree))
    if isinstance(tree, exp.Table):
        from penstock.sql.logical.relations import FromClause

        return FromClause(context).relation(tree)[0]
    raise context.error(tree, "not a query", kind=UnsupportedQueryError)


def _with(context: LogicalPlanContext, tree: exp.Expr) -> LogicalPlanContext:
    if tree.args.get("recursive"):
        raise context.error(
            tree, "WITH RECURSIVE is not supported over streams", kind=UnsupportedQueryError
        )
    own: set[str] = set()
    for each in tree.expressions:
        alias = each.args["alias"]
        name = str(alias.this.this)
        if name in own:
            raise context.error(alias, f"duplicate name '{name}' in WITH", hint="rename one")
        own.add(name)
        node = query(context.standing_alone(), each.this)
        columns = [str(column.this) for column in alias.args.get("columns") or ()]
        if columns and len(columns) != len(node.schema):
            raise context.error(
                alias,
                f"'{name}' names {len(columns)} columns, but its query returns {len(node.schema)}",
            )
        context = context.with_named(name, rename(node, renamed(node.schema, columns)))
    return context


def _tail(context: LogicalPlanContext, tree: exp.Expr, node: LogicalNode) -> LogicalNode:
    """Return ORDER BY, OFFSET and LIMIT behind a set operation, VALUES or parentheses."""
    from penstock.sql.logical.select import ordinal, sorted_rows

    block = QueryBlock(context, node, scope_of(node.schema))
    order = tree.args.get("order")
    names = [each.name for each in node.schema]
    rexes: list[Rex] = list(references(node.schema))
    keys = []
    for each in order.expressions if order is not None else ():
        if isinstance(each.this, exp.Literal) and not each.this.is_string:
            index = ordinal(block, each.this, len(names))
        else:
            rex = block.convert(each.this)
            if rex not in rexes:
                rexes.append(rex)
            index = rexes.index(rex)
        keys.append(SortKey(index, *direction(each)))
    hidden = len(rexes) - len(names)
    wide = project(node, rexes, [*names, *(f"$o{number}" for number in range(hidden))])
    found = sorted_rows(block, tree, wide, tuple(keys))
    return project(found, references(found.schema[: len(names)]), names) if hidden else found


# VALUES


def values(context: LogicalPlanContext, tree: exp.Expr) -> LogicalNode:
    """Return the rows of VALUES; types are the common types of all rows."""
    inside = Expressions(context, NameScope())
    rows = [[inside.convert(part) for part in _parts(each)] for each in tree.expressions]
    width = len(rows[0])
    for each, row in zip(tree.expressions, rows, strict=True):
        if len(row) != width:
            raise context.error(each, f"rows of VALUES must have {width} columns, got {len(row)}")
    types = [
        _common(context, tree, [row[column].type for row in rows], f"column {column + 1} of VALUES")
        for column in range(width)
    ]
    schema = tuple(Field(f"EXPR${number}", kind) for number, kind in enumerate(types))
    return LogicalValues(
        schema=schema,
        rows=tuple(
            tuple(typing.cast_to(rex, kind) for rex, kind in zip(row, types, strict=True))
            for row in rows
        ),
    )


def _parts(tree: exp.Expr) -> list[Any]:
    if isinstance(tree, exp.Tuple):
        return list(tree.expressions)
    if isinstance(tree, exp.Paren):
        return [tree.this]
    if isinstance(tree, exp.Anonymous) and trees.function_path(tree)[-1].upper() == "ROW":
        return list(tree.expressions)
    return [tree]


def _common(
    context: LogicalPlanContext, tree: exp.Expr, types: Sequence[DataType], what: str
) -> DataType:
    found = typing.common_type(types)
    if found is None:
        shown = ", ".join(dict.fromkeys(str(each.nullable()) for each in types))
        raise context.error(tree, f"{what} has no common type: {shown}", hint="use CAST")
    return found


# set operations


def set_operation(context: LogicalPlanContext, tree: exp.Expr) -> LogicalNode:
    """Return UNION, INTERSECT or EXCEPT; chains of the same are one node."""
    kind = _SET_OPERATIONS[type(tree)]
    everything = tree.args.get("distinct") is False
    parts = [query(context, each) for each in _operands(tree, everything)]
    width = len(parts[0].schema)
    for each in parts[1:]:
        if len(each.schema) != width:
            raise context.error(
                tree.expression,
                f"both sides of {kind} must have {width} columns, got {len(each.schema)}",
            )
    columns = list(zip(*(each.schema for each in parts), strict=True))
    types = [
        _common(context, tree, [each.type for each in column], f"column {number} of {kind}")
        for number, column in enumerate(columns, 1)
    ]
    names = [each.name for each in parts[0].schema]
    same = [
        project(
            each,
            [
                typing.cast_to(rex, kind_)
                for rex, kind_ in zip(references(each.schema), types, strict=True)
            ],
            names,
        )
        for each in parts
    ]
    return LogicalSetOperation(
        schema=_united(kind, everything, columns, types, names),
        parts=tuple(same),
        kind=kind,
        all=everything,
    )


def _operands(tree: exp.Expr, everything: bool) -> list[Any]:
    """The parts of a chain: a UNION ALL b UNION ALL c has three. EXCEPT is not associative, so it has two."""
    sides: list[Any] = []
    for side in (tree.this, tree.expression):
        chained = (
            type(side) is type(tree)
            and isinstance(tree, exp.Union)
            and (side.args.get("distinct") is False) == everything
            and not any(
                side.args.get(each) for each in ("with_", "with", "order", "limit", "offset")
            )
        )
        sides += _operands(side, everything) if chained else [side]
    return sides


def _united(
    kind: str,
    everything: bool,
    columns: Sequence[tuple[Field, ...]],
    types: Sequence[DataType],
    names: Sequence[str],
) -> Schema:
    """The columns: UNION ALL passes time attributes on that all parts have."""
    found = []
    for column, type_, name in zip(columns, types, names, strict=True):
        time = column[0].time if len({each.time for each in column}) == 1 else None
        window = column[0].window if len({each.window for each in column}) == 1 else None
        found.append(Field(name, type_, time, window))
    return tuple(found) if kind == "UNION" and everything else plain(tuple(found))
