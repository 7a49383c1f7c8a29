"""GROUP BY: keys, grouping sets, group windows, and the aggregates of SELECT, HAVING and ORDER BY."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from penstock.errors import PenstockError
from penstock.sql.expr import functions
from penstock.sql.expr.nodes import (
    AggregateCall,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.logical import windows
from penstock.sql.logical.blocks import (
    GROUPING,
    Grouping,
    Projection,
    QueryBlock,
    aggregates_in,
    own_parts,
)
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.function_names import WINDOW_PROPERTIES
from penstock.sql.logical.nodes import Field, LogicalAggregate, Schema
from penstock.sql.parse import trees
from penstock.sql.types import BigIntType

_BIGINT = BigIntType(nullable=False)
_OF_VALUES = {"SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"}


@dataclass(slots=True)
class Keys:
    """The GROUP BY clause: keys, grouping sets, and a window."""

    rexes: list[Rex] = field(default_factory=list)
    sets: list[tuple[int, ...]] | None = None
    window: windows.GroupWindowCall | None = None

    def add(self, rex: Rex) -> int:
        """Return the number of a key."""
        if rex not in self.rexes:
            self.rexes.append(rex)
        return self.rexes.index(rex)


def aggregate(
    block: QueryBlock, group: object, users: Sequence[Any], ttl_ms: int | None = None
) -> None:
    """Group the rows of a block; `users` are the expressions that aggregates are looked for in."""
    keys = read_keys(block, group)
    projection = Projection(block.node.schema)
    positions = tuple(projection.add(key) for key in keys.rexes)
    time = None if keys.window is None else projection.add(keys.window.time)
    calls: list[AggregateCall] = []
    found: dict[int, int] = {}
    marks: list[tuple[Any, str]] = []
    base = Expressions(block.context, block.scope)
    for tree in users:
        for each in aggregates_in(block.context, tree):
            call = aggregate_call(block, each)
            if keys.rexes or keys.window is not None:
                call = never_null(call)
            call = replace(
                call,
                operands=tuple(map(projection.operand, call.operands)),
                filter=None if call.filter is None else projection.operand(call.filter),
                order=tuple((projection.operand(rex), up) for rex, up in call.order),
            )
            if call not in calls:
                calls.append(call)
            found[id(each)] = calls.index(call)
        grouping_calls(block, base, tree, keys, projection, calls, found)
        marks += window_marks(block, base, tree, keys)
    properties = tuple(dict.fromkeys(what for _, what in marks))
    if not projection.expressions:
        projection.add(Literal(_BIGINT, 0))  # COUNT(*) of everything: rows without columns are none
    node = projection.over(block.node)
    window = None
    if keys.window is not None:
        assert time is not None
        windows.check_time(block.context, group, node.schema[time])
        window = windows.define(
            block.context, group, keys.window.kind, keys.window.sizes, time, node
        )
    fields = key_fields([node.schema[each] for each in positions], keys.sets)
    schema = (
        *fields,
        *(Field(f"EXPR${number}", call.type) for number, call in enumerate(calls)),
        *(windows.property_field(what, what, node.schema[time or 0]) for what in properties),
    )
    block.node = LogicalAggregate(
        schema=schema,
        input=node,
        keys=positions,
        aggregates=tuple(calls),
        window=window,
        properties=properties,
        sets=None if keys.sets is None else tuple(keys.sets),
        ttl_ms=ttl_ms,
    )
    for tree_id, number in found.items():
        index = len(positions) + number
        block.replaced[tree_id] = InputRef(schema[index].type, index)
    for tree, what in marks:
        index = len(positions) + len(calls) + properties.index(what)
        block.replaced[id(tree)] = InputRef(schema[index].type, index)
    block.grouping = Grouping(base, keys.rexes, schema)


def key_fields(fields: Sequence[Field], sets: Sequence[tuple[int, ...]] | None) -> Schema:
    """Return the columns of keys: with windows among them they stay windows; other time attributes become timestamps."""
    windowed = {"start", "end"} <= {each.window for each in fields}
    found = []
    for number, each in enumerate(fields):
        if not windowed or each.window is None:
            each = replace(each, time=None, window=None)  # noqa: PLW2901
        if sets is not None and any(number not in subset for subset in sets):
            each = replace(each, type=each.type.nullable())  # noqa: PLW2901
        found.append(each)
    return tuple(found)


# keys


def read_keys(block: QueryBlock, group: Any) -> Keys:
    """Convert the GROUP BY clause."""
    keys = Keys()
    if group is None:
        return keys
    parts: list[list[tuple[int, ...]]] = []
    grouped = False
    elements = [*group.expressions]
    for name in ("grouping_sets", "rollup", "cube"):
        elements += group.args.get(name) or []
    for tree in elements:
        window = windows.group_window(block, tree)
        if window is not None:
            if keys.window is not None:
                block.unsupported(tree, "GROUP BY has more than one window")
            keys.window = window
            continue
        grouped = grouped or isinstance(tree, exp.GroupingSets | exp.Rollup | exp.Cube)
        parts.append(_sets_of(block, keys, tree))
    if grouped:
        keys.sets = [
            tuple(dict.fromkeys(itertools.chain(*choice))) for choice in itertools.product(*parts)
        ]
    return keys


def _sets_of(block: QueryBlock, keys: Keys, tree: exp.Expr) -> list[tuple[int, ...]]:
    """Return the grouping sets that one part of GROUP BY is."""
    if isinstance(tree, exp.GroupingSets):
        return [
            subset
            for each in tree.expressions
            for subset in (
                _sets_of(block, keys, each)
                if isinstance(each, exp.GroupingSets | exp.Rollup | exp.Cube)
                else [_element(block, keys, each)]
            )
        ]
    if isinstance(tree, exp.Rollup):
        elements = [_element(block, keys, each) for each in tree.expressions]
        return [
            tuple(itertools.chain(*elements[:length])) for length in range(len(elements), -1, -1)
        ]
    if isinstance(tree, exp.Cube):
        elements = [_element(block, keys, each) for each in tree.expressions]
        return [
            tuple(itertools.chain(*chosen))
            for length in range(len(elements), -1, -1)
            for chosen in itertools.combinations(elements, length)
        ]
    return [_element(block, keys, tree)]


def _element(block: QueryBlock, keys: Keys, tree: exp.Expr) -> tuple[int, ...]:
    if isinstance(tree, exp.Paren):
        return _element(block, keys, tree.this)
    parts = tree.expressions if isinstance(tree, exp.Tuple) else [tree]
    return tuple(keys.add(block.convert(each)) for each in parts)


# aggregates


def aggregate_call(block: Expressions, tree: Any, *, over: bool = False) -> AggregateCall:
    """Return the call of an aggregate function over the columns of a block; `over`: one that stands before OVER."""
    filter_: Rex | None = None
    ignore = False
    while isinstance(tree, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(tree, exp.Filter):
            where = tree.expression
            where = where.this if isinstance(where, exp.Where) else where
            filter_ = block.condition(where, "the condition of FILTER")
        elif isinstance(tree, exp.WithinGroup):
            block.fail(
                tree,
                f"aggregate expression '{str(tree.this.this).upper()}' must not contain a WITHIN GROUP clause",
                detail="rows are aggregated in arrival order, as in Flink",
                hint="remove WITHIN GROUP and sort afterwards, as in ARRAY_SORT(ARRAY_AGG(x))",
            )
        ignore = ignore or isinstance(tree, exp.IgnoreNulls)
        tree = tree.this
    options: dict[str, Any] = {
        "filter": filter_,
        "ignore_nulls": ignore,
        "over": over,
    }
    if isinstance(tree, trees.JsonObject | trees.JsonArray):
        return _json_aggregate(block, tree, options)
    operands = [*tree.expressions]
    distinct = len(operands) == 1 and isinstance(operands[0], exp.Distinct)
    if distinct:
        operands = operands[0].expressions
    if operands and isinstance(operands[-1], exp.Order):
        options["order"] = _order(block, operands[-1])
        operands[-1] = operands[-1].this
    if len(operands) == 1 and isinstance(operands[0], exp.Star):
        operands = []
    rexes = [block.convert(each) for each in operands]
    path = trees.function_path(tree)
    if over and len(path) == 1 and not functions.is_aggregate(path[0]):
        block.fail(
            tree, f"{path[0].upper()} is not an aggregate function and cannot be used with OVER"
        )
    user = block.context.catalog.find_function(path)
    if user is not None:
        wanted = tuple(block.user_operands(tree, user)) if user.input_types else tuple(rexes)
        return AggregateCall(
            user.name, wanted, user.result_types[0], distinct, filter_, user=user.function
        )
    return _resolved(block, tree, path[0].upper(), rexes, distinct, options)


def never_null(call: AggregateCall) -> AggregateCall:
    """Return an aggregate of at least one row: without NULLs in it, it is not NULL."""
    if call.function not in _OF_VALUES or call.filter is not None or not call.operands:
        return call
    if call.operands[0].type.is_nullable:
        return call
    return replace(call, type=call.type.not_null())


def _json_aggregate(block: Expressions, tree: exp.Expr, options: dict[str, Any]) -> AggregateCall:
    if isinstance(tree, trees.JsonObject):
        rexes = [block.convert(part) for pair in tree.expressions for part in pair.expressions]
        name, default = "JSON_OBJECTAGG", "NULL"
    else:
        rexes = [block.convert(each) for each in tree.expressions]
        name, default = "JSON_ARRAYAGG", "ABSENT"
    options["words"] = {"on_null": str(tree.args.get("on_null") or default)}
    return _resolved(block, tree, name, rexes, False, options)


def _resolved(
    block: Expressions,
    tree: exp.Expr,
    name: str,
    operands: Sequence[Rex],
    distinct: bool,
    options: dict[str, Any],
) -> AggregateCall:
    try:
        return functions.resolve_aggregate(name, operands, distinct, **options)
    except PenstockError as error:
        raise block.context.wrapped(tree, error) from None


def _order(block: Expressions, tree: exp.Expr) -> tuple[tuple[Rex, bool], ...]:
    return tuple((block.convert(each.this), not each.args.get("desc")) for each in tree.expressions)


# GROUPING and the properties of windows


def grouping_calls(
    block: QueryBlock,
    base: Expressions,
    tree: exp.Expr,
    keys: Keys,
    projection: Projection,
    calls: list[AggregateCall],
    found: dict[int, int],
) -> None:
    """Find GROUPING, GROUPING_ID and GROUP_ID in an expression: aggregates over the number of the grouping set."""
    for each in own_parts(tree):
        name = _name(each)
        if name not in GROUPING:
            continue
        operands = []
        for operand in each.expressions:
            rex = base.convert(operand)
            if rex not in keys.rexes:
                block.fail(operand, f"the operand of {name} must be in GROUP BY")
            operands.append(InputRef(rex.type, projection.add(rex)))
        function = "GROUP_ID" if name == "GROUP_ID" else "GROUPING"
        call = AggregateCall(function, tuple(operands), _BIGINT)
        if keys.sets is None:
            block.replaced[id(each)] = Literal(_BIGINT, 0)
            continue
        if call not in calls:
            calls.append(call)
        found[id(each)] = calls.index(call)


def window_marks(
    block: QueryBlock, base: Expressions, tree: exp.Expr, keys: Keys
) -> list[tuple[Any, str]]:
    """Find TUMBLE_START and its kin in an expression."""
    marks = []
    for each in own_parts(tree):
        name = _name(each)
        if name not in WINDOW_PROPERTIES:
            continue
        kind, what = WINDOW_PROPERTIES[name]
        if keys.window is None or windows.read_group_window(base, each, kind) != keys.window:
            block.fail(
                each,
                f"{name} can only be used with the same window in GROUP BY",
                hint=f"GROUP BY {kind}(...) must have the same operands",
            )
        time = block.node.schema[keys.window.time.index].time
        if what == "rowtime" and time == "proctime":
            block.fail(each, f"a proctime window cannot provide a rowtime attribute ({name})")
        marks.append((each, what))
    return marks


def _name(tree: exp.Expr) -> str:
    return trees.function_path(tree)[-1].upper() if isinstance(tree, exp.Anonymous) else ""
