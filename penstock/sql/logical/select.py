"""SELECT: from FROM to LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.errors import did_you_mean
from penstock.sql.expr.nodes import InputRef, Rex
from penstock.sql.logical.aggregation import aggregate
from penstock.sql.logical.blocks import QueryBlock, aggregates_in
from penstock.sql.logical.conditions import field_access
from penstock.sql.logical.context import LogicalPlanContext
from penstock.sql.logical.hints import about_tables, check_names, state_ttl
from penstock.sql.logical.nodes import LogicalAggregate, LogicalNode, LogicalSort
from penstock.sql.logical.over import add_over, direction, named_windows
from penstock.sql.logical.relations import FromClause
from penstock.sql.logical.schemas import (
    plain,
    project,
    references,
    unique_names,
)
from penstock.sql.parse import trees
from penstock.sql.types import RowType


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of SELECT: an expression to convert, or one that `*` stands for."""

    name: str | None
    tree: Any = None
    rex: Rex | None = None


def select(context: LogicalPlanContext, tree: exp.Expr) -> LogicalNode:
    """Return the plan of a SELECT with its ORDER BY and LIMIT."""
    hints = trees.hints_of(tree)
    clause = FromClause(context, hints)
    clause.read(tree)
    assert clause.node is not None
    block = QueryBlock(context, clause.node, clause.scope)
    for each in clause.later:
        block.filter(each, "the condition of ON")
    where = tree.args.get("where")
    if where is not None:
        block.filter(where.this, "the condition of WHERE")
    items = _items(block, tree.expressions)
    order = [*(tree.args["order"].expressions if tree.args.get("order") else ())]
    having, qualify = tree.args.get("having"), tree.args.get("qualify")
    values = [item.tree for item in items if item.tree is not None]
    after = [*values, *(each.this for each in order)]
    after += [each.this for each in (having, qualify) if each is not None]
    group = tree.args.get("group")
    grouped = group or having or any(True for each in after for _ in aggregates_in(context, each))
    relations = [each.name for each in clause.relations if each.name]
    about = about_tables(hints, len(relations) > 1, bool(grouped or tree.args.get("distinct")))
    check_names(about, relations, context.text)
    if grouped:
        aggregate(block, group, after, _ttl(hints, context.text))
        items = _regrouped(block, items, tree)
        if having is not None:
            block.filter(having.this, "the condition of HAVING")
    names = {item.name: item.tree for item in items if item.name and item.tree is not None}
    block.aliases = names if qualify is not None else {}
    over = [*values, *(each.this for each in order)]
    over += [qualify.this] if qualify is not None else []
    add_over(block, over, named_windows(tree))
    if qualify is not None:
        block.filter(qualify.this, "the condition of QUALIFY")
    block.aliases = names
    return _finish(block, tree, items, order)


def _ttl(hints: Sequence[trees.Hint], text: str) -> int | None:
    """The STATE_TTL of an aggregate: the hint names the table, of which there is one."""
    found = state_ttl(hints, text)
    return next(iter(found.values())) if len(found) == 1 else None


# the columns


def _items(block: QueryBlock, expressions: Sequence[Any]) -> list[SelectItem]:
    """Return the columns of SELECT; stars are expanded."""
    found: list[SelectItem] = []
    for each in expressions:
        if isinstance(each, exp.Star):
            found += _star(block, each)
        elif _is_star(each):
            found += _qualified_star(block, each)
        elif isinstance(each, exp.Alias):
            found.append(SelectItem(str(each.args["alias"].this), each.this))
        else:
            found.append(SelectItem(_own_name(each), each))
    return found


def _is_star(tree: exp.Expr) -> bool:
    return (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)) or (
        isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Star)
    )


def _star(block: QueryBlock, tree: exp.Expr) -> list[SelectItem]:
    columns = list(block.scope.columns())
    if not columns:
        block.fail(tree, "'*' needs a FROM")
    return [SelectItem(field.name, rex=InputRef(field.type, index)) for index, field in columns]


def _qualified_star(block: QueryBlock, tree: exp.Expr) -> list[SelectItem]:
    """Return the columns of `table.*`, or the fields of `row.*`."""
    if isinstance(tree, exp.Dot):
        row = block.convert(tree.this)
        parts = trees.name_parts(tree.this) if isinstance(tree.this, exp.Column | exp.Dot) else ()
    else:
        parts = trees.name_parts(tree)[:-1]
        relation = block.scope.find_relation(parts)
        if relation is not None:
            return [
                SelectItem(field.name, rex=InputRef(field.type, index))
                for index, field in enumerate(relation.fields, relation.start)
            ]
        found = block.find(tree, parts)
        if found is None:
            known = [each.name for each in block.scope.relations if each.name]
            block.fail(
                tree,
                f"table '{'.'.join(parts)}' not found",
                hint=did_you_mean(".".join(parts), known),
            )
        row = found
    if not isinstance(row.type, RowType):
        block.fail(tree, f"'{'.'.join(parts)}.*' needs a ROW, got {row.type}")
    return [
        SelectItem(name, rex=field_access(row, position))
        for position, name in enumerate(row.type.names)
    ]


