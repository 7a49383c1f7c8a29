"""UNION, INTERSECT and EXCEPT in terms of nodes that run."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.expr.rewriting import TRUE, all_of
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalCorrelate,
    LogicalJoin,
    LogicalNode,
    LogicalProject,
    LogicalSetOperation,
)
from penstock.sql.logical.transform import refs, transform
from penstock.sql.types import BigIntType, BooleanType

REPLICATE = "REPLICATE ROWS"
_LONG = BigIntType(False)


def rewrite_set_operations(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Leave nothing but UNION ALL of set operations, everywhere in a plan.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(
    ...     rewrite_set_operations,
    ...     "SELECT auction FROM bids INTERSECT SELECT bidder FROM bids",
    ... )
      LogicalIntersect(all=[false])
      :- LogicalProject(auction=[auction])
      :  +- LogicalTableScan(table=[[c, d, bids]])
      +- LogicalProject(auction=[bidder])
         +- LogicalProject(bidder=[bidder])
            +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalAggregate(group=[{auction}])
      +- LogicalJoin(condition=[(auction IS NOT DISTINCT FROM auction)], joinType=[semi])
         :- LogicalProject(auction=[auction])
         :  +- LogicalTableScan(table=[[c, d, bids]])
         +- LogicalProject(auction=[bidder])
            +- LogicalProject(bidder=[bidder])
               +- LogicalTableScan(table=[[c, d, bids]])
    """
    return [transform(root, _rewritten) for root in roots]


def _rewritten(node: LogicalNode) -> LogicalNode:
    if not isinstance(node, LogicalSetOperation) or (node.kind == "UNION" and node.all):
        return node
    if node.kind == "UNION":
        everything = LogicalSetOperation(
            schema=node.schema, parts=node.parts, kind="UNION", all=True
        )
        return _distinct(everything)
    whole = node.parts[0]
    for part in node.parts[1:]:
        whole = _counted(node, whole, part) if node.all else _distinct(_joined(node, whole, part))
    return whole


def _distinct(node: LogicalNode) -> LogicalNode:
    keys = tuple(range(len(node.schema)))
    return LogicalAggregate(schema=_plain(node.schema), input=node, keys=keys, aggregates=())


def _plain(schema: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(Field(field.name, field.type) for field in schema)


def _joined(node: LogicalSetOperation, left: LogicalNode, right: LogicalNode) -> LogicalNode:
    """INTERSECT: left rows that are on the right, too; EXCEPT: those that are not. NULLs are the same."""
    width = len(left.schema)
    same = [
        Call(
            BooleanType(False),
            "IS NOT DISTINCT FROM",
            (one, InputRef(other.type, other.index + width)),
        )
        for one, other in zip(refs(left.schema), refs(right.schema), strict=True)
    ]
    return LogicalJoin(
        schema=left.schema,
        left=left,
        right=right,
        kind="SEMI" if node.kind == "INTERSECT" else "ANTI",
        condition=all_of(same) or TRUE,
    )


def _counted(node: LogicalSetOperation, left: LogicalNode, right: LogicalNode) -> LogicalNode:
    """INTERSECT ALL and EXCEPT ALL: count each row on both sides, then replicate it."""
    width = len(left.schema)
    union = LogicalSetOperation(
        schema=(*_plain(left.schema), Field("$left", _LONG), Field("$right", _LONG)),
        parts=(_marked(left, 1, 0), _marked(right, 0, 1)),
        kind="UNION",
        all=True,
    )
    keys = tuple(range(width))
    sums = tuple(AggregateCall("SUM", (InputRef(_LONG, width + at),), _LONG) for at in (0, 1))
    counted = LogicalAggregate(schema=union.schema, input=union, keys=keys, aggregates=sums)
    ours, theirs = InputRef(_LONG, width), InputRef(_LONG, width + 1)
    times: Rex
    if node.kind == "EXCEPT":
        times = Call(_LONG, "-", (ours, theirs))
    else:
        fewer = Call(BooleanType(False), "<", (ours, theirs))
        times = Call(_LONG, "CASE", (fewer, ours, theirs))
    replicated = LogicalCorrelate(
        schema=(*counted.schema, Field("$copy", _LONG)),
        input=counted,
        function=REPLICATE,
        operands=(times,),
    )
    return LogicalProject(
        schema=node.schema, input=replicated, expressions=refs(counted.schema)[:width]
    )


def _marked(node: LogicalNode, ours: int, theirs: int) -> LogicalNode:
    marks = (Literal(_LONG, ours), Literal(_LONG, theirs))
    return LogicalProject(
        schema=(*_plain(node.schema), Field("$left", _LONG), Field("$right", _LONG)),
        input=node,
        expressions=(*refs(node.schema), *marks),
    )
