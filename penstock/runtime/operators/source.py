"""Reads the splits of a source subtask; timestamps and watermarks per split."""

from __future__ import annotations

import dataclasses
import enum
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from penstock.connectors.source import (
    Boundedness,
    ReadLimits,
    SourceAssignment,
    SourceBatch,
    SourceReader,
    SplitProgress,
)
from penstock.errors import InvalidProgramError, PenstockError
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.redelivery import REDELIVERED, OnceReader
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK, RowBatch
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.time.assigning import TimestampAssignment
from penstock.runtime.time.valve import combine
from penstock.runtime.user_code import RecordFailedError


class Polled(enum.Enum):
    """What a source says when it was asked to read a batch."""

    MORE = "there may be more at once"
    NOTHING_NOW = "there is nothing more for now"
    FINISHED = "there will never be more"


class _Split:
    """A split while it is read."""

    __slots__ = (
        "active_ms",
        "assignment",
        "batches",
        "finished",
        "idle",
        "position",
        "progress",
        "read",
        "visited",
    )

    def __init__(self, progress: SplitProgress, strategy: Any, now: int, *, periodic: bool) -> None:
        self.progress = progress
        self.position = progress.position
        self.finished = progress.finished
        self.idle = progress.idle
        self.active_ms = progress.active_ms or now
        self.assignment = TimestampAssignment(strategy, periodic=periodic)
        self.assignment.restore(progress.generator)
        self.read = False  # has it given records in this epoch?
        self.visited = False  # has it had its turn in this epoch?
        self.batches: Iterator[SourceBatch] | None = None  # what its reader gives, while it reads

    def to_progress(self) -> SplitProgress:
        """Return how far it was read, for the checkpoint."""
        return dataclasses.replace(
            self.progress,
            position=self.position,
            finished=self.finished,
            generator=None if self.finished else self.assignment.snapshot(),
            watermark=self.assignment.watermark,
            active_ms=self.active_ms,
            idle=self.idle,
        )


