"""OVER: aggregates and ranking functions over the rows around a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlglot import exp

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
)
from penstock.sql.expr.typing import is_integer
from penstock.sql.logical.aggregation import aggregate_call, never_null
from penstock.sql.logical.blocks import Projection, QueryBlock
from penstock.sql.logical.nodes import (
    Field,
    LogicalOverAggregate,
    LogicalOverWindow,
    SqlLocation,
)
from penstock.sql.logical.schemas import references
from penstock.sql.parse import trees

_ORDERED = {"RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "LAG", "LEAD"}
RANKING = {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"}


def add_over(block: QueryBlock, users: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Add a column for each OVER in these expressions; windows that are equal share a node."""
    found = [each for tree in users for each in _windows_in(tree)]
    if not found:
        return
    groups: list[tuple[LogicalOverWindow, list[AggregateCall]]] = []
    places: dict[int, tuple[int, int]] = {}
    written: list[SqlLocation | None] = []  # of each window, where it is seen first
    projection = _projection(block)
    for tree in found:
        window, call = _read(block, tree, named, projection)
        known = [each for each, _ in groups]
        number = known.index(window) if window in known else len(groups)
        if number == len(groups):
            groups.append((window, []))
            written.append(block.context.place(tree))
        calls = groups[number][1]
        if call not in calls:
            calls.append(call)
        places[id(tree)] = number, calls.index(call)
    _build(block, projection, groups, places, written)


def _projection(block: QueryBlock) -> Projection:
    """All columns there are, to which operands are added."""
    projection = Projection(block.node.schema)
    for each in references(block.node.schema):
        projection.expressions.append(each)
    projection.names += [each.name for each in block.node.schema]
    return projection


def _build(
    block: QueryBlock,
    projection: Projection,
    groups: Sequence[tuple[LogicalOverWindow, list[AggregateCall]]],
    places: Mapping[int, tuple[int, int]],
    written: Sequence[SqlLocation | None],
) -> None:
    node = projection.over(block.node)
    starts = []
    for (window, calls), place in zip(groups, written, strict=True):
        starts.append(len(node.schema))
        more = tuple(Field(f"w{len(starts)}${i}", call.type) for i, call in enumerate(calls))
        node = LogicalOverAggregate(
            schema=node.schema + more,
            input=node,
            window=window,
            calls=tuple(calls),
            place=place,
        )
    for tree_id, (group, number) in places.items():
        index = starts[group] + number
        block.replaced[tree_id] = InputRef(node.schema[index].type, index)
    block.node = node


def _windows_in(tree: exp.Expr) -> Iterator[Any]:
    if isinstance(tree, exp.Query):
        return
    if isinstance(tree, exp.Window):
        yield tree
        return
    for each in tree.iter_expressions():
        yield from _windows_in(each)


def _read(
    block: QueryBlock, tree: exp.Expr, named: Mapping[str, Any], projection: Projection
) -> tuple[LogicalOverWindow, AggregateCall]:
    partition, order, spec = _specification(block, tree, named, ())
    call = aggregate_call(block, tree.this, over=True)
    _check(block, tree, call, ordered=bool(order))
    rows, preceding, following = _frame(block, spec, bool(order), call.function)
    if (preceding or 0) >= 0 and (following or 0) >= 0:  # the row itself is in its frame
        call = never_null(call)
    call = replace(
        call,
        operands=tuple(map(projection.operand, call.operands)),
        filter=None if call.filter is None else projection.operand(call.filter),
        order=tuple((projection.operand(rex), up) for rex, up in call.order),
    )
    # A projection dedups by expression, so that constants in PARTITION BY are columns, too.
    keys = tuple(dict.fromkeys(projection.add(block.convert(each)) for each in partition))
    sorted_by = [block.convert(each.this) for each in order]
    for each, rex in zip(order, sorted_by, strict=True):
        block.check_order(each.this, rex.type)
    sort = tuple(
        SortKey(projection.add(rex), *direction(each))
        for each, rex in zip(order, sorted_by, strict=True)
    )
    return LogicalOverWindow(keys, sort, rows, preceding, following), call


