"""Deployment descriptors of Spark tasks: the vertices of a level, and the state they start from.

Everything here is plain data that pickles. User code is in `VertexDeployment.code`, a cloudpickle that each subtask loads
separately, so that no two subtasks share a function object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.state_backend import StateBackendSettings
from penstock.graph.task_id import TaskId
from penstock.logs.setup import LogSettings
from penstock.pickling.program_classes import PickledClasses


@dataclass(frozen=True, slots=True)
class ChainedOperatorInfo:
    """One operator of a chain, without its code. `chained` are (index in the chain, side output tag or None)."""

    operator_id: str
    name: str
    chained: tuple[tuple[int, str | None], ...] = ()
    untimed_inputs: str | None = (
        None  # upstream operators that emit records without timestamps, for errors
    )


@dataclass(frozen=True, slots=True)
class InputGate:
    """One incoming edge. `gate` numbers the edges of a vertex; `local` edges stay inside the slot."""

    gate: int
    source_id: str  # id of the sending vertex
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
    target_id: str = ""  # id of the receiving vertex


@dataclass(frozen=True, slots=True)
class VertexDeployment:
    """One vertex: its chain, its edges, its user code as bytes."""

    #: Its index in the plan: short, for the rows of the pipe.
    vertex: int
    id: str
    name: str
    #: Above the levels of all vertices that it reads from.
    level: int
    parallelism: int
    #: The number of key groups; never below `parallelism`.
    max_parallelism: int
    #: The chain; its head reads the gates, or is a source.
    operators: tuple[ChainedOperatorInfo, ...]
    #: In the order of the operator's inputs.
    gates: tuple[InputGate, ...]
    edges: tuple[ResultEdge, ...]
    #: Positions in the chain of operators that have keyed state.
    keyed: frozenset[int]
    #: The user code of the operators, pickled; loaded where tasks run.
    code: bytes
    #: Level 0 only: slot of the vertex's first subtask.
    slot_offset: int = 0
    #: None: the job's default.
    buffer_timeout_ms: int | None = None

    def task(self, subtask: int) -> TaskId:
        """Return the id of one of its subtasks."""
        return TaskId(self.id, subtask)


@dataclass(frozen=True, slots=True)
class VertexCode:
    """The content of `VertexDeployment.code`: the operator specs and the partitionings of the outgoing edges.

    `types` has, per operator, the declared types of its output: by side output tag, None for the main output. It contains
    only types
    by which values must be checked.
    """

    specs: tuple[Any, ...]
    partitionings: tuple[Any, ...]
    types: tuple[dict[str | None, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SubtaskRestore:
    """The state that a subtask is restored from.

    `snapshot` names the snapshot (a cached subtask with the same name is reused). `keyed` has, per operator id, chains of
    state
    handles, read with the task's StateIO; `owned` are the key groups to keep, or None to keep all. `local` is the
    subtask's other
    state, or None if the vertex ran with another parallelism or chain. `former` has that state of all former subtasks, by
    the id of
    their vertex; a subtask without `local` takes its share of it. `just_restored` says that the job has just started: upstream
    subtasks send
    their watermarks again. `in_flight` has handles of in-flight records, of all former subtasks of this vertex and of its
    consumers,
    by vertex id; empty for aligned checkpoints.
    """

    snapshot: str | None = None
    keyed: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    owned: range | None = None
    local: bytes | None = None
    former: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    just_restored: bool = False
    in_flight: dict[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings shared by all tasks of a job."""

    job_id: str
    job_name: str
    auto_watermark_interval: int = 200
    batch_mode: bool = False
    buffer_bytes: int = 65_536
    check_order: bool = False
    job_parameters: dict[str, str] = field(default_factory=dict)
    state_backend: StateBackendSettings = field(default_factory=StateBackendSettings)
    pyflink_names: bool = False  # the program imports `pyflink`, and so may its modules
    logs: LogSettings = field(default_factory=LogSettings)
    journal: bool = False  # tasks record their decisions for a replay
    classes: PickledClasses = ()  # of the program, that tasks cannot import
    checkpointed: bool = True  # checkpoints are taken periodically, not only at the end


@dataclass(frozen=True, slots=True)
class LevelDeployment:
    """The deployment of one level for one epoch."""

    settings: JobSettings
    level: int
    #: Tasks of this level.
    slots: int
    #: Of the checkpoint that ends this epoch.
    checkpoint_id: int
    attempt_number: int
    vertices: tuple[VertexDeployment, ...]
    restore: dict[TaskId, SubtaskRestore]
    #: SourceAssignments; level 0 only.
    assignments: dict[TaskId, Any]
    #: Slots of the next level; 0 after the last.
    next_slots: int
    #: When sources stop reading, by `clock.now()` of the driver; None: they read all input.
    deadline: float | None
    #: A StateIO that can be pickled.
    state_io: Any
    staging: str
    #: Upper limit of the reading time of sources, whatever their clock says.
    longest_read_s: float | None = None
    #: The sources stop reading, even if there is more input.
    drains: bool = False
