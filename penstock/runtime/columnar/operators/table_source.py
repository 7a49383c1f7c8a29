"""Reads the splits of a table and emits its watermarks: WATERMARK FOR, one watermark per split."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.errors import PenstockError, RecordError
from penstock.graph.operator_specs.columnar.common import column
from penstock.graph.operator_specs.columnar.sources import TableSourceSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.operators.conversions import columns_of_rows
from penstock.runtime.columnar.times import millis
from penstock.runtime.columnar.user_functions import open_functions
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.connectors.source import SourceOperator
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.time.timestamp_assignment import Assignment, EmitBatch, EmitWatermark
from penstock.runtime.time.timestamp_check import TimestampCheck
from penstock.runtime.user_code import close_functions
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
)

_TIME = "$time"
_WATERMARK = "$watermark"


class TableSourceOperator(SourceOperator):
    """A source whose splits have watermarks that are computed of their columns."""

    def open(self, context: OperatorContext) -> None:
        """Compile the expressions, open the functions that they call, create the reader."""
        spec: TableSourceSpec = self.spec
        self._functions = open_functions([spec.rowtime, spec.watermark], context.runtime_context)
        super().open(context)
        self._times = RowTimes(spec, self)

    def close(self) -> None:
        """Close the user functions and the reader."""
        close_functions(self._functions)
        super().close()

    def new_assignment(self) -> Assignment:
        """Return the time of one split, from its columns."""
        return ColumnAssignment(
            self._times,
            interval_ms=self.context.auto_watermark_interval,
            emits=not self.context.batch_mode,
        )


class RowTimes:
    """Computes timestamps and watermarks of a table's rows, for all splits of a subtask."""

    def __init__(self, spec: TableSourceSpec, operator: TableSourceOperator) -> None:
        # Without an interval there are no periodic watermarks: each row that raises the watermark is followed by it.
        self.gap = spec.gap or (None if operator.context.auto_watermark_interval else 1)
        self._rows = spec.rows
        self._spec = spec
        self._operator = operator
        rowtime, self._watermark = spec.rowtime, compile_expression(spec.watermark, spec.zone)
        # A column's NULLs are counted already; of a computed time they are those of `t` or `t - INTERVAL ...`, which is computed anyway.
        self._column = column(rowtime.index) if isinstance(rowtime, InputRef) else None
        self._rowtime: pl.Expr | None = None
        if self._column is None and not _is_null_with(spec.watermark, rowtime):
            self._rowtime = compile_expression(rowtime, spec.zone)

    def columns_of(self, batch: Any) -> ColumnBatch:
        """Return a batch of records as columns."""
        if self._rows is None:
            assert type(batch) is ColumnBatch
            return batch
        return columns_of_rows(self._rows, batch, self._operator.context.operator_name)

    def of_each(self, frame: pl.DataFrame) -> pl.Series:
        """Return the watermark of each row, or a single one if it is constant; reject rows with a NULL time attribute."""
        try:
            made = frame.select(self._watermark.alias(_WATERMARK)).to_series()
            if self._column is not None:
                nulls = frame[self._column].null_count()
            elif self._rowtime is not None:
                nulls = frame.select(self._rowtime.alias(_TIME)).to_series().null_count()
            else:
                nulls = made.null_count()
        except PenstockError:
            raise
        except Exception as error:
            raise self._operator.guard(error) from error
        if not self._operator.timestamp_check.done:
            self._look_at_times(frame)
        if nulls:
            raise RecordError(
                "NULL in the rowtime attribute of a row",
                detail=f"in operator '{self._operator.context.operator_name}'",
                hint="declare a computed column with COALESCE(...) and define the watermark on it",
            )
        return made

    def _look_at_times(self, frame: pl.DataFrame) -> None:
        """Check whether the first timestamps are plausible milliseconds."""
        rowtime = compile_expression(self._spec.rowtime, self._spec.zone)
        check_time_attribute(
            self._operator.timestamp_check, frame.select(rowtime.alias(_TIME)).to_series()
        )


