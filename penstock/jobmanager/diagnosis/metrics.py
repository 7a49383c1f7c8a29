"""The metrics of a job, as input of the rules: from its view, and from inspection of its subtasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_statistics import (
    CheckpointRecord,
    CheckpointStatus,
    SubtaskRecord,
)
from penstock.jobmanager.execution.failure_history import FailureEntry
from penstock.jobmanager.job_view import EdgeView, JobView, Measured, VertexView
from penstock.jobmanager.metrics.dropped_record_counts import DroppedRecords
from penstock.jobmanager.metrics.suspicious_record_counts import SuspiciousRecords
from penstock.runtime.inspection.requests import FrequentKeys, ProcessFacts, SlotInfo, TaskDetail
from penstock.runtime.task.shared import task_metrics as names
from penstock.runtime.task.shared.task_metrics import number

_SECOND: Final = 1000.0
_MIN: Final = -(2**63)
_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SubtaskFigures:
    """The metrics of one subtask. Shares are of its time, from 0 to 1."""

    busy: float = 0.0
    back_pressured: float = 0.0
    records: float = 0.0  # received since its start
    rate: float = 0.0  # records received per second
    watermark: int | None = None
    reported: bool = False

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> SubtaskFigures:
        """Read a subtask's report."""
        watermark = report.get(names.INPUT_WATERMARK, report.get(names.OUTPUT_WATERMARK))
        return cls(
            busy=number(report, names.BUSY) / _SECOND,
            back_pressured=number(report, names.BACK_PRESSURED) / _SECOND,
            records=number(report, names.RECORDS_IN),
            rate=number(report, names.RECORDS_IN_RATE),
            watermark=watermark if watermark not in {None, _MIN, _MAX} else None,
            reported=bool(report),
        )


