"""Scheduling of the splits of a source subtask.

In an epoch splits are read one after another (`EpochSplitScheduler`). In pipelined mode they are read concurrently, a batch at a time
(`PipelinedSplitScheduler`), without ever blocking.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from penstock.connectors.base.source import (
    NonBlockingReadLimits,
    ReadLimits,
    SourceBatch,
    SplitProgress,
)
from penstock.runtime.records import MAX_WATERMARK
from penstock.runtime.time.decisions import RuntimeDecisions
from penstock.runtime.time.timestamp_assignment import Assignment

# An empty split is polled again after this many seconds, then after twice as many, and so on.
FIRST_PAUSE_S: Final = 0.001
SHORTEST_PAUSE_S: Final = 0.0001
LONGEST_PAUSE_S: Final = 0.010
# Readers that take long to find nothing are polled less often, so that an idle source needs at most 2 % of a core: half
# of that is for
# the surrounding loop.
PAUSE_PER_COST: Final = 100
LONGEST_COSTLY_PAUSE_S: Final = 0.100
# Bounded splits that are open at the same time, in a bounded source; otherwise it is one, as in Flink.
OPEN_AT_ONCE: Final = 16
BATCH_SIZE: Final = 1024  # initial batch size of readers
LARGEST_BATCH_SIZE: Final = 4096  # if downstream operators are known to be fast


class SplitReading:
    """A split that is being read."""

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
        #: The progress that it was assigned with.
        self.progress = progress
        #: Whether it is finished when its reader has nothing more.
        self.bounded = bounded
        #: Where the record after the last one that the chain has processed is read: what a checkpoint contains.
        self.position = progress.position
        #: Never False again.
        self.finished = progress.finished
        #: Whether the watermark waits for it no more. A record ends that.
        self.idle = progress.idle
        #: When it last returned records; when it was assigned, if it has returned none.
        self.active_ms = progress.active_ms or now
        self.assignment = assignment
        self.assignment.restore(progress.generator)
        #: The iterator of its reader, while it reads; None: the reader starts at `position`.
        self.batches: Iterator[SourceBatch] | None = None
        # Epoch mode:
        #: Whether it has returned records in this epoch, and whether it has been scheduled in it.
        self.read = False
        self.visited = False
        # Pipelined mode:
        #: Whether reading has started: bounded splits wait until few enough others are open.
        self.begun = False
        #: Whether its reader has returned nothing since it was started.
        self.fresh = True
        #: Whether the last poll returned nothing.
        self.quiet = False
        #: The length of the last pause, which doubles while it is empty, and when to poll again, by time.monotonic().
        self.pause_s = 0.0
        self.ready_s = 0.0
        #: The first checkpoint that contains it as finished; when that is durable, it is dropped.
        self.reported: int | None = None

    def to_progress(self) -> SplitProgress:
        """Return its progress for the checkpoint."""
        return dataclasses.replace(
            self.progress,
            position=self.position,
            finished=self.finished,
            generator=None if self.finished else self.assignment.snapshot(),
            watermark=self.assignment.watermark,
            active_ms=self.active_ms,
            idle=self.idle,
        )


class SplitScheduler(Protocol):
    """Decides which split is read next, for how long, and which splits count for the source's watermark."""

    @property
    def ends_at_barrier(self) -> bool:
        """Whether all that is read lies before the next barrier, so that splits which have ended wait for no other one."""

    @property
    def time_stands(self) -> bool:
        """Whether there are splits whose watermark is not known yet."""

    def next(self) -> SplitReading | None:
        """Return the split to read a batch from; None if there is none now."""

    def limits(self) -> ReadLimits:
        """Return the limits for a reader that starts now."""

    def on_batch(self, split: SplitReading, records: int) -> None:
        """A batch of the split was read."""

    def on_end(self, split: SplitReading) -> None:
        """The split's reader had nothing more; whether it is finished is known."""

    def counts(self, split: SplitReading) -> bool:
        """Whether the watermark waits for this split."""

    def may_be_idle(self, split: SplitReading) -> bool:
        """Whether the split is known to have no records for now."""

    def in_order(self, splits: Sequence[SplitReading]) -> Sequence[SplitReading]:
        """Return all splits in the order in which they should be read after a restart."""


