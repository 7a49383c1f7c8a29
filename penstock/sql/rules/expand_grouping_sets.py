"""GROUPING SETS, ROLLUP and CUBE: each row once per set, with NULL for the keys that are not in it."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalExpand,
    LogicalNode,
    LogicalProject,
)
from penstock.sql.logical.transform import refs, transform
from penstock.sql.types import BigIntType, BooleanType

_GROUPING = frozenset({"GROUPING", "GROUPING_ID", "GROUP_ID"})
_LONG = BigIntType(False)


def expand_grouping_sets(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Turn grouping sets into expansion and plain grouping, everywhere in a plan.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(
    ...     expand_grouping_sets,
    ...     "SELECT auction, COUNT(*) FROM bids GROUP BY ROLLUP (auction)",
    ... )
      LogicalProject(auction=[auction], EXPR$1=[EXPR$0])
      +- LogicalAggregate(group=[{auction}], groups=[{auction}, {}], EXPR$0=[COUNT(*)])
         +- LogicalProject(auction=[auction])
            +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalProject(auction=[auction], EXPR$1=[EXPR$0])
      +- LogicalProject(auction=[auction], EXPR$0=[$a0])
         +- LogicalAggregate(group=[{auction, $e}], $a0=[COUNT(*)])
            +- LogicalExpand(projects=[{auction, auction, 0}, {auction, null, 1}])
               +- LogicalProject(auction=[auction])
                  +- LogicalTableScan(table=[[c, d, bids]])
    """
    return [transform(root, _expanded) for root in roots]


def _expanded(node: LogicalNode) -> LogicalNode:
    if not isinstance(node, LogicalAggregate):
        return node
    if node.sets is None:
        return _without_grouping_calls(node)
    below = node.input
    width = len(below.schema)
    sets = tuple(tuple(node.keys[number] for number in each) for each in node.sets)
    always = {key for key in node.keys if all(key in each for each in sets)}
    copied = [key for key in node.keys if key not in always]
    number = width + len(copied)
    columns = refs(below.schema)
    projections = tuple(
        (
            *columns,
            *(_kept_or_null(columns[key], key in each) for key in copied),
            Literal(_LONG, at),
        )
        for at, each in enumerate(sets)
    )
    copies = tuple(
        Field(below.schema[key].name, below.schema[key].type.nullable()) for key in copied
    )
    expand = LogicalExpand(
        schema=(*below.schema, *copies, Field("$e", _LONG)), input=below, projections=projections
    )
    place = {key: key if key in always else width + copied.index(key) for key in node.keys}
    keys = (*(place[key] for key in node.keys), number)
    calls = [call for call in node.aggregates if call.function not in _GROUPING]
    inner = LogicalAggregate(
        schema=(
            *(expand.schema[key] for key in keys),
            *(Field(f"$a{at}", call.type) for at, call in enumerate(calls)),
        ),
        input=expand,
        keys=keys,
        aggregates=tuple(calls),
        ttl_ms=node.ttl_ms,
    )
    return _finished(node, inner, sets)


def _kept_or_null(column: InputRef, kept: bool) -> Rex:
    nullable = column.type.nullable()
    return InputRef(nullable, column.index) if kept else Literal(nullable, None)


def _finished(
    node: LogicalAggregate, inner: LogicalNode, sets: tuple[tuple[int, ...], ...]
) -> LogicalNode:
    """Compute GROUPING calls from the grouping set's number, and drop the number."""
    count = len(node.keys)
    columns: list[Rex] = list(refs(inner.schema)[:count])
    at = count + 1
    for call in node.aggregates:
        if call.function in _GROUPING:
            values = [_grouping(call, each, sets[:index]) for index, each in enumerate(sets)]
            columns.append(_chosen(call, values, InputRef(_LONG, count)))
        else:
            columns.append(InputRef(call.type, at))
            at += 1
    return LogicalProject(schema=node.schema, input=inner, expressions=tuple(columns))


def _grouping(
    call: AggregateCall, keys: tuple[int, ...], before: tuple[tuple[int, ...], ...]
) -> int:
    """Return a bit per operand, 1 for those that are not grouped by; of GROUP_ID, how often the set was there before.

    >>> _grouping(AggregateCall("GROUPING_ID", (InputRef(_LONG, 0), InputRef(_LONG, 1)), _LONG), (1,), ())
    2
    """
    if call.function == "GROUP_ID":
        return sum(set(each) == set(keys) for each in before)
    bits = 0
    for operand in call.operands:
        grouped = isinstance(operand, InputRef) and operand.index in keys
        bits = bits * 2 + (not grouped)
    return bits


def _chosen(call: AggregateCall, values: list[int], number: InputRef) -> Rex:
    if len(set(values)) == 1:
        return Literal(call.type, values[0])
    parts: list[Rex] = []
    for at, value in enumerate(values[:-1]):
        parts += [
            Call(BooleanType(False), "=", (number, Literal(_LONG, at))),
            Literal(call.type, value),
        ]
    return Call(call.type, "CASE", (*parts, Literal(call.type, values[-1])))


def _without_grouping_calls(node: LogicalAggregate) -> LogicalNode:
    """Of plain grouping, GROUPING says 0 for every key."""
    if not any(call.function in _GROUPING for call in node.aggregates):
        return node
    calls = tuple(call for call in node.aggregates if call.function not in _GROUPING)
    first = len(node.keys)
    kept = [
        field
        for field, call in zip(node.schema[first:], node.aggregates, strict=False)
        if call.function not in _GROUPING
    ]
    rest = node.schema[first + len(node.aggregates) :]
    inner = LogicalAggregate(
        schema=(*node.schema[:first], *kept, *rest),
        input=node.input,
        keys=node.keys,
        aggregates=calls,
        window=node.window,
        properties=node.properties,
        ttl_ms=node.ttl_ms,
    )
    columns: list[Rex] = list(refs(inner.schema)[:first])
    at = first
    for call in node.aggregates:
        if call.function in _GROUPING:
            columns.append(Literal(call.type, _grouping(call, node.keys, ())))
        else:
            columns.append(InputRef(call.type, at))
            at += 1
    columns += refs(inner.schema)[at:]
    return LogicalProject(schema=node.schema, input=inner, expressions=tuple(columns))