def _check(block: QueryBlock, tree: exp.Expr, call: AggregateCall, *, ordered: bool) -> None:
    """Reject functions whose place or number means nothing."""
    name = call.function
    if name in _ORDERED and not ordered:
        block.fail(
            tree, f"{name} needs an ORDER BY in its window", hint=f"{name}(...) OVER (ORDER BY ...)"
        )
    number = {"LAG": 1, "LEAD": 1, "NTILE": 0}.get(name)
    if number is None or len(call.operands) <= number:
        return
    what = "the offset" if number else "the number of groups"
    written = tree.this.expressions[number]
    value = block.convert(written)
    least = 0 if number else 1
    if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < least:
        block.fail(written, f"{what} of {name} must be a constant number, at least {least}")


def direction(ordered: exp.Expr) -> tuple[bool, bool]:
    """Return whether a part of ORDER BY ascends, and whether NULLs come first: they are the lowest values by default."""
    ascending = not ordered.args.get("desc")
    nulls_first = ordered.args.get("nulls_first")
    return ascending, ascending if nulls_first is None else bool(nulls_first)


def _specification(
    block: QueryBlock, tree: exp.Expr, named: Mapping[str, Any], seen: tuple[str, ...]
) -> tuple[list[Any], list[Any], Any]:
    """Return PARTITION BY, ORDER BY and the frame; a window that is based on a named one completes it."""
    partition = [*(tree.args.get("partition_by") or ())]
    order = [*(tree.args["order"].expressions if tree.args.get("order") else ())]
    spec = tree.args.get("spec")
    alias = tree.args.get("alias")
    if alias is None:
        return partition, order, spec
    name = alias if isinstance(alias, str) else alias.name
    if name not in named or name in seen:
        block.fail(tree, f"window '{name}' not found", hint=f"add WINDOW {name} AS (...)")
    base = _specification(block, named[name], named, (*seen, name))
    return partition or base[0], order or base[1], spec or base[2]


Frame = tuple[bool, int | None, int | None]


def _frame(block: QueryBlock, spec: Any, ordered: bool, function: str) -> Frame:
    """Return ROWS or not, and the bounds: None is unbounded."""
    if function in RANKING or function in {"LAG", "LEAD"}:
        return True, None, 0  # they count rows, independent of the frame
    if spec is None:
        return False, None, 0 if ordered else None
    rows = str(spec.args.get("kind") or "").upper() == "ROWS"
    start = _bound(block, spec, "start", rows)
    end = _bound(block, spec, "end", rows) if spec.args.get("end") is not None else 0
    return rows, None if start is None else -start, end


def _bound(block: QueryBlock, spec: Any, which: str, rows: bool) -> int | None:
    """Return how far from the current row a frame begins or ends: before it is negative."""
    value = spec.args.get(which)
    side = str(spec.args.get(f"{which}_side") or "").upper()
    if isinstance(value, str) or value is None:
        word = str(value or "").upper()
        if word == "UNBOUNDED":
            if (side == "FOLLOWING") == (which == "start"):
                block.fail(spec, f"a frame cannot {which} with UNBOUNDED {side}")
            return None
        return 0
    rex = block.convert(value)
    while isinstance(rex, Call) and rex.function == "CAST" and is_integer(rex.type):
        (rex,) = rex.operands  # CAST(2 AS BIGINT): the number of rows stays the same
    amount = rex.value if isinstance(rex, Literal) else None
    if rows and isinstance(amount, int) and not isinstance(amount, bool):
        distance = amount
    elif not rows and isinstance(amount, timedelta):
        distance = round(amount / timedelta(milliseconds=1))
    else:
        what = "a constant number of rows" if rows else "a constant interval"
        block.fail(value, f"the bound of a {'ROWS' if rows else 'RANGE'} frame must be {what}")
    return -distance if side == "PRECEDING" else distance


def named_windows(tree: exp.Expr) -> dict[str, Any]:
    """Return the windows of the clause WINDOW w AS (...)."""
    return {trees.name_parts(each.this)[-1]: each for each in tree.args.get("windows") or ()}
