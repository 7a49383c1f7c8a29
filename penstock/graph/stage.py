"""What the slots of a pipelined job are told: subtasks that stay for the life of an attempt. All of it pickles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.deployment import JobSettings, SubtaskRestore, VertexDeployment
from penstock.graph.task_id import TaskId


@dataclass(frozen=True, slots=True)
class DebloatSettings:
    """How much may be under way to an input: what the subtask processes in `target_s`, measured every `period_s`.

    `samples` measurements make an average. A size that differs by less than `threshold_percent` stays.
    """

    enabled: bool = True
    target_s: float = 1.0
    period_s: float = 0.2
    samples: int = 20
    threshold_percent: int = 25


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """How much may be under way between subtasks, and how long a buffer waits to be full.

    `buffer_timeout_ms`: 0 sends after every batch, None only full buffers; any other number is the longest time that records wait. They
    are sent earlier if the slot has nothing else to do.
    """

    channel_bytes: int = 131_072  # under way in one channel, until the receiver has taken it
    gate_bytes: int = 524_288  # beyond that, shared by the channels of one input of a subtask
    slot_bytes: int = 67_108_864  # under way to one slot, over all its channels
    buffer_timeout_ms: int | None = 100
    latency_interval_ms: int = 0  # between two latency markers of a source; 0: none
    debloat: DebloatSettings = field(default_factory=DebloatSettings)


@dataclass(frozen=True, slots=True)
class BarrierSettings:
    """How subtasks pass barriers.

    `aligned_timeout_ms`: how long a barrier may wait for the others before it overtakes; only if `unaligned`. 0: it overtakes at once.
    """

    exactly_once: bool = True
    unaligned: bool = False
    aligned_timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class StageKeys:
    """The keys of one attempt: whoever has them belongs to it."""

    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StageDeployment:
    """What all slots of one stage get: a pipelined region of a job, or several that share their slots.

    `attempt` is a token that no other attempt of any stage has. `placement` has the slot of every subtask.
    `driver` is where the driver listens (`tcp://host:port`).
    """

    settings: JobSettings
    stage: int
    slots: int
    attempt: str
    attempt_number: int
    next_checkpoint: int  # the number of the first checkpoint to be triggered
    vertices: tuple[VertexDeployment, ...]
    placement: dict[TaskId, int]
    restore: dict[TaskId, SubtaskRestore]
    assignments: dict[TaskId, Any]  # SourceAssignments
    state_io: Any  # StateIO
    staging: str
    driver: str
    keys: StageKeys
    network: NetworkSettings = field(default_factory=NetworkSettings)
    barriers: BarrierSettings = field(default_factory=BarrierSettings)


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """What a job asks of a cluster: slots to hold for its stages, or none (0), to share those of jobs in epochs.

    `preferred` are more, with which its regions live side by side. If others hold what it needs, it waits for `timeout_s`, None: as
    long as is usual; or not at all, if it can do otherwise (`waits`).
    """

    job_id: str
    name: str
    slots: int
    preferred: int = 0
    timeout_s: float | None = None
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Room:
    """What a cluster has for stages that stay.

    `slots` is how many tasks can run at once, None if there is no bound. `obstacle` is why it runs no such stage at all, if so.
    """

    slots: int | None = None
    obstacle: str | None = None
