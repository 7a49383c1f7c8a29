"""The metrics of a job, as input of the rules: from its description, and from inspection of its subtasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.graph.task_id import TaskId
from penstock.jobmanager.metrics.dropped_record_counts import DroppedRecords
from penstock.jobmanager.metrics.suspicious_record_counts import SuspiciousRecords
from penstock.runtime.inspection.requests import FrequentKeys, ProcessFacts, SlotInfo, TaskDetail
from penstock.runtime.task.shared import task_metrics as names
from penstock.runtime.task.shared.task_metrics import number

_SECOND: Final = 1000.0
_MIN: Final = -(2**63)
_MAX: Final = 2**63 - 1
FOREVER_MS: Final = 2**63 - 1  # the description's value for no interval


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
class CheckpointFigures:
    """One ended checkpoint. `vertices` has the statistics of subtasks in the JSON of Flink's REST API."""

    number: int
    triggered_ms: int
    duration_ms: float
    size: int  # of all state that it refers to
    written: int  # new bytes
    failed: bool = False
    reason: str | None = None
    vertices: Mapping[str, Any] = field(default_factory=dict)


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
    status: str
    vertices: tuple[VertexFigures, ...] = ()
    pipelined: bool = False
    checkpoints: tuple[CheckpointFigures, ...] = ()  # ended, oldest first
    interval_ms: int | None = None
    timeout_ms: int | None = None
    unaligned: bool = False
    state_backend: str = "hashmap"
    dropped: tuple[DroppedRecords, ...] = ()
    suspicious: tuple[SuspiciousRecords, ...] = ()
    restarts: int = 0
    running_ms: float = 0.0
    failures: tuple[str, ...] = ()  # the newest first
    # From inspection:
    slots: tuple[SlotInfo, ...] = ()
    keys: Mapping[TaskId, FrequentKeys] = field(default_factory=dict)
    details: Mapping[TaskId, TaskDetail] = field(default_factory=dict)
    processes: Mapping[str, ProcessFacts] = field(default_factory=dict)  # by "host, pid"
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)  # by vertex

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


def read_figures(job: Mapping[str, Any], now_ms: int, slots: Sequence[SlotInfo] = ()) -> JobFigures:
    """Read the metrics in a controller's description."""
    statistics, config = job["checkpoint_statistics"], job["checkpoint_config"]
    history = [each for each in statistics["history"] if each["status"] != "IN_PROGRESS"]
    edges = job.get("edges", ())
    started = job["status_times"].get("RUNNING") or job["start_ms"]
    entries = (job.get("exceptions") or {}).get("entries", ())
    return JobFigures(
        now_ms=now_ms,
        status=job["status"],
        vertices=tuple(_vertex(each, edges) for each in job["vertices"]),
        pipelined=bool(slots),
        checkpoints=tuple(_checkpoint(each) for each in reversed(history)),
        interval_ms=_finite(config.get("interval", FOREVER_MS)),
        timeout_ms=_finite(config.get("timeout", FOREVER_MS)),
        unaligned=config.get("unaligned_checkpoints", False),
        state_backend=config.get("state_backend", "hashmap"),
        dropped=tuple(DroppedRecords.from_json(each) for each in job.get("dropped", ())),
        suspicious=tuple(SuspiciousRecords.from_json(each) for each in job.get("suspicious", ())),
        restarts=job["restarts"],
        running_ms=max(now_ms - started, 0),
        failures=tuple(_failure_text(each) for each in entries),
        slots=tuple(slots),
    )


def _finite(millis: int) -> int | None:
    return None if millis >= FOREVER_MS else millis


def _failure_text(entry: Mapping[str, Any]) -> str:
    last = str(entry["stacktrace"]).strip().rpartition("\n")[2]
    return last or str(entry["name"])


def _vertex(vertex: Mapping[str, Any], edges: Sequence[Mapping[str, Any]]) -> VertexFigures:
    arriving = [edge for edge in edges if edge["target"] == vertex["id"]]
    reports = vertex.get("reports") or ()
    operators = {each["id"]: each["name"] for each in vertex["operators"]}
    return VertexFigures(
        id=vertex["id"],
        name=vertex["name"],
        parallelism=vertex["parallelism"],
        max_parallelism=vertex["max_parallelism"],
        subtasks=tuple(SubtaskFigures.of(report) for report in reports),
        inputs=tuple(dict.fromkeys(edge["source"] for edge in arriving)),
        partitioned_by=tuple(dict.fromkeys(edge["strategy"] for edge in arriving)),
        operators=operators,
        shares=_operator_shares(vertex.get("operator_reports") or (), operators),
    )


def _operator_shares(
    reports: Sequence[Mapping[str, Any]], operators: Mapping[str, str]
) -> dict[str, float]:
    """Return the share of each operator of the chain in the measured time, over all subtasks."""
    times: dict[str, float] = {}
    for report in reports:
        for operator, measured in report.items():
            _, millis = measured.get(names.BUSY, (None, 0.0))
            name = operators.get(operator, operator)
            times[name] = times.get(name, 0.0) + millis
    total = sum(times.values())
    return {name: millis / total for name, millis in times.items()} if total else {}


def _checkpoint(record: Mapping[str, Any]) -> CheckpointFigures:
    return CheckpointFigures(
        number=record["id"],
        triggered_ms=record["trigger_timestamp"],
        duration_ms=record["end_to_end_duration"],
        size=record["state_size"],
        written=record["checkpointed_size"],
        failed=record["status"] == "FAILED",
        reason=record.get("failure_message"),
        vertices=record["tasks"],
    )
