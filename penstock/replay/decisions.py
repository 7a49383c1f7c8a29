"""Replays the timing decisions of the original run from its trace."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from penstock.common.user_types import Position
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.graph.task_id import TaskId
from penstock.replay.errors import ReplayError
from penstock.runtime.time.decisions import READER_ENDED, TURN, ClockLog, SubtaskTrace
from penstock.time import clock

_TIMEOUT_S = 2.0
_POLL_S = 0.02


class ReplayedClock:
    """Returns the recorded clock readings. After the last one, time continues from it.

    Without any reading it starts at the begin of the interval, and it never passes the interval's end.
    """

    def __init__(self, log: ClockLog | None, begin: int, end: int | None) -> None:
        self._readings = iter(log.runs() if log is not None else ())
        self._left = 0
        self._now = begin
        self._end = end
        self._live_since: float | None = None

    def __call__(self) -> int:
        """Return the processing time in epoch milliseconds."""
        if self._left == 0 and self._live_since is None:
            found = next(self._readings, None)
            if found is None:
                self._live_since = time.monotonic()
            else:
                self._now, self._left = found
        if self._live_since is None:
            self._left -= 1
            return self._now
        now = self._now + int((time.monotonic() - self._live_since) * 1000)
        return now if self._end is None else max(self._now, min(now, self._end))


class ReplayedDecisions:
    """The timing decisions of one subtask in an interval that is replayed. `trace` is None if it left none."""

    traces = True

    def __init__(
        self, trace: SubtaskTrace | None, begin: int, end: int | None, seconds: float | None
    ) -> None:
        self._begin = begin
        self._end = end
        self._seconds = seconds
        self._replayed_batches: dict[str, ReplayedBatches] = {}  # by split
        self._take(trace)
        self._clock = ReplayedClock(trace.opening if trace is not None else None, begin, end)

    def _take(self, trace: SubtaskTrace | None) -> None:
        self._trace = trace
        self._decisions: dict[str, Iterator[Any]] = {}
        self._sizes: Iterator[int] = iter(())
        if trace is not None:
            self._decisions = {place: iter(log) for place, log in trace.decisions.items()}
            self._sizes = iter(trace.batches)

    def clock(self) -> int:
        """Return the recorded reading of the clock."""
        return self._clock()

    def begin_interval(self) -> None:
        """Continue with the clock readings of the next interval."""
        log = self._trace.clock if self._trace is not None else None
        self._clock = ReplayedClock(log, self._begin, self._end)

    def trace(self, task: TaskId) -> None:
        """Record nothing."""

    def due(self, place: str, due: bool) -> bool:
        """Whether the recorded run decided that it was due."""
        return bool(next(self._decisions.get(place, iter(())), due))

    def turn(self, split: str | None) -> str | None:
        """Return the split that was read next."""
        return next(self._decisions.get(TURN, iter(())), split)

    def answered(self, place: str, answer: int) -> None:
        """Record nothing."""

    def answers(self, place: str) -> Iterator[int] | None:
        """Return which asynchronous calls completed next."""
        return self._decisions.get(place)

    def routers(self, snapshots: list[Any]) -> list[Any]:
        """Return the positions of the routers at the start."""
        recorded = self._trace.routers if self._trace is not None else ()
        return list(recorded) if len(recorded) == len(snapshots) else snapshots

    def batches(
        self, reader: SourceReader, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Read a split in the recorded batch sizes, whatever the reader's batches are now."""
        again = self._replayed_batches.get(split.split_id)
        if again is None or not again.has_more:
            # A rereading with records left is reused: its reader is ahead of the position, as it finds more at once than then.
            again = ReplayedBatches(reader, split, position, limits, self._seconds)
            self._replayed_batches[split.split_id] = again
        # Reading continues across barriers, so sizes belong to the part that is replayed when a batch is requested.
        while (size := next(self._sizes, None)) is not None:
            if size == READER_ENDED:
                return
            yield again.take(size)
        # The rest is unknown: the task failed or was killed.
        yield from again.rest()