class EpochSplitScheduler:
    """Epoch mode: one split after another, each until it has nothing more or its share of the time is over.

    They cover the same span of time, so the watermark stands still until the last one has been scheduled.
    """

    ends_at_barrier = True

    def __init__(
        self, splits: Sequence[SplitReading], seconds: float | None, decisions: RuntimeDecisions
    ) -> None:
        self._splits = splits
        self._decisions = decisions
        self._waiting = deque(split for split in splits if not split.finished)
        self._current: SplitReading | None = None
        self._turn_end: float | None = None
        self._end = None if seconds is None else time.monotonic() + seconds

    def next(self) -> SplitReading | None:
        """Return the current split, or the next one."""
        if self._current is None and self._waiting:
            split = self._current = self._waiting.popleft()
            split.visited = True
            self._turn_end = self._share(split)
        return self._current

    def limits(self) -> ReadLimits:
        """Limit the reader to the remaining time of the split."""
        if self._turn_end is None:
            return ReadLimits()
        return ReadLimits.lasting(self._turn_end - time.monotonic())

    def _share(self, split: SplitReading) -> float | None:
        """Return the time limit of a split: an unbounded one leaves the others their share."""
        if self._end is None or split.bounded:
            return self._end
        now = time.monotonic()
        return now + (self._end - now) / (len(self._waiting) + 1)

    def on_batch(self, split: SplitReading, records: int) -> None:
        """End the split's reading if its time is over."""
        split.read = split.read or records > 0
        over = self._turn_end is not None and time.monotonic() >= self._turn_end
        if self._decisions.due("split", over):
            split.batches = None
            self._end_turn()

    def on_end(self, split: SplitReading) -> None:
        """End the split's reading."""
        self._end_turn()

    def _end_turn(self) -> None:
        self._current = None
        over = self._end is not None and time.monotonic() >= self._end
        if self._decisions.due("next split", over):
            self._waiting.clear()

    @property
    def time_stands(self) -> bool:
        """Whether a split has not been scheduled yet."""
        return not all(split.visited or split.finished for split in self._splits)

    def counts(self, split: SplitReading) -> bool:
        """Whether it counts: a split that ends in this epoch counts until the barrier."""
        return split.read or not split.finished

    def may_be_idle(self, split: SplitReading) -> bool:
        """Whether it has been scheduled."""
        return split.visited

    def in_order(self, splits: Sequence[SplitReading]) -> Sequence[SplitReading]:
        """Return the unbounded splits that were not scheduled first."""
        waiting = [s for s in splits if not (s.visited or s.finished or s.bounded)]
        return [*waiting, *(split for split in splits if split not in waiting)]


class PipelinedSplitScheduler:
    """Pipelined mode: all splits concurrently, a batch each; an empty one is paused for some milliseconds.

    Bounded splits (files) wait until few enough of them are open. In a bounded source all of them count for the watermark
    nevertheless; otherwise one counts when it is started, as if it were assigned then.

    `next_ready` returns the seconds until a split may have data, None if its reader does not know.
    """

    ends_at_barrier = False
    time_stands = False
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    cpu_time: Callable[[], float] = staticmethod(time.thread_time)

    def __init__(
        self, *, ends: bool, next_ready: Callable[[SplitReading], float | None] | None = None
    ) -> None:
        self._source_ends = ends
        self._next_ready = next_ready
        self._open: deque[SplitReading] = deque()
        self._waiting: deque[SplitReading] = deque()  # bounded, not started
        self._most_bounded = OPEN_AT_ONCE if ends else 1
        self._asked_cpu_s = 0.0
        self._cost_s = 0.0  # average CPU time of polling an empty split
        self.batch_size = BATCH_SIZE
        self.alignment_limit = MAX_WATERMARK  # watermark alignment: splits beyond it are paused

    def add(self, splits: Sequence[SplitReading]) -> None:
        """Add splits."""
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
        """Return the next split that is due."""
        ring, now = self._open, self.monotonic()
        for _ in range(len(ring)):
            split = ring[0]
            ring.rotate(-1)
            if split.ready_s <= now and not self._exceeds_alignment_limit(split):
                if split.batches is None:
                    split.fresh = True
                if split.quiet:
                    self._asked_cpu_s = self.cpu_time()
                return split
        return None

    def _exceeds_alignment_limit(self, split: SplitReading) -> bool:
        return split.assignment.watermark > self.alignment_limit

    def next_poll(self) -> float | None:
        """Return when (by time.monotonic()) a split is due; None if unknown."""
        moments = [
            split.ready_s for split in self._open if not self._exceeds_alignment_limit(split)
        ]
        first = min(moments, default=float("inf"))
        return None if first == float("inf") else first

    def ask_all(self) -> None:
        """Make all splits due: a reader has signalled data."""
        for split in self._open:
            split.ready_s = 0.0

    def limits(self) -> ReadLimits:
        """Let the reader return available records, without waiting."""
        return NonBlockingReadLimits(self.batch_size)

    def on_batch(self, split: SplitReading, records: int) -> None:
        """Make the split due again, at once or when its reader expects data."""
        if not records:
            self._pause(split)
            return
        split.fresh = split.quiet = False
        split.pause_s = 0.0
        hint = None if self._next_ready is None else self._next_ready(split)
        split.ready_s = self.monotonic() + hint if hint else 0.0

    def on_end(self, split: SplitReading) -> None:
        """Start the next split if it is finished; otherwise poll it again, later if its reader returned nothing."""
        if split.finished:
            self._open.remove(split)
            self._begin_waiting()
        elif split.fresh:
            self._pause(split)

    def _pause(self, split: SplitReading) -> None:
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
        # An empty split is not polled again immediately, whatever its reader says.
        split.ready_s = self.monotonic() + max(hint, SHORTEST_PAUSE_S)

    def counts(self, split: SplitReading) -> bool:
        """Whether it counts: every split that may return records, from its assignment on."""
        return not split.finished and (self._source_ends or split.begun)

    def may_be_idle(self, split: SplitReading) -> bool:
        """Whether the last poll returned nothing; a split that is not polled because of backpressure is not idle."""
        return split.quiet

    def in_order(self, splits: Sequence[SplitReading]) -> Sequence[SplitReading]:
        """Return all splits in order of assignment."""
        return splits


def _together(now: float, pause: float) -> float:
    """Return a time about one pause from now that callers at about the same time share, so that they need one wake-up.

    Times are multiples of the pause, which is rounded to 1, 2, 4, 8, ... milliseconds, so that short and long pauses end
    together, too.

    >>> _together(20.002, 0.01), _together(20.0035, 0.01)
    (20.008, 20.008)
    """
    pause = 0.001 * 2 ** round(math.log2(pause / 0.001))
    return math.ceil((now + pause / 2) / pause) * pause
