"""Decisions that depend on the wall clock or on chance, behind one interface, so that they can be recorded and replayed.

A replay from the same state over the same records gives the same output if these decisions are the same: clock readings, when
a periodic watermark was due, when a source's time was over, the batch sizes of its reader, the positions of round-robin
exchanges, the arrival order of channels, and the completion order of asynchronous calls. A `RecordedDecisions` records them
while a subtask runs; the trace is sent with the ACK.
"""

from __future__ import annotations

import contextlib
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.graph.task_id import TaskId
from penstock.runtime.time.call_log import PackedCalls
from penstock.time.clock import now_ms

ANSWERS_TAKEN: Final = 2**62  # in a log of answers: the operator continued without waiting for more
CALL_FAILED: Final = ANSWERS_TAKEN + 1  # in a log of answers: the job failed
TURN: Final = "turn"  # the log of which split is read next
READER_ENDED: Final = -1  # in the log of batch sizes: the reader had no more
MAX_RUNS: Final = 4_000  # of one log in one epoch; later ones are not recorded
PIPELINED_MAX_RUNS: Final = (
    100_000  # the same between two checkpoints in pipelined mode, which may be minutes
)


def wall_clock() -> int:
    """Return the processing time in epoch milliseconds."""
    return now_ms()


class RuntimeDecisions(Protocol):
    """Makes the decisions that depend on the wall clock or on chance, for one subtask."""

    @property
    def traces(self) -> bool:
        """Whether decisions are recorded or replayed."""

    def clock(self) -> int:
        """Return the processing time in epoch milliseconds."""

    def due(self, place: str, due: bool) -> bool:
        """Whether the event `place` is due; `due` is the decision of the clock."""

    def turn(self, split: str | None) -> str | None:
        """Return the id of the split to read next, None for none now; `split` is the one that is ready."""

    def answered(self, place: str, answer: int) -> None:
        """Record which call completed next, or ANSWERS_TAKEN."""

    def answers(self, place: str) -> Iterator[int] | None:
        """Return which calls completed next, if recorded."""

    def batches(
        self, reader: SourceReader, split: SourceSplit, position: object, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Read a split, in the batches of the reader or of the recording."""

    def routers(self, snapshots: list[Any]) -> list[Any]:
        """Return the initial positions of this subtask's exchanges; `memories` are the current ones."""

    def begin_interval(self) -> None:
        """Begin a new trace, before the first record of the interval."""

    def trace(self, task: TaskId) -> SubtaskTrace | None:
        """End the trace and return it."""


class WallClockDecisions:
    """Uses the wall clock, and records nothing."""

    traces = False

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self.clock = clock

    def due(self, place: str, due: bool) -> bool:
        """Return the decision of the clock."""
        return due

    def turn(self, split: str | None) -> str | None:
        """Return the split that is ready."""
        return split

    def answered(self, place: str, answer: int) -> None:
        """Record nothing."""

    def answers(self, place: str) -> None:
        """Return None: calls complete in their own order."""

    def batches(
        self, reader: SourceReader, split: SourceSplit, position: object, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Read the batches of the reader."""
        return reader.read(split, position, limits)

    def routers(self, snapshots: list[Any]) -> list[Any]:
        """Keep the current positions."""
        return snapshots

    def begin_interval(self) -> None:
        """Do nothing."""

    def trace(self, task: TaskId) -> SubtaskTrace | None:
        """Return None."""
        return None


class RunLog:
    """A run-length encoded sequence of values, up to a limit."""

    __slots__ = ("_count", "_limit", "_runs", "_value", "cut")

    def __init__(self, limit: int = MAX_RUNS) -> None:
        self._limit = limit
        self._runs: list[tuple[Any, int]] = []
        self._value: Any = None
        self._count = 0
        self.cut = False

    def add(self, value: Any) -> None:
        """Append a value."""
        if value == self._value and self._count:
            self._count += 1
            return
        self._close()
        self._value, self._count = value, 1

    def _close(self) -> None:
        if len(self._runs) >= self._limit:
            self.cut = True
        elif self._count:
            self._runs.append((self._value, self._count))

    def pack(self) -> PackedRuns:
        """Return the packed values."""
        self._close()
        self._count = 0
        return PackedRuns.of(self._runs, cut=self.cut)


@dataclass(frozen=True, slots=True)
class PackedRuns:
    """Packed runs of equal values. `cut` says that later values were not recorded."""

    values: tuple[Any, ...] = ()  # the distinct values
    data: bytes = b""
    cut: bool = False

    @classmethod
    def of(cls, runs: Iterable[tuple[Any, int]], *, cut: bool = False) -> PackedRuns:
        """Pack (value, count) pairs."""
        numbers: dict[Any, int] = {}
        flat = array("Q")
        for value, count in runs:
            flat.append(numbers.setdefault(value, len(numbers)))
            flat.append(count)
        return cls(tuple(numbers), zlib.compress(flat.tobytes(), 1) if flat else b"", cut)

    def runs(self) -> list[tuple[Any, int]]:
        """Return the (value, count) pairs."""
        if not self.data:
            return []
        flat = array("Q", zlib.decompress(self.data))
        return [
            (self.values[number], count)
            for number, count in zip(flat[::2], flat[1::2], strict=True)
        ]

    def __iter__(self) -> Iterator[Any]:
        for value, count in self.runs():
            for _ in range(count):
                yield value


@dataclass(frozen=True, slots=True)
class ClockLog:
    """Clock readings: the first one, and runs of (milliseconds since the last run, number of readings)."""

    first: int = 0
    steps: PackedRuns = field(default_factory=PackedRuns)

    @classmethod
    def of(cls, runs: list[tuple[int, int]], *, cut: bool = False) -> ClockLog:
        """Create a log from (reading, count) pairs."""
        if not runs:
            return cls(steps=PackedRuns(cut=cut))
        before = [runs[0][0], *(reading for reading, _ in runs)]
        steps = [
            (reading - last, count) for last, (reading, count) in zip(before, runs, strict=False)
        ]
        return cls(runs[0][0], PackedRuns.of(steps, cut=cut))

    def runs(self) -> list[tuple[int, int]]:
        """Return (reading, count) pairs."""
        now, found = self.first, []
        for step, count in self.steps.runs():
            now += step
            found.append((now, count))
        return found


@dataclass(frozen=True, slots=True)
class SubtaskTrace:
    """The decisions of one subtask in one epoch. `opening` has the clock readings before the epoch, if it was opened for it.

    In pipelined mode it covers the interval between two barriers, and has the order of the subtask's calls; `checkpoint` is
    the id of the second barrier, None if the subtask failed or ended before it.
    """

    task: TaskId
    opening: ClockLog
    clock: ClockLog
    decisions: dict[str, PackedRuns]
    batches: PackedRuns
    routers: tuple[Any, ...] = ()
    calls: PackedCalls | None = None
    checkpoint: int | None = None


@dataclass(frozen=True, slots=True)
class SlotTrace:
    """The decisions of one slot in one epoch; `arrivals` are rows by (vertex, gate, channel).

    In pipelined mode there are no levels and no rows: `subtasks` has the traces of any subtasks, each in the order of its
    barriers.
    """

    level: int
    slot: int
    arrivals: PackedRuns
    subtasks: tuple[SubtaskTrace, ...]


class RecordedDecisions:
    """Uses the wall clock, and records its decisions.

    A reading costs 70 ns more than without recording.
    """

    traces = True

    def __init__(self, clock: Callable[[], int] = wall_clock, limit: int = MAX_RUNS) -> None:
        self._wall = clock
        self._limit = limit
        self._opening = ClockLog()
        self._opened = False
        self._begin()

    def _begin(self) -> None:
        self._readings: list[tuple[int, int]] = []
        self._now = 0
        self._count = 0
        self._cut = False
        self._decisions: dict[str, RunLog] = {}
        self._batches = RunLog(self._limit)
        self._routers: tuple[Any, ...] = ()

    def begin_interval(self) -> None:
        """Begin a new trace."""
        self._opening = self._clock_log()
        self._opened = True
        self._begin()

    def clock(self) -> int:
        """Read the clock."""
        now = self._wall()
        if now != self._now:
            self._close_run()
            self._now = now
        self._count += 1
        return now

    @contextlib.contextmanager
    def unnoted(self) -> Iterator[None]:
        """Discard the clock readings in the body: they have no effect that must be replayed."""
        readings, now, count, cut = len(self._readings), self._now, self._count, self._cut
        try:
            yield
        finally:
            if len(self._readings) > readings:
                del self._readings[readings:]
            self._now, self._count, self._cut = now, count, cut

    def _close_run(self) -> None:
        if self._count:
            if len(self._readings) < self._limit:
                self._readings.append((self._now, self._count))
            else:
                self._cut = True
            self._count = 0

    def _clock_log(self) -> ClockLog:
        self._close_run()
        return ClockLog.of(self._readings, cut=self._cut)

    def due(self, place: str, due: bool) -> bool:
        """Record the decision of the clock."""
        self.answered(place, due)
        return due

    def turn(self, split: str | None) -> str | None:
        """Record the split that is ready; None has no effect."""
        if split is not None:
            self._log(TURN).add(split)
        return split

    def answered(self, place: str, answer: int) -> None:
        """Record which call completed."""
        self._log(place).add(answer)

    def _log(self, place: str) -> RunLog:
        log = self._decisions.get(place)
        if log is None:
            log = self._decisions[place] = RunLog(self._limit)
        return log

    def answers(self, place: str) -> None:
        """Return None: calls complete in their own order."""

    def batches(
        self, reader: SourceReader, split: SourceSplit, position: object, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Read, and record the batch sizes."""
        for batch in reader.read(split, position, limits):
            self._batches.add(len(batch.records))
            yield batch
        self._batches.add(
            READER_ENDED
        )  # of the trace at that time: in pipelined mode, reading continues across barriers

    def routers(self, snapshots: list[Any]) -> list[Any]:
        """Record the positions of the exchanges."""
        self._routers = tuple(snapshots)
        return snapshots

    def trace(self, task: TaskId) -> SubtaskTrace:
        """Return the trace since the begin of the epoch; the next one has an opening only if the subtask is opened."""
        return self.detach(task)()

    def detach(self, task: TaskId) -> Callable[[], SubtaskTrace]:
        """End the trace; return a thread-safe function that creates it, because that takes longer."""
        if not self._opened:  # it failed before
            self.begin_interval()
        self._close_run()
        opening, readings, cut = self._opening, self._readings, self._cut
        decisions, batches, routers = self._decisions, self._batches, self._routers
        self._opening = ClockLog()
        self._begin()
        return lambda: SubtaskTrace(
            task,
            opening,
            ClockLog.of(readings, cut=cut),
            {place: log.pack() for place, log in decisions.items()},
            batches.pack(),
            routers,
        )


WALL: Final = WallClockDecisions()