def _own_name(tree: exp.Expr) -> str | None:
    """The name that a column has without AS."""
    if isinstance(tree, exp.Column):
        return str(trees.name_parts(tree)[-1])
    if isinstance(tree, exp.Dot):
        return str(trees.name_parts(tree.expression)[-1])
    return None


def _regrouped(block: QueryBlock, items: Sequence[SelectItem], tree: exp.Expr) -> list[SelectItem]:
    """Return columns of `*` behind GROUP BY, where they must be keys."""
    found = []
    for item in items:
        if item.rex is not None:
            assert block.grouping is not None
            rex = block.grouping.regrouped(item.rex)
            if rex is None:
                block.fail(
                    tree.expressions[0],
                    f"expression '{item.name}' is not being grouped",
                    hint="list the GROUP BY keys instead of '*'",
                )
            item = SelectItem(item.name, rex=rex)  # noqa: PLW2901
        found.append(item)
    return found


# from the columns to LIMIT


def _finish(
    block: QueryBlock, tree: exp.Expr, items: Sequence[SelectItem], order: Sequence[Any]
) -> LogicalNode:
    aliases, block.aliases = block.aliases, {}
    rexes = [item.rex if item.rex is not None else block.convert(item.tree) for item in items]
    block.aliases = aliases
    named = [item.name or f"EXPR${number}" for number, item in enumerate(items)]
    names = unique_names(named)
    distinct = tree.args.get("distinct")
    if distinct is not None and getattr(distinct, "args", {}).get("on"):
        block.unsupported(distinct, "DISTINCT ON is not supported", hint="use ROW_NUMBER")
    sort: list[tuple[Any, Rex | int]] = [
        (each, _sort_column(block, each, rexes, named)) for each in order
    ]
    hidden = [rex for _, rex in sort if not isinstance(rex, int)]
    if hidden and distinct is not None:
        block.fail(order[0], "ORDER BY of SELECT DISTINCT must name columns of SELECT")
    node = project(block.node, [*rexes, *hidden], [*names, *(f"$o{i}" for i in range(len(hidden)))])
    if distinct is not None:
        node = distinct_rows(node)
    keys = []
    place = len(rexes)
    for each, column in sort:
        index = column if isinstance(column, int) else place
        place += 0 if isinstance(column, int) else 1
        keys.append(SortKey(index, *direction(each)))
    node = sorted_rows(block, tree, node, tuple(keys))
    if hidden:
        node = project(node, references(node.schema[: len(rexes)]), names)
    return node


def _sort_column(
    block: QueryBlock, ordered: exp.Expr, rexes: Sequence[Rex], names: Sequence[str]
) -> Rex | int:
    """Return the column of SELECT that ORDER BY means, or an expression that is none of them."""
    tree = ordered.this
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return ordinal(block, tree, len(names))
    if isinstance(tree, exp.Column) and tree.args.get("table") is None:
        name = str(tree.this.this)
        if names.count(name) == 1:
            return names.index(name)
    block.aliases_first = True
    rex = block.convert(tree)
    block.aliases_first = False
    return rexes.index(rex) if rex in rexes else rex


def ordinal(block: QueryBlock, tree: exp.Expr, count: int) -> int:
    """Return the column that a number in ORDER BY means."""
    text = str(tree.this)
    if not text.isdigit() or not 1 <= int(text) <= count:
        block.fail(
            tree, f"ORDER BY position {text} is out of range", hint=f"the query has {count} columns"
        )
    return int(text) - 1


def distinct_rows(node: LogicalNode) -> LogicalNode:
    """Return each row once."""
    return LogicalAggregate(
        schema=plain(node.schema),
        input=node,
        keys=tuple(range(len(node.schema))),
        aggregates=(),
    )


def sorted_rows(
    block: QueryBlock, tree: exp.Expr, node: LogicalNode, keys: tuple[SortKey, ...]
) -> LogicalNode:
    """Return rows with ORDER BY, OFFSET and LIMIT of a query."""
    limit = _count(block, tree.args.get("limit"), "LIMIT")
    offset = _count(block, tree.args.get("offset"), "OFFSET") or 0
    if not keys and limit is None and not offset:
        return node
    order = tree.args.get("order")
    items: Sequence[exp.Expr] = order.expressions if order is not None and keys else ()
    for each, key in zip(items, keys, strict=True):
        block.check_order(each.this, node.schema[key.index].type)
    return LogicalSort(
        schema=node.schema,
        input=node,
        order=keys,
        offset=offset,
        limit=limit,
        place=block.context.place(items[0] if keys else tree.args.get("limit")),
    )


def _count(block: QueryBlock, tree: Any, what: str) -> int | None:
    if tree is None:
        return None
    value = tree.expression if tree.args.get("expression") is not None else tree.args.get("count")
    while isinstance(value, exp.Paren):
        value = value.this
    if value is None or str(getattr(value, "name", "")).upper() == "ALL":
        return None
    if not (isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit()):
        block.fail(tree, f"{what} must be a number", hint=f"write {what} 10")
    return int(value.this)
