"""What the driver and the slots of a pipelined stage tell each other. Each direction keeps its order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import TaskAck, TaskFailure

# From the driver to a slot


@dataclass(frozen=True, slots=True)
class Connect:
    """All slots of the stage listen: here are their addresses, by slot. Comes once, before anything else."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Sources of the slot begin a checkpoint: they take their snapshot and send its barrier.

    `drain`: they read nothing more, time goes to its end, and so do they. `stop`: they read nothing after it, the job ends with this
    checkpoint. `aligned`: it must be aligned, whatever the job's settings say (a savepoint).
    """

    checkpoint: int
    triggered_ms: int
    drain: bool = False
    stop: bool = False
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Completed:
    """A checkpoint is durable and its output is committed: what was kept for it can go."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """A checkpoint will never be complete: nobody needs to wait for its barriers any more."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Assign:
    """A source subtask gets more splits; `idle` and `no_more_splits` as in SourceAssignment."""

    task: TaskId
    splits: tuple[Any, ...]  # SplitProgress
    no_more_splits: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True)
class AllowTime:
    """The slowest source of an alignment group has reached this watermark.

    Splits that are ahead of it by more than their source allows are not read until it comes nearer.
    """

    group: str
    watermark: int


@dataclass(frozen=True, slots=True)
class OutputTaken:
    """The driver has taken so many bytes of what a sink sent to it: there is room for more."""

    task: TaskId
    operator: str
    size: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The slot ends: its work is done, or given up, because a task has `failed` or for another reason."""

    failed: bool = False


Command = Connect | Trigger | Completed | Aborted | Assign | AllowTime | OutputTaken | Leave

# From a slot to the driver


@dataclass(frozen=True, slots=True)
class SlotListening:
    """The slot can be reached by the others at an address; it waits for Connect. The first that it tells."""

    slot: int
    address: str
    process: int


@dataclass(frozen=True, slots=True)
class SlotRunning:
    """All subtasks of the slot are open and connected."""

    slot: int
    process: int
    host: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A subtask has passed the barrier of a checkpoint, and what it has written is durable."""

    checkpoint: int
    ack: TaskAck


@dataclass(frozen=True, slots=True)
class Declined:
    """A subtask cannot take part in a checkpoint; the job goes on. `failed`: not because a later one has come first."""

    checkpoint: int
    task: TaskId
    reason: str
    failed: bool = True


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """A source subtask has read all that it will ever read."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class SplitsFinished:
    """A source subtask has read splits to their end; checkpoints tell it again."""

    task: TaskId
    splits: tuple[str, ...]  # their ids


@dataclass(frozen=True, slots=True)
class TimesReached:
    """How far the sources of alignment groups have come in a slot, by group: the slowest of each that is not idle."""

    slot: int
    watermarks: dict[str, int]


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """What a sink puts out on the driver, at once (`print`)."""

    task: TaskId
    operator: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SlotFailed:
    """A subtask of the slot failed; the slot has ended."""

    slot: int
    failure: TaskFailure


@dataclass(frozen=True, slots=True)
class SlotReport:
    """How the subtasks of a slot are doing, once a second. `metrics` are by subtask; names are Flink's."""

    slot: int
    metrics: dict[TaskId, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotTraced:
    """What the subtasks of a slot have noted up to now, if the job keeps a journal: another slot has failed, and this one leaves."""

    slot: int
    trace: Any  # SlotTrace


Report = (
    SlotListening
    | SlotRunning
    | Acknowledged
    | Declined
    | SourceFinished
    | SplitsFinished
    | TimesReached
    | SinkOutput
    | SlotFailed
    | SlotReport
    | SlotTraced
)
