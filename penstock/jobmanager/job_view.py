"""The view of a job that its clients get: the REST API, the metric reporters and the diagnosis. Frozen and typed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from penstock.common.job_status import JobStatus
from penstock.graph.stage import BarrierSettings
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointSnapshot
from penstock.jobmanager.execution.execution_graph import ExecutionVertex
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.jobmanager.execution.failure_history import FailureHistory
from penstock.jobmanager.job import CheckpointSettings
from penstock.jobmanager.metrics.dropped_record_counts import DroppedRecords
from penstock.jobmanager.metrics.live_metrics import VertexMetrics
from penstock.jobmanager.metrics.progress_lines import ProgressLines
from penstock.jobmanager.metrics.suspicious_record_counts import SuspiciousRecords
from penstock.runtime.task.shared import task_metrics as names

Value = int | float | str
#: The kind of a metric, its value, and, if it has labels, its name without them and the labels.
Measured = tuple[Any, ...]

T = TypeVar("T")


class Lazy(Generic[T]):
    """A part of a view that is collected when it is first read, and kept. Two threads may collect it at the same time."""

    __slots__ = ("_collect", "_value")

    def __init__(self, collect: Callable[[], T]) -> None:
        self._collect: Callable[[], T] | None = collect
        self._value: T

    @classmethod
    def of(cls, value: T) -> Lazy[T]:
        """Return a part that is known already."""
        return cls(lambda: value)

    def __call__(self) -> T:
        """Return the part."""
        collect = self._collect
        if collect is not None:
            self._value = collect()
            self._collect = None  # it refers to the job, which may have ended
        return self._value


@dataclass(frozen=True, slots=True)
class OperatorView:
    """An operator of a chain."""

    id: str
    uid: str | None
    name: str


@dataclass(frozen=True, slots=True)
class EdgeView:
    """An edge between two vertices; `strategy` is the partitioner's name in Flink's plans."""

    source: str
    target: str
    strategy: str
    side_tag: str | None = None


@dataclass(frozen=True, slots=True)
class SubtaskPlace:
    """The location of a subtask."""

    subtask: int
    host: str
    process: int


@dataclass(frozen=True, slots=True)
class AccumulatorView:
    """An accumulator, summed over all subtasks and completed checkpoints."""

    vertex: str
    operator: str  # its name
    name: str
    type: str
    value: str


@dataclass(frozen=True, slots=True)
class SubtaskReport:
    """The last report of a subtask; empty if it has not reported."""

    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, Value]:
        """Its own metrics, by Flink's names."""
        return {
            name: value
            for name, value in self.content.items()
            if isinstance(value, int | float | str)
        }

    @property
    def operators(self) -> Mapping[str, Mapping[str, Measured]]:
        """The metrics of its operators, by operator id and name."""
        found: Mapping[str, Mapping[str, Measured]] = self.content.get(names.OPERATORS, {})
        return found

    @property
    def latencies(self) -> dict[str, dict[str, float]]:
        """The statistics of latencies to it, by the id of the source vertex."""
        histograms = self.content.get(names.LATENCY, {})
        return {source: found.to_json() for source, found in histograms.items()}

    @property
    def process(self) -> Mapping[str, Any]:
        """The host and the resource use of its process."""
        found: Mapping[str, Any] = self.content.get(names.PROCESS, {})
        return found

    def number(self, name: str) -> float:
        """Return one of its own metrics; 0 if it was not reported or is not a number."""
        value = self.content.get(name, 0)
        return value if isinstance(value, int | float) else 0

    def __bool__(self) -> bool:
        return bool(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexView:
    """A vertex of a job, with its subtasks."""

    id: str
    name: str
    #: The number of its subtasks at the moment.
    parallelism: int
    #: The number of key groups: the upper bound of a rescaling.
    max_parallelism: int
    slot_sharing_group: str = "default"
    #: Aggregated over the current attempts of its subtasks.
    state: ExecutionState = ExecutionState.CREATED
    #: When the first of the current attempts was deployed; None before.
    start_ms: int | None = None
    #: When the last of the current attempts ended; None while one of them runs.
    end_ms: int | None = None
    #: By their index: the subtask at place `i` has the index `i`.
    subtasks: tuple[ExecutionVertex, ...] = ()
    #: The operators of the chain, the head first; never empty in a real job.
    operators: tuple[OperatorView, ...] = ()
    #: By the index of the subtask; shorter than `subtasks` if the last ones have not reported.
    reports: tuple[SubtaskReport, ...] = ()

    @property
    def metrics(self) -> VertexMetrics:
        """The aggregated metrics of the subtasks that have reported."""
        return VertexMetrics.of([each.content for each in self.reports if each])

    def report(self, subtask: int) -> SubtaskReport:
        """Return the last report of a subtask; empty if there is none."""
        return self.reports[subtask] if 0 <= subtask < len(self.reports) else SubtaskReport()

    def all_reports(self) -> list[SubtaskReport]:
        """Return one report per subtask."""
        return [self.report(subtask) for subtask in range(len(self.subtasks))]


@dataclass(frozen=True, slots=True)
class SettingsView:
    """The settings of the whole job."""

    type: str = "STREAMING"  # or BATCH
    mode: str = "auto"
    parallelism: int = 1
    restart_strategy: str = ""  # its description
    user_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointingView:
    """The settings of checkpointing."""

    checkpoints: CheckpointSettings
    barriers: BarrierSettings
    state_backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job at one moment, for its clients.

    What most requests need is a plain field; the other parts are collected when they are read, so that a request costs what it
    returns. `collected` returns the view of an ended job, which does not refer to the JobMaster.
    """

    #: 32 hexadecimal digits; the same after a restart of the JobManager.
    id: str
    name: str
    #: Terminal only after all work of the job has stopped.
    status: JobStatus
    start_ms: int
    #: Not None exactly if `status` is terminal.
    end_ms: int | None
    #: The last completed checkpoint; 0 before the first.
    checkpoint_id: int = 0
    #: Restarts after a failure, of single regions as well as of the job.
    restarts: int = 0
    #: Where its checkpoints are; None if they are temporary.
    checkpoint_directory: str | None = None
    #: The path of the last savepoint; None before the first.
    savepoint: str | None = None
    #: When the job entered its statuses, the latest entry last; a status may occur several times.
    timestamps: tuple[tuple[JobStatus, int], ...] = ()
    #: The last failure of the job, kept after a restart.
    failure: str | None = None
    #: The last failures, oldest first.
    failures: FailureHistory = field(default_factory=FailureHistory)
    #: The message of the error that the job ended with; None while it runs.
    error: Lazy[str | None] = field(default_factory=lambda: Lazy(lambda: None))
    settings: Lazy[SettingsView] = field(default_factory=lambda: Lazy(SettingsView))
    checkpointing: Lazy[CheckpointingView]
    checkpoints: Lazy[CheckpointSnapshot] = field(default_factory=lambda: Lazy(CheckpointSnapshot))
    #: In topological order.
    vertices: Lazy[tuple[VertexView, ...]] = field(default_factory=lambda: Lazy(tuple))
    #: In the order of their source vertices; both ends are ids in `vertices`.
    edges: Lazy[tuple[EdgeView, ...]] = field(default_factory=lambda: Lazy(tuple))
    #: Statistics of the latency to the last vertices, over the last seconds; None without latency markers.
    latency: Lazy[Mapping[str, float] | None] = field(default_factory=lambda: Lazy(lambda: None))
    dropped: Lazy[tuple[DroppedRecords, ...]] = field(default_factory=lambda: Lazy(tuple))
    suspicious: Lazy[tuple[SuspiciousRecords, ...]] = field(default_factory=lambda: Lazy(tuple))
    #: The locations of running subtasks by vertex; empty in epoch mode, where tasks are short-lived.
    places: Lazy[Mapping[str, Sequence[SubtaskPlace]]] = field(default_factory=lambda: Lazy(dict))
    accumulators: Lazy[tuple[AccumulatorView, ...]] = field(default_factory=lambda: Lazy(tuple))
    #: The accumulators of the job's result, by `operator.metric`.
    totals: Lazy[Mapping[str, Value | bool | None]] = field(default_factory=lambda: Lazy(dict))
    #: Only of a job in a session: the lines that its client prints.
    progress: Lazy[ProgressLines] = field(default_factory=lambda: Lazy(ProgressLines))

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.end_ms is not None

    @property
    def status_times(self) -> dict[str, int]:
        """When the job last entered each of its statuses, by the name of the status."""
        return {status.name: time for status, time in self.timestamps}

    def collected(self) -> JobView:
        """Collect all parts, and return the view."""
        for each in dataclasses.fields(self):
            part = getattr(self, each.name)
            if isinstance(part, Lazy):
                part()
        return self
