"""Sources of tables, with their watermarks."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.graph.operator_specs import OutputTimestamps, SourceSpec
from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.sql.expr.nodes import Rex


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSourceSpec(SourceSpec):
    """Reads the splits of a table that has a watermark: the highest value of `watermark` so far, one per split.

    `rowtime` must not be NULL. Both are computed of the columns that are read. `rows`: how columns are made of records, if the source gives
    Rows. `gap`: a watermark is emitted after every `gap` rows of a split; None: it is emitted periodically. `watermark_strategy` says when a split is
    idle and which sources it waits for.
    """

    operator = "penstock.runtime.columnar.operators.table_source:TableSourceOperator"
    preloaded = False

    rowtime: Rex
    watermark: Rex
    rows: RowsToColumnsSpec | None = None
    gap: int | None = None
    zone: str = "UTC"

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """That of the column `rowtime`, if rows become records with it."""
        return OutputTimestamps.SOME
