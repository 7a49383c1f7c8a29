"""The source operator: reads the splits of a source subtask, with timestamps and watermarks per split."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from penstock.connectors.base.source import (
    Boundedness,
    SourceAssignment,
    SourceReader,
    SplitProgress,
)
from penstock.errors import InvalidProgramError, PenstockError
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.connectors.malformed import route_malformed
from penstock.runtime.operators.connectors.redelivery import REDELIVERED, DeduplicatingReader
from penstock.runtime.operators.connectors.split_schedulers import (
    EpochSplitScheduler,
    PipelinedSplitScheduler,
    SplitReading,
    SplitScheduler,
)
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK, batch_of
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.time.timestamp_assignment import Assignment, TimestampAssignment
from penstock.runtime.time.timestamp_check import TimestampCheck
from penstock.runtime.time.watermark_valve import combine
from penstock.runtime.user_code import RecordFailedError

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


class SourceOperator(StreamOperator):
    """The head of a source chain.

    An epoch is read by `run`. In pipelined mode splits are added at any time (`add_splits`), and the subtask calls `poll`
    whenever it has
    capacity; after NOTHING_NOW it need not poll before `next_poll`. Everything that depends on the clock (periodic
    watermarks, idle
    splits) is done by `advance_processing_time` at `next_wakeup`.

    The subtask's watermark is the minimum over its splits that are neither finished nor idle, from their assignment on:
    one without
    records holds it back; in a bounded source that assigns splits on demand, so do those that are not assigned yet. If
    all are idle, it
    is the maximum. A split that ends in an epoch still counts until its barrier. If all have ended by then and the source
    continues (a
    watched directory), the watermark advances to the furthest of them, as if they had been read one by one.
    """

    def open(self, context: OperatorContext) -> None:
        """Create the reader."""
        super().open(context)
        self._reader = self.spec.source.create_reader()
        self._bounded = self.spec.source.get_boundedness() is Boundedness.BOUNDED
        self._on_demand = self._bounded and self.spec.source.assigns_on_demand
        self._reader.use_wake(context.wake)
        self._reader.open(context.runtime_context)
        self._emitted: int = context.operator_state.get(EMITTED, MIN_WATERMARK)
        self._idle: bool = context.operator_state.get(IDLE, False)
        self._interval = context.auto_watermark_interval / 1000
        self._next_emission = time.monotonic() + self._interval
        self._next_check_ms: int | None = None  # when the next periodic watermark is due
        self._plan_check(context.clock())
        self._splits: list[SplitReading] = []
        self._without_splits_ms = context.clock()  # start of the time without splits
        self._newly_finished: list[str] = []
        self._no_more_splits = False
        self._drained = False
        self.records = 0
        self.chain_s = 0.0  # time that downstream operators of the chain spent on its records
        self._once = DeduplicatingReader(self._reader, self._on_redelivered)
        self.timestamp_check = TimestampCheck(context.runtime_context.get_metrics_group())
        tells = type(self._reader).next_ready is not SourceReader.next_ready
        self._pipelined_splits = PipelinedSplitScheduler(
            ends=self._bounded, next_ready=self._next_ready if tells else None
        )
        self._turns: SplitScheduler = self._pipelined_splits
        self._confirms = type(self._reader).on_checkpoint is not SourceReader.on_checkpoint
        # Pipelined mode: checkpoint -> its positions, until it is durable.
        self._unconfirmed: dict[int, list[SplitProgress]] = {}

    def _next_ready(self, split: SplitReading) -> float | None:
        try:
            seconds: float | None = self._reader.next_ready(split.progress.split, split.position)
        except Exception as error:
            raise self._reader_failed(split, error) from error
        return seconds

    # Splits.

    def run(self, assignment: SourceAssignment, seconds: float | None) -> Iterator[None]:
        """Read one epoch, for a limited time; yields after every batch so that the caller can forward rows."""
        self._interval = self.context.auto_watermark_interval / 1000
        self._splits = [self._begin_reading(progress) for progress in assignment.splits]
        self._confirm(assignment.splits)
        self._no_more_splits = assignment.no_more_splits
        self._drained = assignment.drain
        if not self._drained:
            self._take_status(assignment)
        self._turns = EpochSplitScheduler(self._splits, seconds, self.context.decisions)
        self._next_emission = time.monotonic() + self._interval
        while self.poll() is PollResult.MORE:
            yield

    def add_splits(self, more: MoreSplits) -> None:
        """Add splits to read from now on."""
        found = [self._begin_reading(progress) for progress in more.splits]
        self._splits += found
        self._no_more_splits = more.no_more_splits
        if not self._drained:
            self._pipelined_splits.add(found)
            self._take_status(more)

    def _begin_reading(self, progress: SplitProgress) -> SplitReading:
        return SplitReading(
            progress,
            self._new_assignment(),
            self.context.clock(),
            bounded=self._bounded or progress.split.bounded,
        )

    def _new_assignment(self) -> Assignment:
        """Return the timestamp and watermark assignment of one split."""
        return TimestampAssignment(
            self.spec.watermark_strategy,
            periodic=self._interval > 0,
            check=self.timestamp_check,
        )

    def _take_status(self, more: MoreSplits) -> None:
        if more.idle:
            self._set_idle(idle=True)
        elif any(not split.idle for split in self._splits):
            self._set_idle(idle=False)

    def drain(self) -> None:
        """Stop reading: the watermark and the source go to their end."""
        self._drained = True
        self._emit_end()

    @property
    def has_finished_splits(self) -> bool:
        """Whether splits have ended since the last `take_finished`."""
        return bool(self._newly_finished)

    def take_finished(self) -> list[str]:
        """Return the ids of the splits that have ended since the last call."""
        found, self._newly_finished = self._newly_finished, []
        return found

    def on_completed(self, checkpoint: int) -> None:
        """Drop the splits that a durable checkpoint contains as finished."""
        known = [
            split
            for split in self._splits
            if split.reported is not None and split.reported <= checkpoint
        ]
        if known:
            gone = set(map(id, known))
            self._splits = [split for split in self._splits if id(split) not in gone]
        durable = [number for number in self._unconfirmed if number <= checkpoint]
        if durable:
            self._confirm(self._unconfirmed[max(durable)])
            for number in durable:
                del self._unconfirmed[number]

    def _confirm(self, durable: Sequence[SplitProgress]) -> None:
        """Notify the reader of the positions of a durable checkpoint."""
        if not self._confirms:
            return
        for progress in durable:
            try:
                self._reader.on_checkpoint(progress.split, progress.position)
            except PenstockError:
                raise
            except Exception as error:
                raise self.guard(error) from error

    def limit_batches(self, records: int) -> None:
        """Limit the batch size of readers: downstream operators of the chain are slow."""
        if records != self._pipelined_splits.batch_size:
            self._pipelined_splits.batch_size = records
            for split in self._splits:
                split.batches = None

    # Reading.

    def poll(self) -> PollResult:
        """Read at most one batch of the next split. In pipelined mode, empty splits are skipped."""
        split = self._next_turn()
        if self._turns is not self._pipelined_splits:
            return self._read_turn(split)
        before, begun = self.records, time.monotonic()
        while True:
            polled = self._read_turn(split)
            if polled is not PollResult.MORE or self.records != before:
                return polled
            split = self._next_turn()
            over = split is None or time.monotonic() - begun >= _LONGEST_POLL_S
            if self.context.decisions.due("poll", over):
                return polled

    def _next_turn(self) -> SplitReading | None:
        return None if self._drained else self._turns.next()

    def _read_turn(self, split: SplitReading | None) -> PollResult:
        if self.context.pipelined and self.context.decisions.traces:
            split = self._turn(split)
        if split is None:
            return self._nothing_now()
        if split.batches is None:
            # Recorded and replayed batches do not contain redelivered records.
            split.batches = self.context.decisions.batches(
                self._reader_of(split), split.progress.split, split.position, self._turns.limits()
            )
        records = self._read_batch(split)
        if records is None:
            self._end_reading(split)
            return PollResult.MORE
        if self.context.pipelined:
            if (
                records
            ):  # otherwise the split was active some time ago, not at the current clock reading
                self.advance_processing_time(split.active_ms)
        elif self.context.decisions.due("watermark", time.monotonic() >= self._next_emission):
            self._next_emission = time.monotonic() + self._interval
            if not self._turns.time_stands:
                self._emit(self._combined(periodic=True))
        self._turns.on_batch(split, records)
        return PollResult.MORE

    def _turn(self, split: SplitReading | None) -> SplitReading | None:
        """Return the split to read, recorded or from a recording: which one is ready depends on timing."""
        ready = None if split is None else split.progress.split.split_id
        chosen = self.context.decisions.turn(ready)
        if chosen == ready:
            return split
        return next(
            (
                each
                for each in self._splits
                if each.progress.split.split_id == chosen and not each.finished
            ),
            None,
        )

    def _nothing_now(self) -> PollResult:
        if not self.finished:
            return PollResult.NOTHING_NOW
        if self._turns is self._pipelined_splits:
            self._emit_end()
        return PollResult.FINISHED

    def _end_reading(self, split: SplitReading) -> None:
        split.batches = None
        if split.bounded:
            if self._turns is self._pipelined_splits:
                self._emit(self._combined(periodic=True))  # while it still counts
            split.finished = True
            self._without_splits_ms = self.context.clock()
            self._newly_finished.append(split.progress.split.split_id)
        self._turns.on_end(split)

    def next_poll(self) -> float | None:
        """Return when (by time.monotonic()) to poll again after NOTHING_NOW; None: after a wake-up or an assignment."""
        return None if self._drained else self._pipelined_splits.next_poll()

    def on_wakeup(self) -> None:
        """Poll all splits at once: the reader signals that there is data."""
        self._pipelined_splits.ask_all()

    def _read_batch(self, split: SplitReading) -> int | None:
        """Read a batch, process it in the chain and return its size; None if the split has nothing more."""
        assert split.batches is not None
        try:
            found = next(split.batches, None)
        except PenstockError:
            raise
        except Exception as error:
            raise self._reader_failed(split, error) from error
        if found is None:
            return None
        if found.positions is not None or found.start is not None:
            raise self._not_ordered()
        if len(found.records):
            self.records += len(found.records)
            split.active_ms = self.context.clock()
            split.idle = False
            self._set_idle(idle=False)
            timestamps: Any = found.timestamps
            begun = time.monotonic()
            try:
                split.assignment.on_batch(
                    batch_of(found.records, timestamps), self.output.emit, self._on_event_watermark
                )
            except RecordFailedError as failed:
                raise self.guard(failed.cause, failed.record, known=True) from failed.cause
            self.chain_s += time.monotonic() - begun
        if found.malformed:
            split.active_ms = self.context.clock()
            route_malformed(self, found.malformed)
        split.position = found.position
        return len(found.records) + len(found.malformed)

    def _reader_of(self, split: SplitReading) -> SourceReader:
        """Return the reader, or one that drops redelivered records."""
        try:
            return self._once if self._reader.ordered(split.progress.split) else self._reader
        except PenstockError:
            raise
        except Exception as error:
            raise self._reader_failed(split, error) from error

    def _reader_failed(self, split: SplitReading, error: Exception) -> PenstockError:
        wrapped = self.guard(error)
        wrapped.detail = f"{wrapped.detail}, split {split.progress.split.split_id}"
        return wrapped

    def _not_ordered(self) -> PenstockError:
        return InvalidProgramError(
            f"{type(self._reader).__name__} sets positions of records but does not declare them as ordered",
            detail=f"in operator '{self.context.operator_name}', a SourceBatch has positions or a start",
            hint="return True from SourceReader.ordered, so that redelivered records are dropped",
        )

    def _on_redelivered(self, records: int) -> None:
        self.context.runtime_context.get_metrics_group().counter(REDELIVERED).inc(records)

    # Time.

    def _combined(self, *, periodic: bool) -> int | None:
        """Return the combined watermark of all splits, or None if there are none, or some are not assigned yet."""
        if self._on_demand and not self._no_more_splits:
            return None
        times: list[tuple[int, bool]] = []
        for split in self._splits:
            if not self._turns.counts(split):
                continue
            idle = split.idle and not split.finished
            if periodic and not idle:
                try:
                    split.assignment.on_periodic()
                except Exception as error:
                    raise self.guard(error) from error
            times.append((split.assignment.watermark, idle))
        return combine(times)

    def _on_event_watermark(self, watermark: int) -> None:
        if not self._turns.time_stands:
            self._emit(self._combined(periodic=False))

    def _emit(self, watermark: int | None) -> None:
        if watermark is not None and watermark > self._emitted and not self.context.batch_mode:
            self._emitted = watermark
            self.output.emit_watermark(watermark)

    def _set_idle(self, *, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_status(idle)

    def active_ms(self) -> int | None:
        """Return when a record was last read, of all splits; None if there are none."""
        return max((split.active_ms for split in self._splits), default=None)

    @property
    def finished(self) -> bool:
        """Whether this subtask has read all its input."""
        return self._drained or (
            self._bounded and self._no_more_splits and all(split.finished for split in self._splits)
        )

    def next_wakeup(self) -> int | None:
        """Return when the next split becomes idle or, in pipelined mode, the next watermark is due."""
        if self.context.pipelined:
            return None if self.finished else self._next_check()
        return self._next_idle()

    def _next_idle(self) -> int | None:
        timeout = self.spec.watermark_strategy.idle_timeout_ms
        if timeout is None:
            return None
        waiting = [
            split.active_ms + timeout
            for split in self._splits
            if not split.finished and not split.idle
        ]
        return min(waiting, default=self._idle_deadline(timeout))

    def _idle_deadline(self, timeout: int) -> int | None:
        """Return when a source without input becomes idle; None if it is idle, or has input."""
        if self._idle or any(not split.finished for split in self._splits):
            return None
        return self._without_splits_ms + timeout

    def _next_check(self) -> int | None:
        """Return when `check_time` is due, in pipelined mode."""
        moments = [] if self._next_check_ms is None else [self._next_check_ms]
        timeout = self.spec.watermark_strategy.idle_timeout_ms
        if timeout is not None:
            moments += [
                split.active_ms + timeout
                for split in self._splits
                if split.quiet and not split.idle and not split.finished
            ]
            patience = self._idle_deadline(timeout)
            if patience is not None:
                moments.append(patience)
        return min(moments, default=None)

    def advance_processing_time(self, now: int) -> None:
        """Handle periodic watermarks and idleness in pipelined mode: in an epoch the barrier does it."""
        if not self.context.pipelined or self.finished:
            return
        due = self._next_check()
        # Always recorded: the next check is not part of a checkpoint, so a replay that begins there has another time.
        if self.context.decisions.due("check", due is not None and due <= now):
            self._plan_check(now)
            self.check_time()
        elif due is not None and due - self.context.auto_watermark_interval > now:
            self._plan_check(now)  # the clock was set back

    def _plan_check(self, now: int) -> None:
        periodic = self._interval > 0 and self.spec.watermark_strategy.emits_watermarks
        self._next_check_ms = now + self.context.auto_watermark_interval if periodic else None

    def check_time(self) -> None:
        """Emit a periodic watermark if it is due, and mark idle splits: before a barrier, or at any time."""
        self._mark_idle_splits()
        self._emit(self._combined(periodic=True))
        unfinished = [split for split in self._splits if not split.finished]
        if unfinished and all(split.idle for split in unfinished):
            # The watermark advances to the highest among them, also past those that have ended before this barrier.
            self._emit(combine((split.assignment.watermark, True) for split in unfinished))
            self._set_idle(idle=True)
        if not (unfinished or self._bounded or self.context.pipelined):
            # All records of files that ended in this epoch are before its barrier: none of them waits for another one.
            self._emit(combine((split.assignment.watermark, True) for split in self._splits))
        self._check_for_splits(unfinished)

    def _check_for_splits(self, unfinished: Sequence[SplitReading]) -> None:
        """Become idle if there was no input for long: files may come, but the watermark need not wait for them."""
        timeout = self.spec.watermark_strategy.idle_timeout_ms
        if unfinished or timeout is None:
            return
        now = self.context.clock()
        self._without_splits_ms = min(self._without_splits_ms, now)  # the clock was set back
        if now - self._without_splits_ms >= timeout:
            self._set_idle(idle=True)

    def barrier(self) -> list[Any]:
        """Emit the watermark (MAX at the end of input) and check for idleness."""
        if not self.finished:
            self.check_time()
        else:
            self._emit_end()
        self.context.operator_state.put(EMITTED, self._emitted)
        self.context.operator_state.put(IDLE, self._idle)
        return []

    def _emit_end(self) -> None:
        """Emit the final watermark, once."""
        if self._emitted != MAX_WATERMARK:
            self._set_idle(idle=False)
            self._emitted = MAX_WATERMARK
            self.output.emit_watermark(MAX_WATERMARK)

    def _mark_idle_splits(self) -> None:
        timeout = self.spec.watermark_strategy.idle_timeout_ms
        now = self.context.clock()
        for split in self._splits:
            split.active_ms = min(split.active_ms, now)  # the clock was set back
            silent = timeout is not None and now - split.active_ms >= timeout
            if silent or split.assignment.idle:
                # Which splits were empty is not part of a checkpoint, so a replay that begins there does not know it.
                place = f"idle {split.progress.split.split_id}"
                split.idle = split.idle or self.context.decisions.due(
                    place, self._turns.may_be_idle(split)
                )

    # Watermark alignment.

    def update_watermark_alignment(self, slowest: int) -> None:
        """Pause splits that are ahead of the slowest source of the alignment group by more than the strategy allows."""
        watermark_alignment = self.spec.watermark_strategy.watermark_alignment
        assert watermark_alignment is not None
        self._pipelined_splits.alignment_limit = min(
            slowest + watermark_alignment.max_drift_ms, MAX_WATERMARK
        )

    def alignment_watermark(self) -> int | None:
        """Return the watermark for watermark alignment; None if it does not count: idle, at the end, without splits."""
        if self.finished or self._idle:
            return None
        return combine(
            (split.assignment.watermark, False)
            for split in self._splits
            if self._turns.counts(split) and not split.idle
        )

    def split_times(self) -> list[tuple[str, int, bool, bool]]:
        """Return the id and watermark of each split, whether it is idle, and whether it counts. Thread-safe."""
        return [
            (
                split.progress.split.split_id,
                split.assignment.watermark,
                split.idle,
                self._turns.counts(split) and not split.idle,
            )
            for split in list(self._splits)
            if not split.finished
        ]

    def progress(self, checkpoint: int = 0) -> list[SplitProgress]:
        """Return the progress of each split for a checkpoint, in the order in which they should be read after a restore."""
        for split in self._splits:
            if split.finished and split.reported is None:
                split.reported = checkpoint
        progress = [split.to_progress() for split in self._turns.in_order(self._splits)]
        if self._confirms and self.context.pipelined:
            self._unconfirmed[checkpoint] = progress
        return progress

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()
