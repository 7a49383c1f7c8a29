"""What a Spark task is told: the vertices of its level and where this epoch starts from.

Everything here is plain data that pickles. User code travels as `VertexDeployment.code`, a cloudpickle that each
subtask loads for itself, so that no two subtasks share a function object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.common.logs.setup import LogSettings
from penstock.graph.state_backend import StateBackendSettings
from penstock.graph.task_id import TaskId


@dataclass(frozen=True, slots=True)
class ChainedOperatorInfo:
    """One operator of a chain, without its code. `chained` are (index in the chain, side output tag or None)."""

    operator_id: str
    name: str
    chained: tuple[tuple[int, str | None], ...] = ()
    untimed_inputs: str | None = None  # which operators before it emit records without timestamps


@dataclass(frozen=True, slots=True)
class InputGate:
    """One incoming edge. `gate` numbers the edges of a vertex; `local` edges stay inside the slot."""

    gate: int
    source_id: str  # of the vertex that sends
    input_index: int
    source_parallelism: int
    partitioning: str
    local: bool


@dataclass(frozen=True, slots=True)
class ResultEdge:
    """One outgoing edge; its partitioning (with user code) is `VertexCode.partitionings[index]`."""

    index: int
    operator: int
    side_tag: str | None
    target_vertex: int
    target_gate: int
    target_parallelism: int
    target_max_parallelism: int
    partitioning: str
    local: bool
    target_id: str = ""  # of the vertex that receives


@dataclass(frozen=True, slots=True)
class VertexDeployment:
    """One vertex: its chain, its edges, its user code as bytes."""

    vertex: int  # its number in the plan: short, for the rows of the pipe
    id: str
    name: str
    level: int
    parallelism: int
    max_parallelism: int
    operators: tuple[ChainedOperatorInfo, ...]
    gates: tuple[InputGate, ...]
    edges: tuple[ResultEdge, ...]
    keyed: frozenset[int]  # positions in the chain of operators that have keyed state
    code: bytes
    slot_offset: int = 0  # level 0 only: slot of the vertex's first subtask
    buffer_timeout_ms: int | None = None  # None: that of the job

    def task(self, subtask: int) -> TaskId:
        """Return the name of one of its subtasks."""
        return TaskId(self.id, subtask)


@dataclass(frozen=True, slots=True)
class VertexCode:
    """What `VertexDeployment.code` holds: the operator specs and the partitionings of the outgoing edges.

    `types` has, per operator, the declared types of what it emits: by side output tag, None for the main output. Only types
    that values must be checked by are in it.
    """

    specs: tuple[Any, ...]
    partitionings: tuple[Any, ...]
    types: tuple[dict[str | None, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SubtaskRestore:
    """Where a subtask starts from.

    `snapshot` names the snapshot (a cached subtask with the same name is used as it is). `keyed` has, per operator id,
    chains of state handles, read with the task's StateIO; `owned` are the key groups to keep, or None to keep all.
    `local` is the subtask's other state, or None if the vertex ran with another parallelism or chain. `former` has such
    state of all former subtasks, by the id of the vertex that they belonged to; a subtask that has no `local` takes its part
    of it. `anew` says that the job has just started: upstream tells its watermarks again. `in_flight` has handles of what was under
    way between subtasks: of all former subtasks of this vertex and of those that it sends to, by vertex id; empty if nothing was.
    """

    snapshot: str | None = None
    keyed: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    owned: range | None = None
    local: bytes | None = None
    former: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    anew: bool = False
    in_flight: dict[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What is the same for all tasks of a job."""

    job_id: str
    job_name: str
    auto_watermark_interval: int = 200
    batch_mode: bool = False
    buffer_bytes: int = 65_536
    check_order: bool = False
    job_parameters: dict[str, str] = field(default_factory=dict)
    state_backend: StateBackendSettings = field(default_factory=StateBackendSettings)
    pyflink_names: bool = False  # the program says `import pyflink`, and so may its modules
    logs: LogSettings = field(default_factory=LogSettings)
    journal: bool = False  # tasks tell what an epoch needs to be run again
    checkpointed: bool = True  # checkpoints are taken from time to time, not at the end only


@dataclass(frozen=True, slots=True)
class LevelDeployment:
    """What the tasks of one level get in one epoch."""

    settings: JobSettings
    level: int
    slots: int  # tasks of this level
    epoch: int
    attempt_number: int
    vertices: tuple[VertexDeployment, ...]
    restore: dict[TaskId, SubtaskRestore]
    assignments: dict[TaskId, Any]  # SourceAssignments; level 0 only
    next_slots: int  # slots of the next level; 0 after the last
    deadline: float | None  # a clock.now() value of the driver
    state_io: Any  # StateIO
    staging: str
    longest_read_s: float | None = None  # how long sources read at most, whatever their clock says
    drains: bool = False  # the sources read nothing more, although there may be more