def check_time_attribute(check: TimestampCheck, times: pl.Series) -> None:
    """Look at the time attribute of a batch."""
    known = millis(times).drop_nulls()
    if len(known):
        check.look_at(int(known.min()), int(known.max()), len(known))  # type: ignore[arg-type]


def _is_null_with(watermark: Rex, rowtime: Rex) -> bool:
    """Whether the watermark is NULL where the time is, and nowhere else."""
    if watermark == rowtime:
        return True
    return (
        isinstance(watermark, Call)
        and watermark.function in {"-", "+"}
        and watermark.operands[0] == rowtime
        and all(isinstance(each, Literal) and each.value for each in watermark.operands[1:])
    )


class ColumnAssignment:
    """The time of one split of a table.

    Periodic emission takes the highest watermark of a batch: no step per row. A batch that moves time on by more than the interval is followed by a
    watermark at once, as behind Flink's WatermarkAssigner, so that reading a backlog does not fill the state. With a gap, a batch is emitted in parts,
    each up to a row that brings a new watermark.
    """

    idle = False

    def __init__(self, times: RowTimes, *, interval_ms: float, emits: bool) -> None:
        self._times = times
        self._interval_ms = interval_ms
        self._emits = emits
        self._highest = MIN_WATERMARK
        self._announced = MIN_WATERMARK  # of `_highest`, what was emitted at once
        self._rows = 0  # since the last gap was full

    @property
    def watermark(self) -> int:
        """The watermark as of the last batch, or of the last row that filled a gap."""
        if self._times.gap is not None:
            return self._announced
        return self._highest

    def on_batch(self, batch: object, emit: EmitBatch, emit_watermark: EmitWatermark) -> None:
        """Emit the rows as columns, and update the watermark of the split."""
        columns = self._times.columns_of(batch)
        reached = self._times.of_each(columns.frame)
        if self._times.gap is not None and self._emits:
            self._in_parts(columns, reached, emit, emit_watermark)
            return
        emit(columns)
        if not self._emits:
            return
        highest: Any = millis(reached).max()
        if highest is not None and highest > self._highest:
            self._highest = highest
            if highest - self._announced > self._interval_ms:
                self._announced = highest
                emit_watermark(highest)

    def _in_parts(
        self,
        columns: ColumnBatch,
        watermarks: pl.Series,
        emit: EmitBatch,
        emit_watermark: EmitWatermark,
    ) -> None:
        gap, count = self._times.gap, len(columns)
        assert gap is not None
        each = millis(watermarks).fill_null(MIN_WATERMARK).to_numpy()
        reached = np.maximum.accumulate(np.broadcast_to(each, count))
        full = np.arange(gap - self._rows - 1, count, gap)  # the rows that fill a gap
        begin = 0
        for row, highest in zip(full.tolist(), reached[full].tolist(), strict=True):
            watermark = max(highest, self._highest)
            if watermark > self._announced:
                emit(columns.slice(begin, row + 1))
                begin = row + 1
                self._announced = watermark
                emit_watermark(watermark)
        if begin < count:
            emit(columns.slice(begin) if begin else columns)
        self._rows = (self._rows + count) % gap
        self._highest = max(self._highest, int(reached[-1]))

    def on_periodic(self) -> int:
        """Return the watermark: it does not depend on when this is called."""
        return self.watermark

    def snapshot(self) -> tuple[int, int, int]:
        """Return the state of the split for a checkpoint."""
        return self._highest, self._announced, self._rows

    def restore(self, snapshot: Any) -> None:
        """Restore a snapshot, also one taken while the table had no watermark or another strategy."""
        if snapshot is not None:
            highest, announced, rows = snapshot
            self._highest = MIN_WATERMARK if highest is None else highest
            self._announced = max(announced, MIN_WATERMARK)
            self._rows = rows % (self._times.gap or 1) if isinstance(rows, int) else 0
