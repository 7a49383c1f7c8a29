"""The splits of a source subtask while they are read, and whose turn it is.

A source that is read for one epoch gives its splits turns, one after another (`EpochTurns`). Where records flow, splits are read side by
side, a batch at a time (`SideBySide`), and nothing ever waits.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from penstock.connectors.source import OneLook, ReadLimits, SourceBatch, SplitProgress
from penstock.runtime.records import MAX_WATERMARK
from penstock.runtime.time.assigning import Assignment
from penstock.runtime.time.pace import Pace

# A split that had nothing is asked again after this many seconds, then after twice as many, and so on.
FIRST_PAUSE_S: Final = 0.001
SHORTEST_PAUSE_S: Final = 0.0001
LONGEST_PAUSE_S: Final = 0.010
# Readers that need long to see that there is nothing are asked more seldom, so that an idle source needs 2 % of a core at most: half of that
# is for what is around them.
PAUSE_PER_COST: Final = 100
LONGEST_COSTLY_PAUSE_S: Final = 0.100
# Splits with an end that are open at the same time, in a source that ends; in others it is one, as in Flink.
OPEN_AT_ONCE: Final = 16
BATCH_SIZE: Final = 1024  # what readers are asked for at once, at first
LARGEST_BATCH_SIZE: Final = 4096  # when it is known that what comes after them is fast


class SplitReading:
    """A split while it is read."""

    __slots__ = (
        "active_ms",
        "assignment",
        "batches",
        "begun",
        "bounded",
        "finished",
        "fresh",
        "idle",
        "pause_s",
        "position",
        "progress",
        "quiet",
        "read",
        "ready_s",
        "reported",
        "visited",
    )

    def __init__(
        self, progress: SplitProgress, assignment: Assignment, now: int, *, bounded: bool
    ) -> None:
        self.progress = progress
        self.bounded = bounded  # it is finished when its reader has nothing more
        self.position = progress.position
        self.finished = progress.finished
        self.idle = progress.idle
        self.active_ms = progress.active_ms or now
        self.assignment = assignment
        self.assignment.restore(progress.generator)
        self.batches: Iterator[SourceBatch] | None = None  # what its reader gives, while it reads
        # Of an epoch:
        self.read = False  # has it given records?
        self.visited = False  # has it had its turn?
        # Of splits that are read side by side:
        self.begun = False  # is it read?
        self.fresh = True  # has its reader given nothing since it was last asked to read?
        self.quiet = False  # had it nothing when it was last asked?
        self.pause_s = 0.0  # how long it was left alone before
        self.ready_s = 0.0  # when it is worth asking again, on time.monotonic()
        self.reported: int | None = None  # the first checkpoint that was told that it is finished

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


class Turns(Protocol):
    """Decides which split is read next, for how long, and which of them count for the source's time."""

    @property
    def time_stands(self) -> bool:
        """Whether there are splits whose time is not known yet."""

    def next(self) -> SplitReading | None:
        """Return the split to read a batch of; None if there is none now."""

    def limits(self) -> ReadLimits:
        """Return when a reader that begins now should stop."""

    def on_batch(self, split: SplitReading, records: int) -> None:
        """A batch of the split was read."""

    def on_end(self, split: SplitReading) -> None:
        """The split's reader had nothing more; whether it is finished is known."""

    def counts(self, split: SplitReading) -> bool:
        """Whether time waits for this split."""

    def may_be_idle(self, split: SplitReading) -> bool:
        """Whether it is known that the split has no records for now."""

    def in_order(self, splits: Sequence[SplitReading]) -> Sequence[SplitReading]:
        """Return all splits in the order in which they should be read after a restart."""


class EpochTurns:
    """Splits one after another: each turn lasts until there is nothing more now, or until the split's part of the time is over.

    They stand for the same span of time, so time stands still until the last one has its turn.
    """

    def __init__(self, splits: Sequence[SplitReading], seconds: float | None, pace: Pace) -> None:
        self._splits = splits
        self._pace = pace
        self._waiting = deque(split for split in splits if not split.finished)
        self._current: SplitReading | None = None
        self._turn_end: float | None = None
        self._end = None if seconds is None else time.monotonic() + seconds

    def next(self) -> SplitReading | None:
        """Return the split whose turn it is, or the next one in line."""
        if self._current is None and self._waiting:
            split = self._current = self._waiting.popleft()
            split.visited = True
            self._turn_end = self._share(split)
        return self._current

    def limits(self) -> ReadLimits:
        """Give the reader as long as the turn lasts."""
        if self._turn_end is None:
            return ReadLimits()
        return ReadLimits.lasting(self._turn_end - time.monotonic())

    def _share(self, split: SplitReading) -> float | None:
        """Return when a split's turn ends: one without an end leaves the others their part of the time."""
        if self._end is None or split.bounded:
            return self._end
        now = time.monotonic()
        return now + (self._end - now) / (len(self._waiting) + 1)

    def on_batch(self, split: SplitReading, records: int) -> None:
        """End the turn if its time is over."""
        split.read = split.read or records > 0
        over = self._turn_end is not None and time.monotonic() >= self._turn_end
        if self._pace.due("split", over):
            split.batches = None
            self._end_turn()

    def on_end(self, split: SplitReading) -> None:
        """End the turn."""
        self._end_turn()

    def _end_turn(self) -> None:
        self._current = None
        over = self._end is not None and time.monotonic() >= self._end
        if self._pace.due("next split", over):
            self._waiting.clear()

    @property
    def time_stands(self) -> bool:
        """Whether a split has not had its turn yet."""
        return not all(split.visited or split.finished for split in self._splits)

    def counts(self, split: SplitReading) -> bool:
        """Let a split that ends in this epoch count until the barrier."""
        return split.read or not split.finished

    def may_be_idle(self, split: SplitReading) -> bool:
        """Whether it has had its turn."""
        return split.visited

    def in_order(self, splits: Sequence[SplitReading]) -> Sequence[SplitReading]:
        """Return those without an end that had no turn first."""
        waiting = [s for s in splits if not (s.visited or s.finished or s.bounded)]
        return [*waiting, *(split for split in splits if split not in waiting)]


