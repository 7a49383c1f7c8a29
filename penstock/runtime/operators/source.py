"""Reads the splits of a source subtask; timestamps and watermarks per split."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from penstock.connectors.source import (
    Boundedness,
    ReadLimits,
    SourceAssignment,
    SourceReader,
    SplitProgress,
)
from penstock.errors import InvalidProgramError, PenstockError
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.redelivery import REDELIVERED, OnceReader
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK, Batch
from penstock.runtime.state.operator_state import EMITTED, IDLE
from penstock.runtime.time.assigning import TimestampAssignment
from penstock.runtime.user_code import RecordFailedError


class _Split:
    """A split while it is read."""

    __slots__ = (
        "active_ms",
        "assignment",
        "finished",
        "idle",
        "position",
        "progress",
        "read",
        "started",
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
        self.started = (
            progress.generator is not None
        )  # has it given records, in this epoch or before?
        self.read = False  # has it given records in this epoch?
        self.visited = False  # has it had its turn in this epoch?

    def to_progress(self) -> SplitProgress:
        """Return how far it was read, for the checkpoint."""
        return dataclasses.replace(
            self.progress,
            position=self.position,
            finished=self.finished,
            generator=self.assignment.snapshot() if self.started and not self.finished else None,
            watermark=self.assignment.watermark,
            active_ms=self.active_ms,
            idle=self.idle,
        )


class SourceOperator(StreamOperator):
    """The head of a source chain. `run` reads; the subtask calls nothing else but `barrier`.

    The subtask's watermark is the minimum over its splits that have given records, are not finished before this epoch and are
    not idle. A split that ends in this epoch still counts until the barrier. Splits are read one after another although
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
        strategy = self.spec.watermark_strategy
        now = self.context.clock()
        interval = self.context.auto_watermark_interval / 1000
        self._splits = [
            _Split(progress, strategy, now, periodic=interval > 0) for progress in assignment.splits
        ]
        self._no_more_splits = assignment.no_more_splits
        self._drained = assignment.drain
        if self._drained:
            return
        if assignment.idle:
            self._set_idle(idle=True)
        elif any(not split.idle for split in self._splits):
            self._set_idle(idle=False)
        due = self.context.pace.due
        end = None if seconds is None else time.monotonic() + seconds
        next_emission = time.monotonic() + interval
        open_splits = [split for split in self._splits if not split.finished]
        for turn, split in enumerate(open_splits):
            split.visited = True
            turn_end = self._share(end, split, len(open_splits) - turn)
            for _ in self._read(split, turn_end):
                yield
                if due("watermark", time.monotonic() >= next_emission):
                    next_emission = time.monotonic() + interval
                    if self._all_visited():
                        self._emit(self._combined(periodic=True))
            if due("next split", end is not None and time.monotonic() >= end):
                break

    def _share(self, end: float | None, split: _Split, turns_left: int) -> float | None:
        """Return when a split's turn ends: one without an end leaves the others their part of the time."""
        if end is None or self._ends(split):
            return end
        now = time.monotonic()
        return now + (end - now) / turns_left

    def _read(self, split: _Split, end: float | None) -> Iterator[None]:
        """Read a split until it has nothing more or `end`, a time.monotonic() value, has come."""
        pace = self.context.pace
        limits = ReadLimits() if end is None else ReadLimits.lasting(end - time.monotonic())
        reader = self._reader_of(split)
        # What is recorded and what is replayed are batches without what was delivered again.
        batches = pace.batches(reader, split.progress.split, split.position, limits)
        while True:
            try:
                found = next(batches, None)
            except PenstockError:
                raise
            except Exception as error:
                raise self._reader_failed(split, error) from error
            if found is None:
                split.finished = self._ends(split)
                return
            if found.positions is not None or found.start is not None:
                raise self._not_ordered()
            if found.records:
                self.records += len(found.records)
                split.started = split.read = True
                split.active_ms = self.context.clock()
                split.idle = False
                self._set_idle(idle=False)
                timestamps: Any = found.timestamps
                try:
                    split.assignment.on_batch(
                        Batch(found.records, timestamps), self.output.emit, self._on_event_watermark
                    )
                except RecordFailedError as failed:
                    raise self.guard(failed.cause, failed.record, known=True) from failed.cause
            split.position = found.position
            yield
            if pace.due("split", end is not None and time.monotonic() >= end):
                return

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
        """Return the minimum over the splits that count, or None if none does.

        A split that waits for its first turn (the deadline came before) may have records of any time.
        """
        lowest: int | None = None
        for split in self._splits:
            if not (split.visited or split.started or split.finished):
                return None
            if split.read or (split.started and not split.finished and not split.idle):
                try:
                    watermark = (
                        split.assignment.on_periodic() if periodic else split.assignment.watermark
                    )
                except Exception as error:
                    raise self.guard(error) from error
                lowest = watermark if lowest is None else min(lowest, watermark)
        return lowest

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

    def barrier(self) -> list[Any]:
        """Emit the watermark (MAX at the end of input) and check for idleness."""
        if self.finished:
            if self._emitted != MAX_WATERMARK:
                self._set_idle(idle=False)
                self._emitted = MAX_WATERMARK
                self.output.emit_watermark(MAX_WATERMARK)
        else:
            self._mark_idle_splits()
            self._emit(self._combined(periodic=True))
            unfinished = [split for split in self._splits if not split.finished]
            if unfinished and all(split.idle for split in unfinished):
                self._set_idle(idle=True)
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
