"""LIMIT without order: a source need not give more rows than that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.sql.logical.nodes import (
    LogicalNode,
    LogicalProject,
    LogicalSort,
    LogicalTableScan,
)
from penstock.sql.logical.transform import transform, with_inputs


def push_down_limits(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Tell scans how many rows are needed, everywhere in a plan.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(push_down_limits, "SELECT price FROM bids LIMIT 2")
      LogicalSort(fetch=[2])
      +- LogicalProject(price=[price])
         +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalSort(fetch=[2])
      +- LogicalProject(price=[price])
         +- LogicalTableScan(table=[[c, d, bids]], limit=[2])
    """
    return [transform(root, _pushed) for root in roots]


def _pushed(node: LogicalNode) -> LogicalNode:
    if not isinstance(node, LogicalSort) or node.order or node.limit is None:
        return node
    return with_inputs(node, [_limited(node.input, node.offset + node.limit)])


def _limited(node: LogicalNode, limit: int) -> LogicalNode:
    if isinstance(node, LogicalProject):
        return with_inputs(node, [_limited(node.input, limit)])
    if isinstance(node, LogicalTableScan) and not node.filters:
        return replace(node, limit=limit)
    return node
