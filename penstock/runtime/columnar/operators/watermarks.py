"""WATERMARK FOR as an operator: watermarks computed from the rows of a table."""

from __future__ import annotations

from typing import Any

from penstock.errors import RecordError
from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.operators.table_source import check_time_attribute
from penstock.runtime.columnar.times import millis
from penstock.runtime.columnar.watermark_cuts import watermark_cuts
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.time.timestamp_check import TimestampCheck


class WatermarkOperator(StreamOperator, UsesProcessingTime):
    """Emits the highest value of the watermark expression after each batch; upstream watermarks are ignored, except MAX.

    With an auto-watermark interval of 0 a watermark is emitted after each row that raises it. In BATCH mode there is none before the end.
    """

    def open(self, context: OperatorContext) -> None:
        """Compile the expression; restore the last emitted watermark."""
        super().open(context)
        spec = self.spec
        self._expression = compile_expression(spec.expression, spec.zone).alias("$watermark")
        self._column = column(spec.rowtime)
        self._emitted: int = context.operator_state.get(EMITTED, MIN_WATERMARK)
        self._idle: bool = context.operator_state.get(IDLE, False)
        self._active_ms = context.clock()
        self._check = TimestampCheck(context.runtime_context.get_metrics_group())

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Forward the rows, then the watermark that they advance."""
        frame = batch.frame
        if not frame.height:
            return
        if frame[self._column].null_count():
            raise self._without_time()
        if not self._check.done:
            check_time_attribute(self._check, frame[self._column])
        self._active_ms = self.context.clock()
        self._set_idle(idle=False)
        if not self.context.batch_mode and not self.context.auto_watermark_interval:
            self._emit_by_row(batch)
            return
        self.output.emit(batch)
        if self.context.batch_mode:
            return
        highest: Any = millis(frame.select(self._expression.max()).to_series()).item()
        if highest is not None:
            self._raise_watermark(highest)

    def _emit_by_row(self, batch: ColumnBatch) -> None:
        """Emit the watermark after each row that raises it."""
        watermarks = millis(batch.frame.select(self._expression).to_series())
        start = 0
        for end, watermark in watermark_cuts(
            watermarks.fill_null(MIN_WATERMARK).to_numpy(), self._emitted
        ):
            self.output.emit(batch.slice(start, end))
            self._raise_watermark(watermark)
            start = end
        if start < len(batch):
            self.output.emit(batch.slice(start, len(batch)) if start else batch)

    def _raise_watermark(self, watermark: int) -> None:
        if watermark > self._emitted:
            self._emitted = watermark
            self.output.emit_watermark(watermark)

    def _without_time(self) -> RecordError:
        return RecordError(
            "NULL in the rowtime attribute of a row",
            detail=f"in operator '{self.context.operator_name}', column {self.spec.rowtime}",
            hint="filter such rows out before the watermark is defined, or set a default with COALESCE",
        )

    def _set_idle(self, *, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_status(idle)

    def process_watermark(self, watermark: int) -> None:
        """Pass on the end of input only."""
        if watermark == MAX_WATERMARK:
            self._set_idle(idle=False)  # a watermark of an idle channel is ignored
            self._emitted = watermark
            self.output.emit_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Forward the status unless this operator detects idleness itself."""
        if not self.spec.idle_timeout_ms:
            self._set_idle(idle=idle)

    def next_wakeup(self) -> int | None:
        """Return when the input will count as idle."""
        timeout: int = self.spec.idle_timeout_ms
        if not timeout or self._idle or self._emitted == MAX_WATERMARK:
            return None
        return self._active_ms + timeout

    def advance_processing_time(self, now: int) -> None:
        """Check for idleness in pipelined mode; in epoch mode `barrier` does it."""
        if self.context.pipelined:
            self._check_idle(now)

    def _check_idle(self, now: int) -> None:
        self._active_ms = min(self._active_ms, now)  # a clock that was set back
        due = self.next_wakeup()
        if due is not None and self.context.decisions.due(self.context.operator_id, due <= now):
            self._set_idle(idle=True)

    def barrier(self) -> list[Any]:
        """Check for idleness, remember the watermark."""
        self._check_idle(self.context.clock())
        self.context.operator_state.put(EMITTED, self._emitted)
        self.context.operator_state.put(IDLE, self._idle)
        return []