def _together(parts: list[Any]) -> Any:
    """Concatenate records: lists, or column frames."""
    if all(isinstance(part, list) for part in parts):
        return [record for part in parts for record in part]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.vstack(part)
    return whole


class ReplayedBatches:
    """Reads a split again and cuts its records into batches of given sizes."""

    def __init__(
        self,
        reader: SourceReader,
        split: SourceSplit,
        position: Position,
        limits: ReadLimits,
        seconds: float | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._reader = reader
        self._split = split
        self._position = position
        self._limits = limits
        self._seconds = seconds
        self._sleep = sleep
        # Records read but not taken yet: batches in order, the first one from `_at` on.
        self._waiting: deque[SourceBatch] = deque()
        self._at = 0
        self._batches: Iterator[SourceBatch] = iter(reader.read(split, position, limits))
        self._taken = 0

    @property
    def has_more(self) -> bool:
        """Whether it has read records that were not taken."""
        return bool(self._waiting)

    def take(self, size: int) -> SourceBatch:
        """Return the next `size` records."""
        parts: list[Any] = []
        timestamps: list[Any] = []
        missing = size
        while missing:
            if not self._waiting:
                self._add(self._next(missing))
                continue
            batch, start = self._waiting[0], self._at
            part = batch.records[start : start + missing]
            self._at += len(part)
            missing -= len(part)
            parts.append(part)
            times = batch.timestamps
            timestamps += [None] * len(part) if times is None else times[start : self._at]
            if self._at == len(batch.records):
                self._waiting.popleft()
                self._at = 0
        self._taken += size
        known = any(timestamp is not None for timestamp in timestamps)
        return SourceBatch(_together(parts), self._position, timestamps if known else None)

    def rest(self) -> Iterable[SourceBatch]:
        """Return the records that were not taken, in the reader's own batches."""
        while self._waiting:
            yield self.take(len(self._waiting[0].records) - self._at)
        yield from self._batches

    def _add(self, batch: SourceBatch) -> None:
        if len(batch.records):
            self._waiting.append(batch)
        self._position = batch.position

    def _next(self, missing: int) -> SourceBatch:
        """Return the next batch. A reader that stops early is asked again: its time limit may have expired."""
        give_up = time.monotonic() + max(_TIMEOUT_S, self._seconds or 0.0)
        while True:
            try:
                batch = next(self._batches, None)
            except Exception as error:
                raise self._gone(missing, f"{type(error).__name__}: {error}") from error
            if batch is not None:
                return batch
            if time.monotonic() >= give_up:
                raise self._gone(missing, "the reader has no more records")
            self._sleep(_POLL_S)
            deadline = None
            if self._seconds is not None:
                deadline = clock.now() + max(_TIMEOUT_S, self._seconds)
            limits = ReadLimits(deadline, self._limits.batch_size)
            self._batches = iter(self._reader.read(self._split, self._position, limits))

    def _gone(self, missing: int, why: str) -> ReplayError:
        return ReplayError(
            f"split '{self._split.split_id}' no longer returns the records that it returned when the interval ran",
            detail=f"after {self._taken} records and part of a batch, {missing} records are missing: {why}",
            hint="an interval can be replayed only while its input exists and is unchanged",
        )


class ReplayedIntervalDecisions(ReplayedDecisions):
    """The timing decisions of one subtask between two completed checkpoints: one part per barrier in between, and a last one."""

    def __init__(self, parts: Sequence[SubtaskTrace], begin: int) -> None:
        self._parts = iter(parts)
        readings = [part.clock.first for part in parts if part.clock.steps.data]
        # A running subtask passed its barrier before the driver knew that all subtasks had: it is opened at that time here.
        super().__init__(next(self._parts, None), min([begin, *readings]), None, None)
        self._first = True

    def begin_interval(self) -> None:
        """Continue with the next part."""
        if not self._first:
            self._take(next(self._parts, None))
        self._first = False
        super().begin_interval()
