"""Reads the splits of a table and emits its watermarks: WATERMARK FOR, one watermark per split."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.columnar.batch import ColumnBatch
from penstock.columnar.expressions import compile_expression
from penstock.columnar.operators.calc import ONCE, projected
from penstock.columnar.operators.conversions import columns_of_rows
from penstock.columnar.specs.sources import TableSourceSpec
from penstock.columnar.times import millis
from penstock.columnar.user_functions import open_functions
from penstock.errors import PenstockError, RecordError
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.source import SourceOperator
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.time.assigning import Assignment, EmitBatch, EmitWatermark
from penstock.runtime.user_code import close_functions
from penstock.table.expressions.nodes import InputRef

_NULLS = "$nulls"
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
        """Close the users' functions and the reader."""
        close_functions(self._functions)
        super().close()

    def _new_assignment(self) -> Assignment:
        return ColumnAssignment(
            self._times, periodic=self._interval > 0, emits=not self.context.batch_mode
        )


class RowTimes:
    """Computes what a table's rows say about time, for all splits of a subtask."""

    def __init__(self, spec: TableSourceSpec, operator: TableSourceOperator) -> None:
        self.gap = spec.gap
        self._rows = spec.rows
        self._operator = operator
        rowtime = compile_expression(spec.rowtime, spec.zone)
        watermark = compile_expression(spec.watermark, spec.zone)
        self._nulls = [rowtime.null_count().alias(_NULLS)]
        self._highest = [*self._nulls, watermark.max().alias(_WATERMARK)]
        self._each = [rowtime.is_null().alias(_NULLS), watermark.alias(_WATERMARK)]
        # What the watermark has in common with a computed time is computed once.
        self._computed = not isinstance(spec.rowtime, InputRef)

    def columns_of(self, batch: Any) -> ColumnBatch:
        """Return a batch of records as columns."""
        if self._rows is None:
            assert type(batch) is ColumnBatch
            return batch
        return columns_of_rows(self._rows, batch, self._operator.context.operator_name)

    def check(self, frame: pl.DataFrame) -> None:
        """Refuse rows without a time."""
        self._refuse(self._select(frame, self._nulls)[_NULLS].item())

    def highest(self, frame: pl.DataFrame) -> int | None:
        """Return the highest watermark of some rows; None if all are NULL."""
        made = self._select(frame, self._highest)
        self._refuse(made[_NULLS].item())
        highest: int | None = millis(made[_WATERMARK]).item()
        return highest

    def of_each(self, frame: pl.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the watermark of each row, the lowest one where it is NULL."""
        try:
            made = projected(frame, self._each)
        except PenstockError:
            raise
        except Exception as error:
            raise self._operator.guard(error) from error
        self._refuse(made[_NULLS].any())
        return millis(made[_WATERMARK]).fill_null(MIN_WATERMARK).to_numpy()

    def _select(self, frame: pl.DataFrame, wanted: list[pl.Expr]) -> pl.DataFrame:
        try:
            if self._computed:
                return frame.lazy().select(wanted).collect(optimizations=ONCE)
            return frame.select(wanted)
        except PenstockError:
            raise
        except Exception as error:
            raise self._operator.guard(error) from error

    def _refuse(self, nulls: Any) -> None:
        if nulls:
            raise RecordError(
                "the time attribute of a row is NULL",
                detail=f"in operator '{self._operator.context.operator_name}'",
                hint="declare a computed column with a default, COALESCE(...), and the watermark for that",
            )


class ColumnAssignment:
    """The time of one split of a table.

    Periodic emission takes the highest watermark of a batch: no step per row. With a gap, a batch is emitted in parts, each up to a row that
    brings a new watermark.
    """

    idle = False

    def __init__(self, times: RowTimes, *, periodic: bool, emits: bool) -> None:
        self._times = times
        self._periodic = periodic
        self._emits = emits
        self._highest = MIN_WATERMARK
        self._announced = MIN_WATERMARK  # of `_highest`, what has been emitted by gaps
        self._rows = 0  # since the last gap was full

    @property
    def watermark(self) -> int:
        """The watermark as of the last batch, or of the last row that filled a gap."""
        if self._times.gap is not None:
            return self._announced
        return self._highest if self._periodic else MIN_WATERMARK

    def on_batch(self, batch: Any, emit: EmitBatch, emit_watermark: EmitWatermark) -> None:
        """Emit the rows as columns, and take note of the time that they bring."""
        columns = self._times.columns_of(batch)
        if not self._emits:
            self._times.check(columns.frame)
            emit(columns)
        elif self._times.gap is None:
            highest = self._times.highest(columns.frame)
            if highest is not None and highest > self._highest:
                self._highest = highest
            emit(columns)
        else:
            self._in_parts(columns, self._times.gap, emit, emit_watermark)

    def _in_parts(
        self, columns: ColumnBatch, gap: int, emit: EmitBatch, emit_watermark: EmitWatermark
    ) -> None:
        count = len(columns)
        reached = np.maximum.accumulate(self._times.of_each(columns.frame))
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
        """Return the watermark: nothing depends on being asked."""
        return self.watermark

    def snapshot(self) -> tuple[int, int, int]:
        """Return what a checkpoint must remember."""
        return self._highest, self._announced, self._rows

    def restore(self, snapshot: Any) -> None:
        """Go on from a snapshot, also from one of the split while its table had no watermark or another strategy."""
        if snapshot is not None:
            highest, announced, rows = snapshot
            self._highest = MIN_WATERMARK if highest is None else highest
            self._announced = max(announced, MIN_WATERMARK)
            self._rows = rows % (self._times.gap or 1) if isinstance(rows, int) else 0
