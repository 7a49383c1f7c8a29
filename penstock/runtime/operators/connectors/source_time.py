"""The event time of a source subtask: its watermark, combined from those of its splits, and whether it is idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.errors import PenstockError
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.connectors.source_splits import SourceSplits
from penstock.runtime.operators.connectors.split_schedulers import SplitReading, SplitScheduler
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.time.watermark_valve import combine


class SourceTime:
    """The watermark and the status of a source subtask.

    The watermark is the minimum over its splits that are neither finished nor idle, from their assignment on: one without
    records holds it back; in a bounded source that assigns splits on demand, so do those that are not assigned yet. If all
    are idle, it is the maximum.
    """

    def __init__(
        self,
        context: OperatorContext,
        strategy: WatermarkStrategy,
        splits: SourceSplits,
        guard: Callable[[Exception], PenstockError],
    ) -> None:
        #: Decides which splits count. The execution mode sets it before the first batch; in epoch mode every epoch has one.
        self.scheduler: SplitScheduler
        #: The last watermark that was emitted; it never decreases, across restarts either.
        self.emitted: int = context.operator_state.get(EMITTED, MIN_WATERMARK)
        #: The last status that was emitted.
        self.idle: bool = context.operator_state.get(IDLE, False)
        self._context = context
        self._strategy = strategy
        self._splits = splits
        self._guard = guard
        self._output = context.output
        #: Batch mode emits no watermark but the last one.
        self._emits = not context.batch_mode

    def combined(self, *, periodic: bool) -> int | None:
        """Return the combined watermark of all splits, or None if there are none, or some are not assigned yet."""
        if not self._splits.all_assigned:
            return None
        times: list[tuple[int, bool]] = []
        for split in self._splits.readings:
            if not self.scheduler.counts(split):
                continue
            idle = split.idle and not split.finished
            if periodic and not idle:
                try:
                    split.assignment.on_periodic()
                except Exception as error:
                    raise self._guard(error) from error
            times.append((split.assignment.watermark, idle))
        return combine(times)

    # Watermarks.

    def emit(self, watermark: int | None) -> None:
        """Emit a watermark, if it is higher than the last one."""
        if watermark is not None and watermark > self.emitted and self._emits:
            self.emitted = watermark
            self._output.emit_watermark(watermark)

    def emit_periodic(self) -> None:
        """Emit the combined watermark, after a periodic call of the splits' generators."""
        self.emit(self.combined(periodic=True))

    def on_event_watermark(self, watermark: int) -> None:
        """Emit the combined watermark: the generator of a split has emitted one for a record."""
        if not self.scheduler.time_stands:
            self.emit(self.combined(periodic=False))

    def emit_end(self) -> None:
        """Emit the final watermark, once."""
        if self.emitted != MAX_WATERMARK:
            self.set_idle(idle=False)
            self.emitted = MAX_WATERMARK
            self._output.emit_watermark(MAX_WATERMARK)

    # Idleness.

    def set_idle(self, *, idle: bool) -> None:
        """Emit the status, if it has changed."""
        if idle != self.idle:
            self.idle = idle
            self._output.emit_status(idle)

    def on_assignment(self, *, idle: bool) -> None:
        """Adopt the status that an assignment brings."""
        if idle:
            self.set_idle(idle=True)
        elif any(not split.idle for split in self._splits.readings):
            self.set_idle(idle=False)

    def idle_deadline(self, timeout: int) -> int | None:
        """Return when a source without input becomes idle; None if it is idle, or has input."""
        if self.idle or any(not split.finished for split in self._splits.readings):
            return None
        return self._splits.vacant_since_ms + timeout

    def check(self) -> None:
        """Emit a periodic watermark if it is due, and mark idle splits: before a barrier, or at any time."""
        self._mark_idle_splits()
        self.emit_periodic()
        unfinished = self._splits.unfinished()
        if unfinished and all(split.idle for split in unfinished):
            # The watermark advances to the highest among them, also past those that have ended before this barrier.
            self.emit_highest(unfinished)
            self.set_idle(idle=True)
        if not (unfinished or self._splits.bounded) and self.scheduler.ends_at_barrier:
            # All records of files that ended in this epoch are before its barrier: none of them waits for another one.
            self.emit_highest(self._splits.readings)
        if not unfinished:
            self._check_vacancy()

    def emit_highest(self, splits: Sequence[SplitReading]) -> None:
        """Emit the highest watermark of these splits: nothing waits for any of them."""
        self.emit(combine((split.assignment.watermark, True) for split in splits))

    def _check_vacancy(self) -> None:
        """Become idle if there was no input for long: files may come, but the watermark need not wait for them."""
        timeout = self._strategy.idle_timeout_ms
        if timeout is None:
            return
        now, splits = self._context.clock(), self._splits
        splits.vacant_since_ms = min(splits.vacant_since_ms, now)  # the clock was set back
        if now - splits.vacant_since_ms >= timeout:
            self.set_idle(idle=True)

    def _mark_idle_splits(self) -> None:
        timeout = self._strategy.idle_timeout_ms
        now, decisions = self._context.clock(), self._context.decisions
        for split in self._splits.readings:
            split.active_ms = min(split.active_ms, now)  # the clock was set back
            silent = timeout is not None and now - split.active_ms >= timeout
            if silent or split.assignment.idle:
                # Which splits were empty is not part of a checkpoint, so a replay that begins there does not know it.
                place = f"idle {split.progress.split.split_id}"
                split.idle = split.idle or decisions.due(place, self.scheduler.may_be_idle(split))

    # Views.

    def alignment_watermark(self) -> int | None:
        """Return the watermark for watermark alignment; None if it does not count: idle, at the end, without splits."""
        if self._splits.finished or self.idle:
            return None
        return combine(
            (split.assignment.watermark, False)
            for split in self._splits.readings
            if self.scheduler.counts(split) and not split.idle
        )

    def split_times(self) -> list[tuple[str, int, bool, bool]]:
        """Return the id and watermark of each split, whether it is idle, and whether it counts. Thread-safe."""
        return [
            (
                split.progress.split.split_id,
                split.assignment.watermark,
                split.idle,
                self.scheduler.counts(split) and not split.idle,
            )
            for split in list(self._splits.readings)
            if not split.finished
        ]

    def store(self) -> None:
        """Write the watermark and the status to the operator's state, for a checkpoint."""
        self._context.operator_state.put(EMITTED, self.emitted)
        self._context.operator_state.put(IDLE, self.idle)
