"""Messages between the driver and the slots of a pipelined stage. Each direction is ordered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import TaskAck, TaskFailure

# From the driver to a slot.


@dataclass(frozen=True, slots=True)
class Connect:
    """The addresses of all slots of the stage, by slot. Sent once, before anything else."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TriggerBarrier:
    """Start a checkpoint in the sources of the slot: they take their snapshot and send its barrier.

    `drain`: they stop reading, emit MAX_WATERMARK and finish. `stop`: they read nothing after it, the job ends with this
    checkpoint.
    `aligned`: it must be aligned, whatever the job's settings are (a savepoint).
    """

    checkpoint: int
    triggered_ms: int
    drain: bool = False
    stop: bool = False
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmCheckpoint:
    """A checkpoint is durable and its output is committed: data kept for it can be released."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class CancelCheckpoint:
    """A checkpoint was aborted: tasks no longer wait for its barriers."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class AssignSplits:
    """More splits for a source subtask; `idle` and `no_more_splits` as in SourceAssignment."""

    task: TaskId
    splits: tuple[Any, ...]  # SplitProgress
    no_more_splits: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True)
class AlignmentUpdate:
    """The lowest watermark of a watermark alignment group.

    Splits that are ahead of it by more than their source allows are paused until it comes closer.
    """

    group: str
    watermark: int


@dataclass(frozen=True, slots=True)
class OutputTaken:
    """The driver has received this many bytes of a sink's output: there is capacity for more."""

    task: TaskId
    operator: str
    size: int


@dataclass(frozen=True, slots=True)
class StopSlot:
    """The slot ends: its work is done or cancelled, because a task has `failed` or for another reason."""

    failed: bool = False


Command = (
    Connect
    | TriggerBarrier
    | ConfirmCheckpoint
    | CancelCheckpoint
    | AssignSplits
    | AlignmentUpdate
    | OutputTaken
    | StopSlot
)

# From a slot to the driver.


@dataclass(frozen=True, slots=True)
class SlotListening:
    """The slot listens at an address and waits for Connect. Its first message."""

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
class AcknowledgeCheckpoint:
    """A subtask has passed the barrier of a checkpoint, and its snapshot is durable."""

    checkpoint: int
    ack: TaskAck


@dataclass(frozen=True, slots=True)
class DeclineCheckpoint:
    """A subtask declines a checkpoint; the job continues. `failed`: not because a later one came first."""

    checkpoint: int
    task: TaskId
    reason: str
    failed: bool = True


@dataclass(frozen=True, slots=True)
class SourceFinished:
    """A source subtask has read all its input."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class SplitsFinished:
    """A source subtask has finished splits; checkpoints contain that, too."""

    task: TaskId
    splits: tuple[str, ...]  # their ids


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """The lowest watermark of the sources in a slot that are not idle, by watermark alignment group."""

    slot: int
    watermarks: dict[str, int]


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """Output of a sink for the driver, written immediately (`print`)."""

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
    """The metrics of the subtasks of a slot, once a second. `metrics` are by subtask; names are Flink's."""

    slot: int
    metrics: dict[TaskId, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotTraced:
    """The trace of a slot's subtasks up to now, if the job keeps a journal: another slot has failed, and this one ends."""

    slot: int
    trace: Any  # SlotTrace


Report = (
    SlotListening
    | SlotRunning
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | SourceFinished
    | SplitsFinished
    | AlignmentReport
    | SinkOutput
    | SlotFailed
    | SlotReport
    | SlotTraced
)
