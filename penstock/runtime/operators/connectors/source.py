"""The source operator: reads the splits of a source subtask, with timestamps and watermarks per split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.connectors.base.source import SourceAssignment, SplitProgress
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.connectors.source_modes import (
    EpochSource,
    MoreSplits,
    PipelinedSource,
    PollResult,
    SourceMode,
    SourceParts,
)
from penstock.runtime.operators.connectors.source_splits import SourceSplits
from penstock.runtime.operators.connectors.source_time import SourceTime
from penstock.runtime.operators.connectors.split_reader import SplitReader
from penstock.runtime.operators.connectors.split_schedulers import SplitReading
from penstock.runtime.operators.hooks import CheckpointListener, HandlesWakeups, UsesProcessingTime
from penstock.runtime.time.timestamp_assignment import Assignment, TimestampAssignment
from penstock.runtime.time.timestamp_check import TimestampCheck


class SourceOperator(StreamOperator, UsesProcessingTime, HandlesWakeups, CheckpointListener):
    """The head of a source chain.

    Its parts: `splits` are those assigned, `reader` reads batches of one and passes their records on, `time` combines their
    watermarks, and the mode decides which split is read when, and when time advances. An epoch is read by `run`. In
    pipelined mode splits are added at any time, and the subtask calls `poll` whenever it has capacity; after NOTHING_NOW it
    need not poll before `pipelined.next_poll`.
    """

    #: Only in pipelined mode.
    pipelined: PipelinedSource

    def open(self, context: OperatorContext) -> None:
        """Create the reader, and what its execution mode needs."""
        super().open(context)
        source, strategy = self.spec.source, self.spec.watermark_strategy
        reader = source.create_reader()
        reader.use_wake(_ignore_wakeup if context.slot is None else context.slot.wake)
        reader.open(context.runtime_context)
        self.timestamp_check = TimestampCheck(context.runtime_context.get_metrics_group())
        self.splits = SourceSplits(source, context.clock())
        self.time = SourceTime(context, strategy, self.splits, self.guard)
        self.reader = SplitReader(self, reader, self.time)
        parts = SourceParts(
            context, strategy, self.splits, self.time, self.reader, self._begin_reading
        )
        self._mode: SourceMode
        if context.pipelined:
            self._mode = self.pipelined = PipelinedSource(parts)
        else:
            self._mode = EpochSource(parts)

    def _begin_reading(self, progress: SplitProgress) -> SplitReading:
        return SplitReading(
            progress,
            self.new_assignment(),
            self.context.clock(),
            bounded=self.splits.bounded or progress.split.bounded,
        )

    def new_assignment(self) -> Assignment:
        """Return the timestamp and watermark assignment of one split."""
        return TimestampAssignment(
            self.spec.watermark_strategy,
            periodic=self.context.auto_watermark_interval > 0,
            check=self.timestamp_check,
        )

    # Reading.

    def run(self, assignment: SourceAssignment, seconds: float | None) -> Iterator[None]:
        """Read one epoch, for a limited time; yields after every batch so that the caller can forward rows."""
        self.splits.drained = assignment.drain
        self._mode.assign(assignment, seconds)
        while self._mode.poll() is PollResult.MORE:
            yield

    def add_splits(self, more: MoreSplits) -> None:
        """Add splits to read from now on."""
        self._mode.assign(more, None)

    def poll(self) -> PollResult:
        """Read at most one batch."""
        return self._mode.poll()

    def on_wakeup(self) -> None:
        """Poll all splits at once: the reader signals that there is data."""
        self.pipelined.poll_all()

    def drain(self) -> None:
        """Stop reading: the watermark and the source go to their end."""
        self.splits.drained = True
        self.time.emit_end()

    @property
    def finished(self) -> bool:
        """Whether this subtask has read all its input."""
        return self.splits.finished

    # Time.

    def next_wakeup(self) -> int | None:
        """Return when the next split becomes idle or, in pipelined mode, the next watermark is due."""
        return self._mode.next_wakeup()

    def advance_processing_time(self, now: int) -> None:
        """Handle periodic watermarks and idleness in pipelined mode: in an epoch the barrier does it."""
        self._mode.advance_processing_time(now)

    # Checkpoints.

    def barrier(self) -> list[Any]:
        """Emit the watermark (MAX at the end of input) and check for idleness."""
        if self.finished:
            self.time.emit_end()
        else:
            self.time.check()
        self.time.store()
        return []

    def progress(self, checkpoint: int = 0) -> list[SplitProgress]:
        """Return the progress of each split for a checkpoint, in the order in which they should be read after a restore."""
        return self._mode.progress(checkpoint)

    def on_completed(self, checkpoint: int) -> None:
        """Forget what was kept until this checkpoint is durable, and confirm its positions to the reader."""
        self.pipelined.on_completed(checkpoint)

    def close(self) -> None:
        """Close the reader."""
        self.reader.close()


def _ignore_wakeup() -> None:
    """Do nothing: an epoch reads its splits until they have nothing more."""
