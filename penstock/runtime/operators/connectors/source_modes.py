"""How a source subtask reads its splits: one epoch at a time, or continuously in pipelined mode."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.source import SplitProgress
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.connectors.source_splits import SourceSplits
from penstock.runtime.operators.connectors.source_time import SourceTime
from penstock.runtime.operators.connectors.split_reader import SplitReader
from penstock.runtime.operators.connectors.split_schedulers import (
    EpochSplitScheduler,
    PipelinedSplitScheduler,
    SplitReading,
)
from penstock.runtime.records import MAX_WATERMARK

# Polling many empty splits is interrupted after this many seconds, so that other subtasks of the slot can run.
_LONGEST_POLL_S: Final = 0.002


class PollResult(enum.Enum):
    """The result of polling a source for a batch."""

    MORE = "there may be more at once"
    NOTHING_NOW = "there is nothing more for now"
    FINISHED = "there will never be more"


class MoreSplits(Protocol):
    """New splits for a source subtask: a SourceAssignment, or an Assign message."""

    @property
    def splits(self) -> Sequence[SplitProgress]:
        """More splits to read."""

    @property
    def no_more_splits(self) -> bool:
        """Whether these are the last ones."""

    @property
    def idle(self) -> bool:
        """Whether this subtask has no splits while others have some."""


@dataclass(frozen=True, slots=True)
class SourceParts:
    """The parts of a source that both execution modes use."""

    context: OperatorContext
    strategy: WatermarkStrategy
    splits: SourceSplits
    time: SourceTime
    reader: SplitReader
    begin_reading: Callable[[SplitProgress], SplitReading]


class SourceMode(Protocol):
    """Reads the splits of a source in one of the execution modes."""

    def assign(self, more: MoreSplits, seconds: float | None) -> None:
        """Read these splits from now on; in epoch mode these only, and for a limited time."""

    def poll(self) -> PollResult:
        """Read at most one batch."""

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) the clock may change the watermark or the status."""

    def advance_processing_time(self, now: int) -> None:
        """Emit what the clock has made due."""

    def progress(self, checkpoint: int) -> list[SplitProgress]:
        """Return the progress of each split for a checkpoint, in the order in which they should be read after a restore."""


class EpochSource:
    """Epoch mode: every epoch assigns all unfinished splits, which are read one after another.

    Their batches cover the same span of time, so what depends on the clock is done at the barrier; only periodic watermarks
    are emitted in between. A split that ends in an epoch still counts until its barrier. If all have ended by then and the
    source continues (a watched directory), the watermark advances to the furthest of them, as if they had been read one by
    one.
    """

    def __init__(self, parts: SourceParts) -> None:
        self._parts = parts
        self._interval_s = parts.context.auto_watermark_interval / 1000
        self._next_emission = time.monotonic() + self._interval_s
        self._scheduler = EpochSplitScheduler((), None, parts.context.decisions)
        parts.time.scheduler = self._scheduler

    def assign(self, more: MoreSplits, seconds: float | None) -> None:
        """Begin an epoch with these splits."""
        parts, splits = self._parts, self._parts.splits
        splits.readings = [parts.begin_reading(progress) for progress in more.splits]
        # That an epoch begins here means that the last one, which ended here, is committed.
        parts.reader.confirm(more.splits)
        splits.no_more = more.no_more_splits
        if not splits.drained:
            parts.time.on_assignment(idle=more.idle)
        self._scheduler = EpochSplitScheduler(splits.readings, seconds, parts.context.decisions)
        parts.time.scheduler = self._scheduler
        self._next_emission = time.monotonic() + self._interval_s

    def poll(self) -> PollResult:
        """Read one batch of the current split, or of the next one."""
        splits, scheduler = self._parts.splits, self._scheduler
        split = None if splits.drained else scheduler.next()
        if split is None:
            return PollResult.FINISHED if splits.finished else PollResult.NOTHING_NOW
        records = self._parts.reader.read(split, scheduler)
        if records is None:
            split.batches = None
            if split.bounded:
                splits.finish(split, self._parts.context.clock())
            scheduler.on_end(split)
            return PollResult.MORE
        due = time.monotonic() >= self._next_emission
        if self._parts.context.decisions.due("watermark", due):
            self._next_emission = time.monotonic() + self._interval_s
            if not scheduler.time_stands:
                self._parts.time.emit_periodic()
        scheduler.on_batch(split, records)
        return PollResult.MORE

    def next_wakeup(self) -> int | None:
        """Return when the next split becomes idle: an epoch without records is worth running then."""
        timeout = self._parts.strategy.idle_timeout_ms
        if timeout is None:
            return None
        waiting = [
            split.active_ms + timeout for split in self._parts.splits.unfinished() if not split.idle
        ]
        return min(waiting, default=self._parts.time.idle_deadline(timeout))

    def advance_processing_time(self, now: int) -> None:
        """Do nothing: the barrier does it."""

    def progress(self, checkpoint: int) -> list[SplitProgress]:
        """Return the progress of each split, those first whose turn did not come in this epoch."""
        splits = self._parts.splits
        return splits.progress(checkpoint, self._scheduler.in_order(splits.readings))


