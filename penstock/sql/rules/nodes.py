"""Logical nodes that no query has: rules make them of others, because they are run better."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.expr.nodes import Rex
from penstock.sql.logical.nodes import LogicalSingleInput


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalRank(LogicalSingleInput):
    """The rows with rank `start` to `end` of each partition; `end_column`: the end is the value of that column. Output: all columns, then the rank if `with_rank`."""

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    function: str
    start: int = 1
    end: int | None = None
    end_column: int | None = None
    with_rank: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalExpand(LogicalSingleInput):
    """Each row once per projection."""

    projections: tuple[tuple[Rex, ...], ...]
