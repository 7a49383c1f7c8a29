"""What can be asked of a slot while it runs, and what it answers.

This is all that a slot ever does for whoever looks at a job: a request holds numbers and names, never code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.errors import ArgumentError
from penstock.graph.task_id import TaskId

LONGEST_S: Final = 60.0  # that a slot watches itself for one request
MOST_SAMPLES: Final = 5000
MOST_LINES: Final = 100_000
MOST_KEYS: Final = 1_000_000


class SlotId(NamedTuple):
    """One slot of one stage of a job.

    >>> str(SlotId(0, 3))
    'stage 0, slot 3'
    """

    stage: int
    slot: int

    def __str__(self) -> str:
        return f"stage {self.stage}, slot {self.slot}"


@dataclass(frozen=True, slots=True)
class StackSamples:
    """Look at the stack of the slot's thread so many times; with a `task` only what it did for that subtask."""

    samples: int = 100
    interval_ms: float = 20.0
    task: TaskId | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise ArgumentError(f"{self.samples} samples cannot be taken, 1 to {MOST_SAMPLES} can")
        if not self.interval_ms >= 1 or self.samples * self.interval_ms > LONGEST_S * 1000:
            raise ArgumentError(
                f"{self.samples} samples every {self.interval_ms:g} ms cannot be taken",
                hint=f"the interval is at least 1 ms, and all of it takes at most {LONGEST_S:g} s",
            )

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.samples * self.interval_ms / 1000


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """Tell what all threads of the slot's process are doing."""

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return 0.0


@dataclass(frozen=True, slots=True)
class LogTail:
    """Tell the last lines of the log of the slot's process; those after line number `after`, if it is told."""

    lines: int = 1000
    after: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.lines <= MOST_LINES:
            raise ArgumentError(f"{self.lines} lines cannot be read, 1 to {MOST_LINES} can")

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return 0.0


@dataclass(frozen=True, slots=True)
class KeySamples:
    """Look at the keys of records that a subtask takes, for so long or until there are enough; tell the most frequent ones."""

    task: TaskId
    watch_s: float = 1.0
    keys: int = 20_000
    top: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.watch_s <= LONGEST_S:
            raise ArgumentError(
                f"keys cannot be watched for {self.watch_s:g} s, up to {LONGEST_S:g} s they can"
            )
        if not (1 <= self.keys <= MOST_KEYS and 1 <= self.top <= 1000):
            raise ArgumentError(
                f"{self.top} of {self.keys} keys cannot be told",
                hint=f"up to 1000 of up to {MOST_KEYS} can",
            )

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.watch_s


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """Tell how far the splits of a subtask have come, and which states it has."""

    task: TaskId

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return 0.0


@dataclass(frozen=True, slots=True)
class ProcessDetails:
    """Tell what the slot's process uses."""

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return 0.0


InspectionRequest = StackSamples | ThreadDump | LogTail | KeySamples | TaskDetails | ProcessDetails


@dataclass(frozen=True, slots=True)
class Stacks:
    """What a slot's thread did: by stack, outermost function first, how often it was seen on a processor and waiting.

    `samples` is how often it was looked at; where a task was asked for, looks at the work of other tasks are in it, too.
    """

    samples: int = 0
    counts: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """One thread: its name, whether it is the one that runs the subtasks, and its stack as text, innermost first."""

    name: str
    ident: int
    runs_tasks: bool
    daemon: bool
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogLines:
    """Lines of a log; `last` is the number of the last one, to go on from, and `lost` how many between were dropped."""

    lines: tuple[str, ...] = ()
    last: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class FrequentKeys:
    """The most frequent keys of a subtask's input, as texts, with how many of the `sampled` ones they were.

    `distinct` is how many different ones were among those.
    """

    sampled: int = 0
    distinct: int = 0
    top: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SplitTime:
    """How far a split has come in event time; `counts` says that the time of its source waits for it."""

    split: str
    watermark: int
    idle: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class HeldState:
    """A keyed state of an operator, and whether its entries expire."""

    operator: str  # its id
    name: str
    kind: str
    expires: bool


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """What a subtask tells of itself; a source has splits."""

    splits: tuple[SplitTime, ...] = ()
    states: tuple[HeldState, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What a process uses: memory in bytes, now and at most, and how many threads.

    `limit` is what it may use, by itself or with the others of its container; None if nobody has set one.
    """

    process: int
    memory: int
    peak_memory: int
    limit: int | None
    threads: int


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A slot that runs: where, in which process, and what."""

    id: SlotId
    host: str
    process: int
    tasks: tuple[TaskId, ...]