class SideBySide:
    """All splits at the same time, a batch each: one that has nothing is left alone for some milliseconds.

    Splits with an end (files) wait until there are few enough of them open. In a source that ends as a whole all of them count for time
    nevertheless; in others one counts when it is begun, as if it were assigned then.

    `next_ready` returns in how many seconds a split may have something, None if its reader cannot tell.
    """

    time_stands = False
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    cpu_time: Callable[[], float] = staticmethod(time.thread_time)

    def __init__(
        self, *, ends: bool, next_ready: Callable[[SplitReading], float | None] | None = None
    ) -> None:
        self._source_ends = ends
        self._next_ready = next_ready
        self._open: deque[SplitReading] = deque()
        self._waiting: deque[SplitReading] = deque()  # with an end, not begun
        self._most_bounded = OPEN_AT_ONCE if ends else 1
        self._asked_cpu_s = 0.0
        self._cost_s = 0.0  # of seeing that a split has nothing, on the average
        self.batch_size = BATCH_SIZE
        self.allowed = MAX_WATERMARK  # splits that are beyond it wait for others

    def add(self, splits: Sequence[SplitReading]) -> None:
        """Read these too."""
        for split in splits:
            if split.bounded and not split.finished:
                self._waiting.append(split)
            elif not split.finished:
                self._begin(split)
        self._begin_waiting()

    def _begin(self, split: SplitReading) -> None:
        split.begun = True
        self._open.append(split)

    def _begin_waiting(self) -> None:
        bounded = sum(split.bounded for split in self._open)
        while self._waiting and bounded < self._most_bounded:
            self._begin(self._waiting.popleft())
            bounded += 1

    def next(self) -> SplitReading | None:
        """Return the next split in the round that is worth asking."""
        ring, now = self._open, self.monotonic()
        for _ in range(len(ring)):
            split = ring[0]
            ring.rotate(-1)
            if split.ready_s <= now and not self._is_beyond(split):
                if split.batches is None:
                    split.fresh = True
                if split.quiet:
                    self._asked_cpu_s = self.cpu_time()
                return split
        return None

    def _is_beyond(self, split: SplitReading) -> bool:
        return split.assignment.watermark > self.allowed

    def next_poll(self) -> float | None:
        """Return when (on time.monotonic()) a split is worth asking; None if nobody knows."""
        moments = [split.ready_s for split in self._open if not self._is_beyond(split)]
        first = min(moments, default=float("inf"))
        return None if first == float("inf") else first

    def ask_all(self) -> None:
        """Ask all splits soon: somebody knows that there is something."""
        for split in self._open:
            split.ready_s = 0.0

    def limits(self) -> ReadLimits:
        """Let the reader see what is there, without waiting."""
        return OneLook(self.batch_size)

    def on_batch(self, split: SplitReading, records: int) -> None:
        """Ask again at once, unless it is known that there will be nothing."""
        if not records:
            self._leave_alone(split)
            return
        split.fresh = split.quiet = False
        split.pause_s = 0.0
        hint = None if self._next_ready is None else self._next_ready(split)
        split.ready_s = self.monotonic() + hint if hint else 0.0

    def on_end(self, split: SplitReading) -> None:
        """Let the next one begin if it is finished; else ask again, later if its reader gave nothing."""
        if split.finished:
            self._open.remove(split)
            self._begin_waiting()
        elif split.fresh:
            self._leave_alone(split)

    def _leave_alone(self, split: SplitReading) -> None:
        hint = None if self._next_ready is None else self._next_ready(split)
        if split.quiet:
            self._cost_s += (self.cpu_time() - self._asked_cpu_s - self._cost_s) / 8
        split.quiet = True
        if hint is None:
            split.pause_s = min(max(2 * split.pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            costly = PAUSE_PER_COST * self._cost_s * len(self._open)
            costly = min(costly, LONGEST_COSTLY_PAUSE_S)
            hint = max(split.pause_s, costly)
            if len(self._open) > 1:
                split.ready_s = _together(self.monotonic(), hint)
                return
        # One that has just had nothing is not asked in the same moment, whatever its reader says.
        split.ready_s = self.monotonic() + max(hint, SHORTEST_PAUSE_S)

    def counts(self, split: SplitReading) -> bool:
        """Let all count that may give records, from their assignment on."""
        return not split.finished and (self._source_ends or split.begun)

    def may_be_idle(self, split: SplitReading) -> bool:
        """Whether it had nothing when it was last asked: one that is not asked, as nobody takes its records, is not idle."""
        return split.quiet

    def in_order(self, splits: Sequence[SplitReading]) -> Sequence[SplitReading]:
        """Return all as they came."""
        return splits


def _together(now: float, pause: float) -> float:
    """Return a moment after about so long which is the same for all who ask at about the same time: one wake-up is enough for them.

    Moments are multiples of the pause, which is rounded to 1, 2, 4, 8, ... milliseconds, so that short and long pauses end together, too.

    >>> _together(20.002, 0.01), _together(20.0035, 0.01)
    (20.008, 20.008)
    """
    pause = 0.001 * 2 ** round(math.log2(pause / 0.001))
    return math.ceil((now + pause / 2) / pause) * pause
