"""assign_timestamps_and_watermarks: one generator per subtask."""

from __future__ import annotations

import time
from typing import Any, Protocol

from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.hooks import UsesProcessingTime
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK, RowBatch
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.time.timestamp_assignment import TimestampAssignment
from penstock.runtime.time.timestamp_check import TimestampCheck
from penstock.runtime.user_code import RecordFailedError


class _EmissionMode(Protocol):
    """When an execution mode emits periodic watermarks and looks for idleness, besides at the barrier."""

    def on_batch(self, now: int) -> None:
        """A batch was emitted, at this clock reading."""

    def emitted(self) -> None:
        """A periodic watermark was emitted."""

    def advance(self, now: int) -> None:
        """Processing time has advanced."""

    def next_wakeup(self) -> int | None:
        """Return when `advance` is to be called, besides when the input becomes idle."""


class _EpochEmission:
    """Epoch mode: by the time spent on batches. Idleness waits for the barrier, which ends a short span of time."""

    def __init__(self, operator: TimestampsAndWatermarksOperator) -> None:
        self._operator = operator
        self._interval_s = operator.context.auto_watermark_interval / 1000
        self._next_emission = time.monotonic() + self._interval_s

    def on_batch(self, now: int) -> None:
        """Emit the watermark if the last emission is long ago."""
        context = self._operator.context
        due = time.monotonic() >= self._next_emission
        if context.decisions.due(context.operator_id, due):
            self._operator.emit_periodic()

    def emitted(self) -> None:
        """Wait for a whole interval again."""
        self._next_emission = time.monotonic() + self._interval_s

    def advance(self, now: int) -> None:
        """Do nothing: the barrier does it."""

    def next_wakeup(self) -> int | None:
        """Return None."""
        return None


class _PipelinedEmission:
    """Pipelined mode: by the clock, with or without records."""

    def __init__(self, operator: TimestampsAndWatermarksOperator, *, periodic: bool) -> None:
        self._operator = operator
        self._interval = operator.context.auto_watermark_interval
        self._periodic = periodic
        #: When the next periodic watermark is due, in epoch milliseconds.
        self._next_check_ms = operator.context.clock() + self._interval

    def on_batch(self, now: int) -> None:
        """Do what is due: a batch takes longer than other calls."""
        self.advance(now)

    def emitted(self) -> None:
        """Do nothing: `advance` has planned the next one."""

    def advance(self, now: int) -> None:
        """Emit the watermark, and check for idleness, if either is due."""
        operator, context = self._operator, self._operator.context
        if operator.ended:
            return
        if self._next_check_ms - now > self._interval:  # the clock was set back
            self._next_check_ms = now
            operator.clock_was_set_back(now)
        due = operator.next_wakeup()
        if due is not None and context.decisions.due(context.operator_id, due <= now):
            self._next_check_ms = now + self._interval
            operator.check_time()

    def next_wakeup(self) -> int | None:
        """Return when the next periodic watermark is due."""
        return self._next_check_ms if self._periodic else None


class TimestampsAndWatermarksOperator(StreamOperator, UsesProcessingTime):
    """Assigns timestamps and emits its own watermarks; of the upstream watermarks only MAX counts."""

    def open(self, context: OperatorContext) -> None:
        """Restore the generator."""
        super().open(context)
        strategy = self.spec.watermark_strategy
        periodic = context.auto_watermark_interval > 0
        self._assignment = TimestampAssignment(
            strategy,
            periodic=periodic,
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
        self._mode: _EmissionMode
        if context.pipelined:
            self._mode = _PipelinedEmission(self, periodic=periodic and strategy.emits_watermarks)
        else:
            self._mode = _EpochEmission(self)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Assign timestamps, emit the records, and periodically emit the watermark."""
        self._active_ms = self.context.clock()
        self._set_idle(idle=False)
        try:
            self._assignment.on_batch(batch, self.output.emit, self._emit)
        except RecordFailedError as failed:
            raise self.guard(failed.cause, failed.record, known=True) from failed.cause
        self._mode.on_batch(self._active_ms)

    def emit_periodic(self) -> None:
        """Emit the watermark of the generator."""
        self._mode.emitted()
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

    @property
    def ended(self) -> bool:
        """Whether the final watermark was emitted."""
        return self._emitted == MAX_WATERMARK

    def next_wakeup(self) -> int | None:
        """Return when the input becomes idle; in pipelined mode, when the next watermark is due if that comes first."""
        if self.ended:
            return None
        due = self._mode.next_wakeup()
        if self._idle_timeout is None or self._idle:
            return due
        idle: int = self._active_ms + self._idle_timeout
        return idle if due is None else min(due, idle)

    def advance_processing_time(self, now: int) -> None:
        """Emit periodic watermarks and check for idleness in pipelined mode: in an epoch the barrier does it."""
        self._mode.advance(now)

    def clock_was_set_back(self, now: int) -> None:
        """Count the time without records from now on, if it would begin later."""
        self._active_ms = min(self._active_ms, now)

    def check_time(self) -> None:
        """Emit the watermark, and check for idleness."""
        quiet = (
            self._idle_timeout is not None
            and self.context.clock() - self._active_ms >= self._idle_timeout
        )
        if not (quiet and self._idle):
            self.emit_periodic()
        if quiet or self._assignment.idle:
            self._set_idle(idle=True)

    def barrier(self) -> list[Any]:
        """Emit the watermark, check for idleness, and store both."""
        if not self.ended:
            self.check_time()
        state = self.context.operator_state
        state.put("assignment", (self._assignment.snapshot(), self._active_ms))
        state.put(EMITTED, self._emitted)
        state.put(IDLE, self._idle)
        return []
