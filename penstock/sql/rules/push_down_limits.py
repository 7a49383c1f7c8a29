"""LIMIT without order: a source need not give more rows than that."""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.logical.nodes import (
    LogicalNode,
    LogicalProject,
    LogicalSort,
    LogicalTableScan,
)
from penstock.sql.rules.trees import transform, with_inputs


def push_limits(node: LogicalNode) -> LogicalNode:
    """Tell scans how many rows are needed, everywhere in a plan."""
    return transform(node, _pushed)


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
