"""Several INSERTs of one job into one table of files become one: two sinks would delete each other's unfinished files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.sql.logical.nodes import (
    Field,
    LogicalNode,
    LogicalSetOperation,
    LogicalSink,
)
from penstock.sql.types import DataType

_FILES = "filesystem"


def unite_writes(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Return plans with INSERTs into the same files united by UNION ALL, each in the place of the first.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(
    ...     unite_writes,
    ...     "INSERT INTO prices SELECT price FROM bids",
    ...     "INSERT INTO prices SELECT bidder FROM bids",
    ... )
      LogicalSink(table=[[c, d, prices]], fields=[price])
      +- LogicalProject(price=[price])
         +- LogicalTableScan(table=[[c, d, bids]])
      LogicalSink(table=[[c, d, prices]], fields=[price])
      +- LogicalProject(price=[bidder])
         +- LogicalProject(bidder=[bidder])
            +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalSink(table=[[c, d, prices]], fields=[price])
      +- LogicalUnion(all=[true])
         :- LogicalProject(price=[price])
         :  +- LogicalTableScan(table=[[c, d, bids]])
         +- LogicalProject(price=[bidder])
            +- LogicalProject(bidder=[bidder])
               +- LogicalTableScan(table=[[c, d, bids]])
    """
    groups: dict[Any, list[LogicalNode]] = {}
    for at, root in enumerate(roots):
        groups.setdefault(_target(root) or at, []).append(root)
    return [_united(each) for each in groups.values()]


def _target(root: LogicalNode) -> tuple[Any, ...] | None:
    """Return the key by which INSERTs are merged; None if a plan is not merged."""
    if not isinstance(root, LogicalSink) or root.overwrite:
        return None
    options = {**root.table.options, **root.options}
    if options.get("connector") != _FILES:
        return None
    return (root.table.path, *sorted(options.items()), *sorted(map(str, root.partition.items())))


def _united(roots: list[LogicalNode]) -> LogicalNode:
    first, *others = roots
    if not others:
        return first
    assert isinstance(first, LogicalSink)
    parts = tuple(each.input for each in roots if isinstance(each, LogicalSink))
    schema = tuple(
        Field(columns[0].name, _nullable_if_any([each.type for each in columns]))
        for columns in zip(*(each.schema for each in parts), strict=True)
    )
    return replace(
        first, input=LogicalSetOperation(schema=schema, parts=parts, kind="UNION", all=True)
    )


def _nullable_if_any(types: list[DataType]) -> DataType:
    return types[0].nullable() if any(each.is_nullable for each in types) else types[0]
