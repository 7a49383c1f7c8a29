"""WATERMARK FOR moves into the scan of its table, so that each split has a watermark of its own.

Before: `AssignWatermark(t - 5 s)` of `Project(id, TO_TIMESTAMP(x) AS t)` of `Scan(id, x)`.
After: the same projection of `Scan(id, x, watermark = TO_TIMESTAMP(x) - 5 s)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.sql.expr.nodes import Call, InputRef, Rex
from penstock.sql.expr.rewriting import is_deterministic, remap
from penstock.sql.logical.nodes import (
    LogicalNode,
    LogicalProject,
    LogicalTableScan,
    LogicalWatermarkAssigner,
    ScanWatermark,
    Schema,
)
from penstock.sql.logical.tables import SOURCE_WATERMARK
from penstock.sql.logical.transform import transform, with_inputs


def push_down_watermarks(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Return a plan whose scans emit the watermarks of their tables.

    A watermark above anything else (a DataStream) stays where it is, and so does one of a column that has another value each time it is
    computed: the scan would go by other values than the rows have.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(push_down_watermarks, "SELECT page FROM visits")
      LogicalProject(page=[page])
      +- LogicalWatermarkAssigner(rowtime=[at], watermark=[(at - 5000:INTERVAL)])
         +- LogicalTableScan(table=[[c, d, visits]])
    becomes
      LogicalProject(page=[page])
      +- LogicalWatermarkAssigner(rowtime=[at], watermark=[(at - 5000:INTERVAL)], pushed=[true])
         +- LogicalTableScan(table=[[c, d, visits]], watermark=[(at - 5000:INTERVAL)])
    """
    return [transform(root, _pushed) for root in roots]


def _pushed(node: LogicalNode) -> LogicalNode:
    if not isinstance(node, LogicalWatermarkAssigner) or node.pushed:
        return node
    rowtime: Rex = InputRef(node.schema[node.rowtime].type, node.rowtime)
    of_source = isinstance(node.expression, Call) and node.expression.function == SOURCE_WATERMARK
    watermark = ScanWatermark(rowtime, None if of_source else node.expression)
    below = _scan_with(node.input, watermark)
    return node if below is None else replace(node, input=below, pushed=True)


def _scan_with(node: LogicalNode, watermark: ScanWatermark) -> LogicalNode | None:
    """Return a scan, or projections of one, that emits the watermark; None if there is anything else."""
    if isinstance(node, LogicalTableScan):
        return replace(node, schema=_marked(node.schema, watermark), watermark=watermark)
    if not isinstance(node, LogicalProject):
        return None
    computed = ScanWatermark(
        _below(watermark.rowtime, node),
        None if watermark.expression is None else _below(watermark.expression, node),
    )
    if computed.expression is not None and not is_deterministic(computed.rowtime):
        return None
    below = _scan_with(node.input, computed)
    return None if below is None else with_inputs(node, [below])


def _marked(schema: Schema, watermark: ScanWatermark) -> Schema:
    """Return the columns of a scan; the time attribute is one of them unless it is computed."""
    if not isinstance(watermark.rowtime, InputRef):
        return schema
    place = watermark.rowtime.index
    return tuple(
        replace(field, time="rowtime") if at == place else field for at, field in enumerate(schema)
    )


def _below(rex: Rex, node: LogicalProject) -> Rex:
    return remap(rex, lambda ref: node.expressions[ref.index])