class PipelinedSource:
    """Pipelined mode: splits are assigned at any time and read concurrently, and the clock works between two batches."""

    def __init__(self, parts: SourceParts) -> None:
        self._parts = parts
        self._scheduler = PipelinedSplitScheduler(
            ends=parts.splits.bounded, next_ready=parts.reader.next_ready
        )
        parts.time.scheduler = self._scheduler
        #: Checkpoint -> its positions, until it is durable; empty if the reader need not know.
        self._unconfirmed: dict[int, list[SplitProgress]] = {}
        #: When the next periodic watermark is due, in epoch milliseconds; None without periodic watermarks.
        self._next_check_ms: int | None = None
        self._plan_check(parts.context.clock())

    def assign(self, more: MoreSplits, seconds: float | None = None) -> None:
        """Add splits to those that are read."""
        splits = self._parts.splits
        found = [self._parts.begin_reading(progress) for progress in more.splits]
        splits.readings += found
        splits.no_more = more.no_more_splits
        if not splits.drained:
            self._scheduler.add(found)
            self._parts.time.on_assignment(idle=more.idle)

    # Reading.

    def poll(self) -> PollResult:
        """Read at most one batch of the next split that has one; empty splits are skipped."""
        split = self._next()
        reader = self._parts.reader
        before, begun = reader.records, time.monotonic()
        while True:
            polled = self._read(split)
            if polled is not PollResult.MORE or reader.records != before:
                return polled
            split = self._next()
            over = split is None or time.monotonic() - begun >= _LONGEST_POLL_S
            if self._parts.context.decisions.due("poll", over):
                return polled

    def _next(self) -> SplitReading | None:
        return None if self._parts.splits.drained else self._scheduler.next()

    def _read(self, split: SplitReading | None) -> PollResult:
        parts = self._parts
        if parts.context.decisions.traces:
            split = self._recorded(split)
        if split is None:
            if not parts.splits.finished:
                return PollResult.NOTHING_NOW
            parts.time.emit_end()
            return PollResult.FINISHED
        records = parts.reader.read(split, self._scheduler)
        if records is None:
            self._end_reading(split)
            return PollResult.MORE
        if (
            records
        ):  # otherwise the split was active some time ago, not at the current clock reading
            self.advance_processing_time(split.active_ms)
        self._scheduler.on_batch(split, records)
        return PollResult.MORE

    def _recorded(self, split: SplitReading | None) -> SplitReading | None:
        """Return the split to read, recorded or from a recording: which one is ready depends on timing."""
        ready = None if split is None else split.progress.split.split_id
        chosen = self._parts.context.decisions.turn(ready)
        return split if chosen == ready else self._parts.splits.find(chosen)

    def _end_reading(self, split: SplitReading) -> None:
        split.batches = None
        if split.bounded:
            self._parts.time.emit_periodic()  # while it still counts
            self._parts.splits.finish(split, self._parts.context.clock())
        self._scheduler.on_end(split)

    def next_poll(self) -> float | None:
        """Return when (by time.monotonic()) to poll again after NOTHING_NOW; None: after a wake-up or an assignment."""
        return None if self._parts.splits.drained else self._scheduler.next_poll()

    def poll_all(self) -> None:
        """Poll all splits at once: the reader signals that there is data."""
        self._scheduler.ask_all()

    def limit_batches(self, records: int) -> None:
        """Limit the batch size of readers: downstream operators of the chain are slow."""
        if records != self._scheduler.batch_size:
            self._scheduler.batch_size = records
            for split in self._parts.splits.readings:
                split.batches = None

    def update_watermark_alignment(self, slowest: int) -> None:
        """Pause splits that are ahead of the slowest source of the alignment group by more than the strategy allows."""
        alignment = self._parts.strategy.watermark_alignment
        assert alignment is not None
        self._scheduler.alignment_limit = min(slowest + alignment.max_drift_ms, MAX_WATERMARK)

    # Time.

    def next_wakeup(self) -> int | None:
        """Return when the next watermark is due, or the next split becomes idle."""
        return None if self._parts.splits.finished else self._next_check()

    def _next_check(self) -> int | None:
        moments = [] if self._next_check_ms is None else [self._next_check_ms]
        timeout = self._parts.strategy.idle_timeout_ms
        if timeout is not None:
            moments += [
                split.active_ms + timeout
                for split in self._parts.splits.readings
                if split.quiet and not split.idle and not split.finished
            ]
            deadline = self._parts.time.idle_deadline(timeout)
            if deadline is not None:
                moments.append(deadline)
        return min(moments, default=None)

    def advance_processing_time(self, now: int) -> None:
        """Emit a periodic watermark that is due, and check which splits are idle."""
        context = self._parts.context
        if self._parts.splits.finished:
            return
        due = self._next_check()
        # Always recorded: the next check is not part of a checkpoint, so a replay that begins there has another time.
        if context.decisions.due("check", due is not None and due <= now):
            self._plan_check(now)
            self._parts.time.check()
        elif due is not None and due - context.auto_watermark_interval > now:
            self._plan_check(now)  # the clock was set back

    def _plan_check(self, now: int) -> None:
        interval = self._parts.context.auto_watermark_interval
        periodic = interval > 0 and self._parts.strategy.emits_watermarks
        self._next_check_ms = now + interval if periodic else None

    # Checkpoints.

    def progress(self, checkpoint: int) -> list[SplitProgress]:
        """Return the progress of each split, and keep the positions until the checkpoint is durable."""
        splits = self._parts.splits
        progress = splits.progress(checkpoint, splits.readings)
        if self._parts.reader.confirms:
            self._unconfirmed[checkpoint] = progress
        return progress

    def on_completed(self, checkpoint: int) -> None:
        """Drop the splits that a durable checkpoint contains as finished, and confirm its positions to the reader."""
        self._parts.splits.drop_reported(checkpoint)
        durable = [number for number in self._unconfirmed if number <= checkpoint]
        if durable:
            self._parts.reader.confirm(self._unconfirmed[max(durable)])
            for number in durable:
                del self._unconfirmed[number]
