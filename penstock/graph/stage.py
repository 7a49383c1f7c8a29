"""Deployment of the slots of a pipelined job, whose subtasks run as long as an attempt. All of it pickles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.deployment import JobSettings, SubtaskRestore, VertexDeployment
from penstock.graph.task_id import TaskId


@dataclass(frozen=True, slots=True)
class DebloatSettings:
    """Settings of buffer debloating: in-flight data is what the subtask processes in `target_s`, measured every `period_s`.

    `samples` measurements are averaged. A size that differs by less than `threshold_percent` is kept.
    """

    enabled: bool = True
    target_s: float = 1.0
    period_s: float = 0.2
    samples: int = 20
    threshold_percent: int = 25


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """Heartbeats of a connection: sent every `interval_ms`; after `timeout_ms` without one, the other side is lost.

    They are for processes that are paused and machines that cannot be reached: a connection that is closed is noticed at once.
    """

    interval_ms: int = 10_000
    timeout_ms: int = 50_000


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Limits of in-flight data between subtasks, the buffer timeout, and heartbeats.

    `buffer_timeout_ms`: 0 sends after every batch, None only full buffers; any other number is the longest time that
    records wait.
    They are sent earlier if the slot is otherwise idle.
    """

    channel_bytes: int = 131_072  # in flight in one channel, until the receiver has taken it
    gate_bytes: int = 524_288  # additional credit shared by the channels of one input gate
    slot_bytes: int = 67_108_864  # in flight to one slot, over all its channels
    buffer_timeout_ms: int | None = 100
    latency_interval_ms: int = 0  # between two latency markers of a source; 0: none
    debloat: DebloatSettings = field(default_factory=DebloatSettings)
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)


@dataclass(frozen=True, slots=True)
class BarrierSettings:
    """Checkpointing mode of subtasks: aligned or unaligned.

    `aligned_timeout_ms`: how long barrier alignment may take before the barrier overtakes records; only if `unaligned`.
    0: at once.
    """

    exactly_once: bool = True
    unaligned: bool = False
    aligned_timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class StageKeys:
    """The authentication keys of one attempt."""

    public: bytes
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StageDeployment:
    """The deployment of all slots of one stage: a pipelined region of a job, or several regions that share slots.

    `attempt` is a token that no other attempt of any stage has. `placement` has the slot of every subtask. `driver` is
    the address
    of the driver (`tcp://host:port`).
    """

    settings: JobSettings
    #: Its number in the plan.
    stage: int
    #: Slots are numbered from 0; `placement` names no other.
    slots: int
    #: A token that no other attempt of any stage has.
    attempt: str
    attempt_number: int
    #: Id of the first checkpoint to be triggered: above all earlier ones.
    next_checkpoint: int
    #: Of the stage's regions.
    vertices: tuple[VertexDeployment, ...]
    #: The slot of every subtask of the vertices.
    placement: dict[TaskId, int]
    #: What each subtask starts from.
    restore: dict[TaskId, SubtaskRestore]
    #: SourceAssignments of the source subtasks.
    assignments: dict[TaskId, Any]
    #: A StateIO that can be pickled.
    state_io: Any
    #: Directory for files of checkpoints that are not complete.
    staging: str
    #: `tcp://host:port`.
    driver: str
    #: For connections between slots and with the driver; valid for this attempt only.
    keys: StageKeys
    network: NetworkSettings = field(default_factory=NetworkSettings)
    barriers: BarrierSettings = field(default_factory=BarrierSettings)


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """The slots that a job requests from a cluster: for its stages, or none (0) for jobs in epoch mode, which share slots.

    `preferred` is a larger number, with which its regions run in separate stages. If the slots are taken, the request
    waits for
    `timeout_s`, None: the default; or not at all, if the job has an alternative (`waits`).
    """

    job_id: str
    name: str
    slots: int
    preferred: int = 0
    timeout_s: float | None = None
    waits: bool = True


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The capacity of a cluster for pipelined stages.

    `slots` is the number of tasks that can run at once, None if unlimited. `obstacle` says why it cannot run such stages
    at all.
    """

    slots: int | None = None
    obstacle: str | None = None
