"""assign_timestamps_and_watermarks: one generator per subtask."""

from __future__ import annotations

import time
from typing import Any

from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK, RowBatch
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.time.timestamp_assignment import TimestampAssignment
from penstock.runtime.time.timestamp_check import TimestampCheck
from penstock.runtime.user_code import RecordFailedError


class TimestampsAndWatermarksOperator(StreamOperator):
    """Assigns timestamps and emits its own watermarks; of the upstream watermarks only MAX counts."""

    def open(self, context: OperatorContext) -> None:
        """Restore the generator."""
        super().open(context)
        strategy = self.spec.watermark_strategy
        self._interval = context.auto_watermark_interval / 1000
        self._assignment = TimestampAssignment(
            strategy,
            periodic=self._interval > 0,
            check=TimestampCheck(context.runtime_context.get_metrics_group()),
        )
        self._idle_timeout = strategy.idle_timeout_ms
        restored = context.operator_state.get("assignment")
        self._active_ms = context.clock()
        if restored is not None:
            generator, self._active_ms = restored
            self._assignment.restore(generator)
        self._emitted: int = context.operator_state.get(EMITTED, MIN_WATERMARK)
        self._idle: bool = context.operator_state.get(IDLE, False)
        self._next_emission = time.monotonic() + self._interval
        self._periodic_kind = self._interval > 0 and strategy.emits_watermarks
        self._next_check_ms = context.clock() + context.auto_watermark_interval

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Assign timestamps, emit the records, and periodically emit the watermark."""
        self._active_ms = self.context.clock()
        self._set_idle(idle=False)
        try:
            self._assignment.on_batch(batch, self.output.emit, self._emit)
        except RecordFailedError as failed:
            raise self.guard(failed.cause, failed.record, known=True) from failed.cause
        if self.context.pipelined:
            self.advance_processing_time(self._active_ms)
            return
        due = time.monotonic() >= self._next_emission
        if self.context.decisions.due(self.context.operator_id, due):
            self._periodic()

    def _periodic(self) -> None:
        self._next_emission = time.monotonic() + self._interval
        if self.context.batch_mode:
            return
        try:
            watermark = self._assignment.on_periodic()
        except Exception as error:
            raise self.guard(error) from error
        self._emit(watermark)

    def _emit(self, watermark: int) -> None:
        if watermark > self._emitted and not self.context.batch_mode:
            self._set_idle(idle=False)
            self._emitted = watermark
            self.output.emit_watermark(watermark)

    def _set_idle(self, *, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_status(idle)

    def process_watermark(self, watermark: int) -> None:
        """Forward only the end of input."""
        if watermark == MAX_WATERMARK:
            self._set_idle(idle=False)  # a watermark of an idle channel is ignored
            self._emitted = watermark
            self.output.emit_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Ignore the upstream status: this operator determines its own."""

    def next_wakeup(self) -> int | None:
        """Return when the input becomes idle; in pipelined mode, when the next watermark is due if that comes first."""
        if self._emitted == MAX_WATERMARK:
            return None
        moments = [self._next_check_ms] if self.context.pipelined and self._periodic_kind else []
        if self._idle_timeout is not None and not self._idle:
            moments.append(self._active_ms + self._idle_timeout)
        return min(moments, default=None)

    def advance_processing_time(self, now: int) -> None:
        """Emit periodic watermarks and check for idleness in pipelined mode: in an epoch the barrier does it."""
        if not self.context.pipelined or self._emitted == MAX_WATERMARK:
            return
        interval = self.context.auto_watermark_interval
        if self._next_check_ms - now > interval:  # the clock was set back
            self._next_check_ms = now
            self._active_ms = min(self._active_ms, now)
        due = self.next_wakeup()
        if due is not None and self.context.decisions.due(self.context.operator_id, due <= now):
            self._next_check_ms = now + interval
            self._check_time()

    def _check_time(self) -> None:
        quiet = (
            self._idle_timeout is not None
            and self.context.clock() - self._active_ms >= self._idle_timeout
        )
        if not (quiet and self._idle):
            self._periodic()
        if quiet or self._assignment.idle:
            self._set_idle(idle=True)

    def barrier(self) -> list[Any]:
        """Emit the watermark, check for idleness, and store both."""
        if self._emitted != MAX_WATERMARK:
            self._check_time()
        state = self.context.operator_state
        state.put("assignment", (self._assignment.snapshot(), self._active_ms))
        state.put(EMITTED, self._emitted)
        state.put(IDLE, self._idle)
        return []
