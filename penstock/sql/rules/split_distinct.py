"""Split distinct aggregation (`table.optimizer.distinct-agg.split.enabled`): the values of a hot key are spread over many subtasks.

Rows are grouped by their keys and a bucket of the distinct value first; what that gives is put together by the keys alone. With several distinct values each row is there once
per value, and the others count only in the copy that is theirs. `penstock.sql.physical.planner` reads the options, and
`penstock.sql.rules.optimizer` has the place of the rule among the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.expr.rewriting import all_of, conjuncts
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalExpand,
    LogicalNode,
    LogicalProject,
)
from penstock.sql.logical.transform import refs, transform
from penstock.sql.types import (
    BigIntType,
    BooleanType,
    DataType,
    IntType,
)

_LONG, _INT = BigIntType(False), IntType(False)
# Not MIN and MAX: the second level would have to store all results of the first one.
_DISTINCT = frozenset({"COUNT", "SUM"})


def split_distinct(roots: Sequence[LogicalNode], buckets: int) -> list[LogicalNode]:
    """Split aggregates with DISTINCT, everywhere in a plan, where all of their calls can be put together.

    >>> from functools import partial
    >>> from penstock.sql.rules.examples import show_rule
    >>> rule = partial(split_distinct, buckets=1024)
    >>> show_rule(rule, "SELECT auction, COUNT(DISTINCT bidder) FROM bids GROUP BY auction")
      LogicalProject(auction=[auction], EXPR$1=[EXPR$0])
      +- LogicalAggregate(group=[{auction}], EXPR$0=[COUNT(DISTINCT bidder)])
         +- LogicalProject(auction=[auction], bidder=[bidder])
            +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalProject(auction=[auction], EXPR$1=[EXPR$0])
      +- LogicalProject(auction=[auction], EXPR$0=[$m0])
         +- LogicalAggregate(group=[{auction}], $m0=[SUM($p0)])
            +- LogicalAggregate(group=[{auction, $value, $bucket}], $p0=[COUNT(DISTINCT bidder)])
               +- LogicalProject(auction=[auction], bidder=[bidder], $value=[0], $bucket=[HASH BUCKET(bidder, 1024)])
                  +- LogicalProject(auction=[auction], bidder=[bidder])
                     +- LogicalTableScan(table=[[c, d, bids]])
    """
    return [transform(root, lambda each: _split(each, buckets)) for root in roots]


def _split(node: LogicalNode, buckets: int) -> LogicalNode:
    if not isinstance(node, LogicalAggregate) or node.window is not None or node.sets is not None:
        return node
    distinct = [call for call in node.aggregates if call.distinct]
    if not distinct or not all(_fits(call) for call in node.aggregates):
        return node
    values = list(dict.fromkeys(call.operands[0] for call in distinct))
    width = len(node.input.schema)
    below = _expanded(node.input, values, buckets)
    keys = (*node.keys, width, width + 1)
    partial = tuple(_partial(call, values, width) for call in node.aggregates)
    inner = LogicalAggregate(
        schema=(
            *(below.schema[key] for key in keys),
            *(Field(f"$p{at}", call.type) for at, call in enumerate(partial)),
        ),
        input=below,
        keys=keys,
        aggregates=partial,
        ttl_ms=node.ttl_ms,
    )
    first = len(keys)
    merged = tuple(
        AggregateCall("SUM", (InputRef(call.type, first + at),), _summed(call, node))
        for at, call in enumerate(node.aggregates)
    )
    outer = LogicalAggregate(
        schema=(
            *(Field(field.name, field.type) for field in node.schema[: len(node.keys)]),
            *(Field(f"$m{at}", call.type) for at, call in enumerate(merged)),
        ),
        input=inner,
        keys=tuple(range(len(node.keys))),
        aggregates=merged,
        ttl_ms=node.ttl_ms,
    )
    return _finished(node, outer)


def _fits(call: AggregateCall) -> bool:
    return (
        call.function in _DISTINCT
        and call.user is None
        and not call.order
        and len(call.operands) <= 1
        and all(isinstance(each, InputRef) for each in call.operands)
    )


def _summed(call: AggregateCall, node: LogicalAggregate) -> DataType:
    """Of no rows at all, sums are NULL."""
    return call.type if node.keys else call.type.nullable()


def _expanded(below: LogicalNode, values: list[Rex], buckets: int) -> LogicalNode:
    """Append the number of the distinct value, and the bucket that it falls into."""
    projections = tuple(
        (*refs(below.schema), Literal(_INT, at), _bucket(value, buckets))
        for at, value in enumerate(values)
    )
    schema = (*below.schema, Field("$value", _INT), Field("$bucket", _INT))
    if len(values) == 1:
        return LogicalProject(schema=schema, input=below, expressions=projections[0])
    return LogicalExpand(schema=schema, input=below, projections=projections)


def _bucket(value: Rex, buckets: int) -> Rex:
    return Call(_INT, "HASH BUCKET", (value, Literal(_INT, buckets)))


def _partial(call: AggregateCall, values: list[Rex], width: int) -> AggregateCall:
    """Let a call see one copy of each row: that of its value, or the first."""
    if len(values) == 1:
        return call
    mine = values.index(call.operands[0]) if call.distinct else 0
    ours = Call(BooleanType(False), "=", (InputRef(_INT, width), Literal(_INT, mine)))
    own = [] if call.filter is None else conjuncts(call.filter)
    kind = call.type if call.function == "COUNT" else call.type.nullable()
    return replace(call, filter=all_of([ours, *own]), type=kind)


def _finished(node: LogicalAggregate, outer: LogicalNode) -> LogicalNode:
    columns: list[Rex] = list(refs(outer.schema))
    first = len(node.keys)
    for at, call in enumerate(node.aggregates):
        found = columns[first + at]
        if call.function == "COUNT" and not node.keys:
            columns[first + at] = Call(_LONG, "COALESCE", (found, Literal(_LONG, 0)))
    return LogicalProject(schema=node.schema, input=outer, expressions=tuple(columns))