class SourceOperator(StreamOperator):
    """The head of a source chain: splits are assigned, then it is polled; the subtask calls nothing else but `barrier`.

    The subtask's watermark is the minimum over its splits that are not finished before this epoch and not idle, from the moment
    of their assignment: one without records holds it back. If all are idle, it is the maximum. A split that ends in this epoch
    still counts until the barrier. Splits are read one after another although
    they stand for the same span of time, so time stands still until the last one has its turn.
    """

    def open(self, context: OperatorContext) -> None:
        """Create the reader."""
        super().open(context)
        self._reader = self.spec.source.create_reader()
        self._bounded = self.spec.source.get_boundedness() is Boundedness.BOUNDED
        self._reader.open(context.runtime_context)
        self._emitted: int = context.operator_state.get(EMITTED, MIN_WATERMARK)
        self._idle: bool = context.operator_state.get(IDLE, False)
        self._drained = False
        self.records = 0
        self._once = OnceReader(self._reader, self._on_redelivered)

    def run(self, assignment: SourceAssignment, seconds: float | None) -> Iterator[None]:
        """Read what there is, for so long; yields after every batch so that the caller can pass rows on."""
        self.assign(assignment)
        self.start_round(seconds)
        while self.poll() is Polled.MORE:
            yield

    def assign(self, assignment: SourceAssignment) -> None:
        """Take the splits that are to be read from now on, in the place of those before."""
        strategy = self.spec.watermark_strategy
        now = self.context.clock()
        self._interval = self.context.auto_watermark_interval / 1000
        self._splits = [
            _Split(progress, strategy, now, periodic=self._interval > 0)
            for progress in assignment.splits
        ]
        self._waiting: deque[_Split] = deque()
        self._current: _Split | None = None
        self._no_more_splits = assignment.no_more_splits
        self._drained = assignment.drain
        if self._drained:
            return
        if assignment.idle:
            self._set_idle(idle=True)
        elif any(not split.idle for split in self._splits):
            self._set_idle(idle=False)

    def start_round(self, seconds: float | None = None, *, interleaved: bool = False) -> None:
        """Give every split a turn, which lasts until it has nothing more now or its part of the time is over.

        If turns are `interleaved`, each is one batch, and rounds follow one another until no split has given any.
        """
        self._interleaved = interleaved
        self._round_read = False
        self._end = None if seconds is None else time.monotonic() + seconds
        self._next_emission = time.monotonic() + self._interval
        self._queue_splits()

    def _queue_splits(self) -> None:
        if not self._drained:
            self._waiting.extend(split for split in self._splits if not split.finished)

    def poll(self) -> Polled:
        """Read at most one batch of the split whose turn it is. Reading does not wait if turns are interleaved."""
        if self._current is None:
            if not self._waiting and not self._start_next_round():
                return Polled.FINISHED if self.finished else Polled.NOTHING_NOW
            self._begin_turn(self._waiting.popleft())
        split = self._current
        assert split is not None
        if not self._read_batch(split):
            split.batches = None
            split.finished = self._ends(split)
            self._end_turn()
            return Polled.MORE
        due, now = self.context.pace.due, time.monotonic()
        if due("watermark", now >= self._next_emission):
            self._next_emission = time.monotonic() + self._interval
            if self._all_visited():
                self._emit(self._combined(periodic=True))
        if self._interleaved:
            self._current = None
        elif due("split", self._turn_end is not None and time.monotonic() >= self._turn_end):
            split.batches = None
            self._end_turn()
        return Polled.MORE

    def _start_next_round(self) -> bool:
        """Let the next round follow, if turns are interleaved; return whether it can begin at once."""
        if not self._interleaved:
            return False
        gave_records, self._round_read = self._round_read, False
        self._queue_splits()
        return gave_records and bool(self._waiting)

    def _begin_turn(self, split: _Split) -> None:
        self._current = split
        split.visited = True
        self._turn_end = self._share(split)
        if split.batches is not None:
            return
        if self._interleaved:
            limits = ReadLimits.lasting(0.0)
        elif self._turn_end is None:
            limits = ReadLimits()
        else:
            limits = ReadLimits.lasting(self._turn_end - time.monotonic())
        # What is recorded and what is replayed are batches without what was delivered again.
        split.batches = self.context.pace.batches(
            self._reader_of(split), split.progress.split, split.position, limits
        )

    def _end_turn(self) -> None:
        self._current = None
        if self._interleaved:
            return
        over = self._end is not None and time.monotonic() >= self._end
        if self.context.pace.due("next split", over):
            self._waiting.clear()

    def _share(self, split: _Split) -> float | None:
        """Return when a split's turn ends: one without an end leaves the others their part of the time."""
        if self._end is None or self._ends(split):
            return self._end
        now = time.monotonic()
        return now + (self._end - now) / (len(self._waiting) + 1)

    def _read_batch(self, split: _Split) -> bool:
        """Read a batch and send it down the chain; return False if the split has nothing more."""
        assert split.batches is not None
        try:
            found = next(split.batches, None)
        except PenstockError:
            raise
        except Exception as error:
            raise self._reader_failed(split, error) from error
        if found is None:
            return False
        if found.positions is not None or found.start is not None:
            raise self._not_ordered()
        if found.records:
            self.records += len(found.records)
            self._round_read = split.read = True
            split.active_ms = self.context.clock()
            split.idle = False
            self._set_idle(idle=False)
            timestamps: Any = found.timestamps
            try:
                split.assignment.on_batch(
                    RowBatch(found.records, timestamps), self.output.emit, self._on_event_watermark
                )
            except RecordFailedError as failed:
                raise self.guard(failed.cause, failed.record, known=True) from failed.cause
        split.position = found.position
        return True

    def _reader_of(self, split: _Split) -> SourceReader:
        """Return the reader, or one that leaves out what the reader delivers again."""
        try:
            return self._once if self._reader.ordered(split.progress.split) else self._reader
        except PenstockError:
            raise
        except Exception as error:
            raise self._reader_failed(split, error) from error

    def _reader_failed(self, split: _Split, error: Exception) -> PenstockError:
        wrapped = self.guard(error)
        wrapped.detail = f"{wrapped.detail}, split {split.progress.split.split_id}"
        return wrapped

    def _not_ordered(self) -> PenstockError:
        return InvalidProgramError(
            f"{type(self._reader).__name__} tells where records come from, but not that its positions are ordered",
            detail=f"in operator '{self.context.operator_name}', a SourceBatch has positions or a start",
            hint="return True from SourceReader.ordered, so that records that are delivered again are dropped",
        )

    def _on_redelivered(self, records: int) -> None:
        self.context.runtime_context.get_metrics_group().counter(REDELIVERED).inc(records)

    def _ends(self, split: _Split) -> bool:
        """Whether a split ends when its reader has nothing more."""
        return self._bounded or split.progress.split.bounded

    def _all_visited(self) -> bool:
        return all(split.visited or split.finished for split in self._splits)

    def _combined(self, *, periodic: bool) -> int | None:
        """Return the time of all splits together, or None if there are none."""
        times: list[tuple[int, bool]] = []
        for split in self._splits:
            if split.finished and not split.read:
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
        if self._all_visited():
            self._emit(self._combined(periodic=False))

    def _emit(self, watermark: int | None) -> None:
        if watermark is not None and watermark > self._emitted and not self.context.batch_mode:
            self._emitted = watermark
            self.output.emit_watermark(watermark)

    def _set_idle(self, *, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_status(idle)

    @property
    def finished(self) -> bool:
        """Whether this subtask has read all it will ever read."""
        return self._drained or (
            self._bounded and self._no_more_splits and all(split.finished for split in self._splits)
        )

    def next_wakeup(self) -> int | None:
        """Return when the next split will count as idle."""
        timeout = self.spec.watermark_strategy.idle_timeout_ms
        if timeout is None:
            return None
        waiting = [
            split.active_ms + timeout
            for split in self._splits
            if not split.finished and not split.idle
        ]
        return min(waiting, default=None)

    def check_time(self) -> None:
        """Emit the watermark if it is due by the clock, and see which splits are idle: before a barrier, or at any time."""
        self._mark_idle_splits()
        self._emit(self._combined(periodic=True))
        unfinished = [split for split in self._splits if not split.finished]
        if unfinished and all(split.idle for split in unfinished):
            # Time goes to the highest among them, also past those that have ended before this barrier.
            self._emit(combine((split.assignment.watermark, True) for split in unfinished))
            self._set_idle(idle=True)

    def barrier(self) -> list[Any]:
        """Emit the watermark (MAX at the end of input) and check for idleness."""
        if not self.finished:
            self.check_time()
        elif self._emitted != MAX_WATERMARK:
            self._set_idle(idle=False)
            self._emitted = MAX_WATERMARK
            self.output.emit_watermark(MAX_WATERMARK)
        self.context.operator_state.put(EMITTED, self._emitted)
        self.context.operator_state.put(IDLE, self._idle)
        return []

    def _mark_idle_splits(self) -> None:
        timeout = self.spec.watermark_strategy.idle_timeout_ms
        now = self.context.clock()
        for split in self._splits:
            if not split.visited:
                continue  # whether it has records is not known
            split.active_ms = min(split.active_ms, now)  # a clock that was set back
            quiet = timeout is not None and now - split.active_ms >= timeout
            if quiet or split.assignment.idle:
                split.idle = True

    def progress(self) -> list[SplitProgress]:
        """Return how far each split was read; those without an end that had no turn come first next time."""
        waiting = [s for s in self._splits if not (s.visited or s.finished or self._ends(s))]
        others = [split for split in self._splits if split not in waiting]
        return [split.to_progress() for split in (*waiting, *others)]

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()