@dataclass(frozen=True, slots=True)
class VertexFigures:
    """One vertex, with its subtasks. `partitioned_by` are the partitioners of its inputs, such as HASH."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: tuple[SubtaskFigures, ...] = ()
    inputs: tuple[str, ...] = ()  # ids of its upstream vertices
    partitioned_by: tuple[str, ...] = ()
    operators: Mapping[str, str] = field(default_factory=dict)  # names by id
    # The share of each operator in the busy time of the vertex, by name; empty if not measured.
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_source(self) -> bool:
        """Whether it has no inputs."""
        return not self.inputs

    @property
    def reports(self) -> tuple[SubtaskFigures, ...]:
        """The subtasks that have reported."""
        return tuple(each for each in self.subtasks if each.reported)

    @property
    def busy(self) -> float:
        """The busy share of its busiest subtask."""
        return max((each.busy for each in self.reports), default=0.0)

    @property
    def back_pressured(self) -> float:
        """The backpressured share of its most backpressured subtask."""
        return max((each.back_pressured for each in self.reports), default=0.0)

    @property
    def label(self) -> str:
        """Its name, short enough for a sentence."""
        name = " ".join(self.name.split())
        return name if len(name) <= 60 else f"{name[:57]}..."

    def task(self, subtask: int) -> TaskId:
        """Return the id of one of its subtasks."""
        return TaskId(self.id, subtask)


@dataclass(frozen=True, slots=True)
class SubtaskCheckpointFigures:
    """A checkpoint in one subtask: how long it took, in which phases, and the bytes of its state."""

    duration_ms: int
    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    size: int = 0
    written: int = 0  # new bytes


@dataclass(frozen=True, slots=True)
class CheckpointFigures:
    """One ended checkpoint. `subtasks` has the statistics of those that acknowledged it, and `sizes` the state of its vertices."""

    number: int
    triggered_ms: int
    duration_ms: float
    size: int  # of all state that it refers to
    written: int  # new bytes
    failed: bool = False
    reason: str | None = None
    subtasks: Mapping[TaskId, SubtaskCheckpointFigures] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)  # by vertex


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of a source, measured twice, `seconds` apart; in `unit`."""

    before: int
    after: int
    seconds: float
    unit: str

    @property
    def growth(self) -> float:
        """Its growth per second."""
        return (self.after - self.before) / max(self.seconds, 1e-3)


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The input of all rules. Unknown values are empty."""

    now_ms: int
    #: The name of a JobStatus.
    status: str
    #: In topological order.
    vertices: tuple[VertexFigures, ...] = ()
    #: Whether slots run that can be inspected; False in epoch mode.
    pipelined: bool = False
    #: Ended ones, oldest first.
    checkpoints: tuple[CheckpointFigures, ...] = ()
    #: None if checkpoints are not triggered periodically.
    interval_ms: int | None = None
    #: None if a checkpoint may take forever.
    timeout_ms: int | None = None
    unaligned: bool = False
    state_backend: str = "hashmap"
    dropped: tuple[DroppedRecords, ...] = ()
    suspicious: tuple[SuspiciousRecords, ...] = ()
    #: After failures, since the job was submitted.
    restarts: int = 0
    #: Since the job was last RUNNING; not negative, although clocks may be set back.
    running_ms: float = 0.0
    #: The last line of each, the newest first.
    failures: tuple[str, ...] = ()
    # From inspection:
    slots: tuple[SlotInfo, ...] = ()
    #: Of tasks that may be skewed.
    keys: Mapping[TaskId, FrequentKeys] = field(default_factory=dict)
    #: Of sources, and of the first task of other vertices.
    details: Mapping[TaskId, TaskDetail] = field(default_factory=dict)
    #: By "host, pid".
    processes: Mapping[str, ProcessFacts] = field(default_factory=dict)
    #: By vertex; only of sources that were measured twice.
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)

    def vertex(self, vertex: str) -> VertexFigures:
        """Return a vertex by its id."""
        return next(each for each in self.vertices if each.id == vertex)

    @property
    def completed(self) -> list[CheckpointFigures]:
        """The completed checkpoints, oldest first."""
        return [each for each in self.checkpoints if not each.failed]

    def saturation(self, task: TaskId) -> float:
        """Return the busy share of the slot of a task: one thread runs all its subtasks, so their shares add up."""
        mates = next((slot.tasks for slot in self.slots if task in slot.tasks), (task,))
        known = {vertex.id: vertex for vertex in self.vertices}
        return sum(
            known[mate.vertex].subtasks[mate.subtask].busy
            for mate in mates
            if mate.vertex in known and mate.subtask < len(known[mate.vertex].subtasks)
        )


def read_figures(job: JobView, now_ms: int, slots: Sequence[SlotInfo] = ()) -> JobFigures:
    """Read the metrics in the view of a job."""
    view = job.checkpointing()
    history = [
        each
        for each in job.checkpoints().history
        if each.status is not CheckpointStatus.IN_PROGRESS
    ]
    edges = job.edges()
    started = job.status_times.get("RUNNING") or job.start_ms
    return JobFigures(
        now_ms=now_ms,
        status=job.status.name,
        vertices=tuple(_vertex(each, edges) for each in job.vertices()),
        pipelined=bool(slots),
        checkpoints=tuple(_checkpoint(each) for each in reversed(history)),
        interval_ms=view.checkpoints.interval_ms,
        timeout_ms=view.checkpoints.timeout_ms,
        unaligned=view.barriers.unaligned,
        state_backend=view.state_backend,
        dropped=job.dropped(),
        suspicious=job.suspicious(),
        restarts=job.restarts,
        running_ms=max(now_ms - started, 0),
        failures=tuple(_failure_text(each) for each in reversed(job.failures.entries)),
        slots=tuple(slots),
    )


def _failure_text(entry: FailureEntry) -> str:
    """Return the line of a failure with its error: the last one, but for details and hints."""
    lines = [line for line in entry.stacktrace.splitlines() if line.strip()]
    known = [line for line in lines if not line.startswith(("detail: ", "hint: "))]
    return known[-1] if known else entry.name


def _vertex(vertex: VertexView, edges: Sequence[EdgeView]) -> VertexFigures:
    arriving = [edge for edge in edges if edge.target == vertex.id]
    operators = {each.id: each.name for each in vertex.operators}
    return VertexFigures(
        id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        subtasks=tuple(SubtaskFigures.of(report.metrics) for report in vertex.reports),
        inputs=tuple(dict.fromkeys(edge.source for edge in arriving)),
        partitioned_by=tuple(dict.fromkeys(edge.strategy for edge in arriving)),
        operators=operators,
        shares=_operator_shares([report.operators for report in vertex.reports], operators),
    )


def _operator_shares(
    reports: Sequence[Mapping[str, Mapping[str, Measured]]], operators: Mapping[str, str]
) -> dict[str, float]:
    """Return the share of each operator of the chain in the measured time, over all subtasks."""
    times: dict[str, float] = {}
    for report in reports:
        for operator, measured in report.items():
            millis = measured.get(names.BUSY, (None, 0.0))[1]
            name = operators.get(operator, operator)
            times[name] = times.get(name, 0.0) + millis
    total = sum(times.values())
    return {name: millis / total for name, millis in times.items()} if total else {}


def _checkpoint(record: CheckpointRecord) -> CheckpointFigures:
    totals = record.totals()
    return CheckpointFigures(
        number=record.number,
        triggered_ms=record.triggered_ms,
        duration_ms=totals.duration_ms,
        size=totals.size,
        written=totals.written,
        failed=record.status is CheckpointStatus.FAILED,
        reason=record.reason,
        subtasks={
            TaskId(part.vertex, index): _subtask(record, subtask)
            for part in record.vertices()
            for index, subtask in part.subtasks.items()
        },
        sizes={part.vertex: part.totals().size for part in record.vertices()},
    )


def _subtask(record: CheckpointRecord, subtask: SubtaskRecord) -> SubtaskCheckpointFigures:
    figures = subtask.figures
    return SubtaskCheckpointFigures(
        duration_ms=subtask.acknowledged_ms - record.triggered_ms,
        start_delay_ms=round(figures.start_delay_ms),
        alignment_ms=round(figures.alignment_ms),
        sync_ms=round(figures.sync_ms),
        async_ms=round(figures.async_ms),
        size=subtask.size,
        written=subtask.written,
    )
