"""Columns of the rows of a source or a stream."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.sql.physical.nodes import PhysicalOperator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalRowsToColumns(PhysicalOperator):
    """Makes columns of rows."""

    passes_changes = True

    spec: RowsToColumnsSpec
