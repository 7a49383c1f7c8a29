"""Equal parts of plans become one: a table that two branches, or two INSERTs of one job, read is read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.catalogs.tables import ResolvedTable
from penstock.sql.expr.nodes import AggregateCall, Call, Rex
from penstock.sql.expr.rewriting import is_deterministic
from penstock.sql.logical.nodes import LogicalNode, LogicalSink
from penstock.sql.logical.transform import fields_of, with_inputs


def share_subplans(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Return plans in which equal parts are the same object. Non-deterministic nodes are not shared.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(
    ...     share_subplans,
    ...     "SELECT auction FROM bids WHERE price > 5",
    ...     "SELECT bidder FROM bids WHERE price > 5",
    ... )
      LogicalProject(auction=[auction])
      +- LogicalFilter(condition=[(price > 5)])
         +- LogicalTableScan(table=[[c, d, bids]])
      LogicalProject(bidder=[bidder])
      +- LogicalFilter(condition=[(price > 5)])
         +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalProject(auction=[auction])
      +- LogicalFilter(condition=[(price > 5)])(reuse_id=[1])
         +- LogicalTableScan(table=[[c, d, bids]])
      LogicalProject(bidder=[bidder])
      +- Reused(reference_id=[1])
    """
    known: dict[Any, LogicalNode] = {}
    made: dict[int, tuple[LogicalNode, LogicalNode]] = {}

    def visit(node: LogicalNode) -> LogicalNode:
        found = made.get(id(node))
        if found is not None:
            return found[1]
        rebuilt = with_inputs(node, [visit(each) for each in node.inputs])
        if not isinstance(node, LogicalSink) and _is_deterministic(rebuilt):
            rebuilt = known.setdefault(_key(rebuilt), rebuilt)
        made[id(node)] = (node, rebuilt)
        return rebuilt

    return [visit(root) for root in roots]


def count_readers(roots: Sequence[LogicalNode]) -> dict[int, int]:
    """Return how many nodes read each node, by its id."""
    readers: dict[int, int] = {}
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for each in node.inputs:
            readers[id(each)] = readers.get(id(each), 0) + 1
            waiting.append(each)
    return readers


def _key(node: LogicalNode) -> Any:
    inputs = tuple(id(each) for each in node.inputs)
    return type(node), inputs, _frozen(fields_of(node))


def _frozen(value: object) -> object:
    """Return something that can be compared and hashed, and stands for a value."""
    if isinstance(value, ResolvedTable):
        return str(value.path), _frozen(value.options), id(value.bound)
    if isinstance(value, dict):
        return tuple((key, _frozen(value[key])) for key in sorted(value))
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(_frozen, value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _is_deterministic(node: LogicalNode) -> bool:
    # A processing time attribute says when a row came by: two who read it may read the same.
    return all(
        is_deterministic(each)
        for each in _expressions(fields_of(node))
        if not (isinstance(each, Call) and each.function == "PROCTIME")
    )


def _expressions(value: object) -> list[Rex]:
    if isinstance(value, Rex):
        return [value]
    if isinstance(value, AggregateCall):
        return _expressions((*value.operands, *((value.filter,) if value.filter else ())))
    if isinstance(value, dict):
        return [each for part in value.values() for each in _expressions(part)]
    if isinstance(value, list | tuple):
        return [each for part in value for each in _expressions(part)]
    return []
