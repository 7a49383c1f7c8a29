"""Inspection requests to a running slot, and their answers.

This is the complete set of requests: they contain numbers and names, never code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.errors import ArgumentError
from penstock.graph.task_id import TaskId

LONGEST_S: Final = 60.0  # longest time that a slot observes itself for one request
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
    """Sample the stack of the slot's thread `samples` times; with a `task`, only while it works for that subtask."""

    samples: int = 100
    interval_ms: float = 20.0
    task: TaskId | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise ArgumentError(f"samples must be between 1 and {MOST_SAMPLES}, got {self.samples}")
        if not self.interval_ms >= 1 or self.samples * self.interval_ms > LONGEST_S * 1000:
            raise ArgumentError(
                f"cannot take {self.samples} samples every {self.interval_ms:g} ms",
                hint=f"the interval must be at least 1 ms, and the total time at most {LONGEST_S:g} s",
            )

    @property
    def seconds(self) -> float:
        """The duration of the request."""
        return self.samples * self.interval_ms / 1000


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """Dump the stacks of all threads of the slot's process."""

    @property
    def seconds(self) -> float:
        """The duration of the request."""
        return 0.0


@dataclass(frozen=True, slots=True)
class LogTail:
    """Return the last log lines of the slot's process; with `after`, those after that line number."""

    lines: int = 1000
    after: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.lines <= MOST_LINES:
            raise ArgumentError(f"lines must be between 1 and {MOST_LINES}, got {self.lines}")

    @property
    def seconds(self) -> float:
        """The duration of the request."""
        return 0.0


@dataclass(frozen=True, slots=True)
class KeySamples:
    """Sample the keys of a subtask's input, until the time is over or there are enough; return the most frequent ones."""

    task: TaskId
    watch_s: float = 1.0
    keys: int = 20_000
    top: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.watch_s <= LONGEST_S:
            raise ArgumentError(
                f"watch_s must be between 0 and {LONGEST_S:g}, got {self.watch_s:g}"
            )
        if not (1 <= self.keys <= MOST_KEYS and 1 <= self.top <= 1000):
            raise ArgumentError(
                f"invalid number of keys: top={self.top}, keys={self.keys}",
                hint=f"top must be at most 1000, and keys at most {MOST_KEYS}",
            )

    @property
    def seconds(self) -> float:
        """The duration of the request."""
        return self.watch_s


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """Return the split progress of a subtask, and its states."""

    task: TaskId

    @property
    def seconds(self) -> float:
        """The duration of the request."""
        return 0.0


@dataclass(frozen=True, slots=True)
class ProcessDetails:
    """Return the resource usage of the slot's process."""

    @property
    def seconds(self) -> float:
        """The duration of the request."""
        return 0.0


InspectionRequest = StackSamples | ThreadDump | LogTail | KeySamples | TaskDetails | ProcessDetails


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stack samples of a slot's thread: by stack, outermost function first, how often it was on a CPU and waiting.

    `samples` is the total number; with a requested task, samples of other tasks are included.
    """

    samples: int = 0
    counts: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """One thread: its name, whether it runs the subtasks, and its stack as text, innermost first."""

    name: str
    ident: int
    runs_tasks: bool
    daemon: bool
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LogLines:
    """Log lines; `last` is the number of the last one, to continue from, and `lost` the number of dropped lines."""

    lines: tuple[str, ...] = ()
    last: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class FrequentKeys:
    """The most frequent keys of a subtask's input, as texts, with their counts among the `sampled` keys.

    `distinct` is the number of different keys among them.
    """

    sampled: int = 0
    distinct: int = 0
    top: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SplitTime:
    """The event time of a split; `counts` says that the watermark of its source includes it."""

    split: str
    watermark: int
    idle: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class StateUsage:
    """A keyed state of an operator, and whether its entries expire."""

    operator: str  # operator id
    name: str
    kind: str
    expires: bool


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """Details of a subtask; a source has splits."""

    splits: tuple[SplitTime, ...] = ()
    states: tuple[StateUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Resource usage of a process: current and peak memory in bytes, and the number of threads.

    `limit` is its memory limit, its own or its container's; None if unlimited.
    """

    process: int
    memory: int
    peak_memory: int
    limit: int | None
    threads: int


@dataclass(frozen=True, slots=True)
class SlotInfo:
    """A running slot: its host, process and tasks."""

    id: SlotId
    host: str
    process: int
    tasks: tuple[TaskId, ...]
