"""Flink's JSON of a vertex: its subtasks, their attempts, times and back-pressure, and the TaskManagers that they run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, Struct, UnsetType, field

from penstock.jobmanager.execution.execution_graph import Execution
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.jobmanager.job_view import SubtaskReport, VertexView
from penstock.rest.flink_json.parts import NOWHERE, TASK_STATES, Span

_LIFE: Final = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_ENDS: Final = (ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED)
_ADDED_UP: Final = {
    "read-bytes": "numBytesIn",
    "write-bytes": "numBytesOut",
    "read-records": "numRecordsIn",
    "write-records": "numRecordsOut",
    "accumulated-backpressured-time": "accumulateBackPressuredTimeMs",
    "accumulated-idle-time": "accumulateIdleTimeMs",
    "accumulated-busy-time": "accumulateBusyTimeMs",
}
_BACK_PRESSURED: Final = "backPressuredTimeMsPerSecond"
_IDLE: Final = "idleTimeMsPerSecond"
_BUSY: Final = "busyTimeMsPerSecond"
_LOW, _HIGH = 0.1, 0.5  # ratios up to which backpressure is "ok" and "low"


class IoMetrics(Struct, frozen=True, kw_only=True):
    """What subtasks reported, added up as Flink shows it. Flink adds up the time since the start; the ratios are of the last second."""

    read_bytes: float = field(name="read-bytes")
    #: Whether all subtasks have reported; the same in all four `complete` fields.
    read_bytes_complete: bool = field(name="read-bytes-complete")
    write_bytes: float = field(name="write-bytes")
    write_bytes_complete: bool = field(name="write-bytes-complete")
    read_records: float = field(name="read-records")
    read_records_complete: bool = field(name="read-records-complete")
    write_records: float = field(name="write-records")
    write_records_complete: bool = field(name="write-records-complete")
    #: Times are sums over subtasks, so they may exceed the time since the start.
    back_pressured_ms: float = field(name="accumulated-backpressured-time")
    idle_ms: float = field(name="accumulated-idle-time")
    busy_ms: float = field(name="accumulated-busy-time")
    #: From 0 to 1; the three ratios add up to 1 once a subtask has reported.
    back_pressured_ratio: float = field(name="backpressured-ratio")
    idle_ratio: float = field(name="idle-ratio")
    busy_ratio: float = field(name="busy-ratio")

    @classmethod
    def of(cls, reports: Sequence[SubtaskReport]) -> IoMetrics:
        """Add up the reports of subtasks; they are complete if all have reported."""
        known = [report for report in reports if report]
        complete = bool(known) and len(known) == len(reports)

        def total(name: str) -> float:
            return sum(report.number(name) for report in known)

        return cls(
            read_bytes=total("numBytesIn"),
            read_bytes_complete=complete,
            write_bytes=total("numBytesOut"),
            write_bytes_complete=complete,
            read_records=total("numRecordsIn"),
            read_records_complete=complete,
            write_records=total("numRecordsOut"),
            write_records_complete=complete,
            back_pressured_ms=total("accumulateBackPressuredTimeMs"),
            idle_ms=total("accumulateIdleTimeMs"),
            busy_ms=total("accumulateBusyTimeMs"),
            back_pressured_ratio=_share(known, _BACK_PRESSURED),
            idle_ratio=_share(known, _IDLE),
            busy_ratio=_share(known, _BUSY),
        )


def _share(reports: Sequence[SubtaskReport], name: str) -> float:
    if not reports:
        return 0.0
    return round(sum(report.number(name) for report in reports) / len(reports) / 1000, 3)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a subtask runs: its host, and the id of its TaskManager."""

    host: str = NOWHERE
    taskmanager: str = NOWHERE


Locations = Mapping[int, Location]  # by subtask
UNASSIGNED: Final = Location()


class AttemptExtensions(Struct, frozen=True):
    """The field `penstock` of an attempt: the last checkpoint that it acknowledged and when, and why it failed."""

    checkpoint: int | None
    acknowledged: int | None
    failure: str | None


class SubtaskAttempt(Struct, frozen=True, kw_only=True):
    """One attempt of a subtask."""

    subtask: int
    status: str
    #: From 0; each restart of the subtask adds 1.
    attempt: int
    #: The host; `(unassigned)` for former attempts, and in epoch mode.
    endpoint: str
    taskmanager_id: str = field(name="taskmanager-id")
    #: When it was deployed; -1 before.
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    #: For old clients.
    old_start_time: int = field(name="start_time")
    #: Zeros for former attempts.
    metrics: IoMetrics
    #: How long it was in each state; -1 for states that it was not in.
    status_duration: dict[str, int] = field(name="status-duration")
    other_concurrent_attempts: None = field(name="other-concurrent-attempts", default=None)
    #: When it entered its states.
    timestamps: dict[str, int]
    penstock: AttemptExtensions

    @classmethod
    def of(
        cls, subtask: int, execution: Execution, report: SubtaskReport, location: Location, now: int
    ) -> SubtaskAttempt:
        """Return one attempt of a subtask."""
        span = _span(execution, now)
        return cls(
            subtask=subtask,
            status=execution.state.name,
            attempt=execution.attempt,
            endpoint=location.host,
            taskmanager_id=location.taskmanager,
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            old_start_time=span.start,
            metrics=IoMetrics.of([report]),
            status_duration=_status_durations(execution, now),
            timestamps=_entered(execution),
            penstock=AttemptExtensions(
                execution.checkpoint, execution.acknowledged_ms, execution.failure
            ),
        )


def _entered(execution: Execution) -> dict[str, int]:
    return {state.name: time for state, time in execution.timestamps}


def _span(execution: Execution, now: int) -> Span:
    entered = dict(execution.timestamps)
    end = next((entered[state] for state in _ENDS if state in entered), None)
    return Span.of(entered.get(ExecutionState.DEPLOYING), end, now)


def _status_durations(execution: Execution, now: int) -> dict[str, int]:
    entered = _entered(execution)
    ordered = sorted(entered.items(), key=lambda item: item[1])
    left = {state: ordered[i + 1][1] for i, (state, _) in enumerate(ordered[:-1])}
    return {
        state: left.get(state, now) - entered[state] if state in entered else -1 for state in _LIFE
    }


class SubtaskDistribution(Struct, frozen=True, kw_only=True):
    """The distribution of values over subtasks."""

    min: float
    max: float
    avg: float
    sum: float
    median: float
    p25: float
    p75: float
    p95: float

    @classmethod
    def of(cls, values: Iterable[float]) -> SubtaskDistribution:
        """Return the distribution of values; zeros if there is none."""
        ordered = sorted(values)
        last = len(ordered) - 1
        if last < 0:
            return cls(min=0, max=0, avg=0, sum=0, median=0, p25=0, p75=0, p95=0)

        def at(share: float) -> float:
            return ordered[round(share * last)]

        total = sum(ordered)
        return cls(
            min=ordered[0], max=ordered[-1], avg=round(total / len(ordered)), sum=total,
            median=at(0.5), p25=at(0.25), p75=at(0.75), p95=at(0.95),
        )  # fmt: skip


class Aggregated(Struct, frozen=True):
    """Metrics of subtasks, and how long they were in their states, as distributions."""

    metrics: dict[str, SubtaskDistribution]
    status_duration: dict[str, SubtaskDistribution] = field(name="status-duration")

    @classmethod
    def of(cls, subtasks: Sequence[SubtaskAttempt], reports: Sequence[SubtaskReport]) -> Aggregated:
        """Aggregate subtasks and their reports."""
        return cls(
            {
                shown: SubtaskDistribution.of(report.number(name) for report in reports)
                for shown, name in _ADDED_UP.items()
            },
            {
                state: SubtaskDistribution.of(each.status_duration[state] for each in subtasks)
                for state in _LIFE
            },
        )


class VertexDetails(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/vertices/<id>`: a vertex with its subtasks, each in its current attempt."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = field(name="maxParallelism")
    now: int
    subtasks: list[SubtaskAttempt]
    aggregated: Aggregated

    @classmethod
    def of(cls, vertex: VertexView, locations: Locations, now: int) -> VertexDetails:
        """Return a vertex."""
        subtasks = current_attempts(vertex, locations, now)
        return cls(
            id=vertex.id,
            name=vertex.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            now=now,
            subtasks=subtasks,
            aggregated=Aggregated.of(subtasks, vertex.all_reports()),
        )


def current_attempts(vertex: VertexView, locations: Locations, now: int) -> list[SubtaskAttempt]:
    """Return the current attempts of all subtasks of a vertex."""
    return [
        SubtaskAttempt.of(
            each.subtask,
            each.current,
            vertex.report(each.subtask),
            locations.get(each.subtask, UNASSIGNED),
            now,
        )
        for each in vertex.subtasks
    ]


class SubtaskTimes(Struct, frozen=True):
    """When a subtask entered its states; 0 for states that it was not in."""

    subtask: int
    endpoint: str
    host: str
    duration: int
    timestamps: dict[str, int]


class VertexTimes(Struct, frozen=True):
    """`/jobs/<id>/vertices/<id>/subtasktimes`."""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimes]

    @classmethod
    def of(cls, vertex: VertexView, locations: Locations, now: int) -> VertexTimes:
        """Return when the subtasks of a vertex entered their states."""
        shown = []
        for each in vertex.subtasks:
            entered = _entered(each.current)
            host = locations.get(each.subtask, UNASSIGNED).host
            times = {state: entered.get(state, 0) for state in TASK_STATES}
            duration = _span(each.current, now).duration
            shown.append(SubtaskTimes(each.subtask, host, host, duration, times))
        return cls(vertex.id, vertex.name, now, shown)


class VertexOnTaskManager(Struct, frozen=True, kw_only=True):
    """The subtasks of a vertex on one TaskManager."""

    endpoint: str
    host: str
    taskmanager_id: str = field(name="taskmanager-id")
    status: str
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    metrics: IoMetrics
    status_counts: dict[str, int] = field(name="status-counts")
    aggregated: Aggregated

    @classmethod
    def of(
        cls, subtasks: Sequence[SubtaskAttempt], reports: Sequence[SubtaskReport], now: int
    ) -> VertexOnTaskManager:
        """Return subtasks that run on the same TaskManager."""
        starts = [each.start_time for each in subtasks if each.start_time >= 0]
        ends = [each.end_time for each in subtasks]
        span = Span.of(min(starts, default=None), max(ends) if min(ends) >= 0 else None, now)
        counts = Counter(each.status for each in subtasks)
        return cls(
            endpoint=subtasks[0].endpoint,
            host=subtasks[0].endpoint,
            taskmanager_id=subtasks[0].taskmanager_id,
            status=_aggregate_state(counts, len(subtasks)),
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            metrics=IoMetrics.of(reports),
            status_counts={state: counts[state] for state in TASK_STATES},
            aggregated=Aggregated.of(subtasks, reports),
        )


def _aggregate_state(counts: Mapping[str, int], number: int) -> str:
    """Return the state of several subtasks together, as Flink aggregates it for vertices."""
    for state in ("FAILED", "CANCELING", "CANCELED"):
        if counts.get(state):
            return state
    if counts.get("FINISHED") == number:
        return "FINISHED"
    if counts.get("RUNNING") or counts.get("FINISHED"):
        return "RUNNING"
    return next((state for state in reversed(_LIFE) if counts.get(state)), "CREATED")


class VertexTaskManagers(Struct, frozen=True):
    """`/jobs/<id>/vertices/<id>/taskmanagers`."""

    id: str
    name: str
    now: int
    taskmanagers: list[VertexOnTaskManager]

    @classmethod
    def of(cls, vertex: VertexView, locations: Locations, now: int) -> VertexTaskManagers:
        """Return a vertex by the TaskManagers of its subtasks."""
        groups: dict[str, list[SubtaskAttempt]] = {}
        for each in current_attempts(vertex, locations, now):
            groups.setdefault(each.taskmanager_id, []).append(each)
        found = [
            VertexOnTaskManager.of(each, [vertex.report(one.subtask) for one in each], now)
            for each in groups.values()
        ]
        return cls(vertex.id, vertex.name, now, found)


class SubtaskBackPressure(Struct, frozen=True, kw_only=True):
    """The back-pressure of a subtask: its level, and shares of the last second."""

    subtask: int
    attempt_number: int = field(name="attempt-number")
    #: For old clients.
    old_level: str = field(name="backpressureLevel")
    level: str = field(name="backpressure-level")
    ratio: float
    idle_ratio: float = field(name="idleRatio")
    busy_ratio: float = field(name="busyRatio")


class BackPressure(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/vertices/<id>/backpressure`."""

    #: `ok`, or Flink's `deprecated` of a vertex that was not sampled: then there are no other fields.
    status: str
    #: For old clients.
    old_level: str | UnsetType = field(name="backpressureLevel", default=UNSET)
    level: str | UnsetType = field(name="backpressure-level", default=UNSET)
    end_timestamp: int | UnsetType = field(name="end-timestamp", default=UNSET)
    subtasks: list[SubtaskBackPressure] | UnsetType = UNSET

    @classmethod
    def of(cls, vertex: VertexView, now: int) -> BackPressure:
        """Return the back-pressure of a vertex, which is that of its worst subtask."""
        reports = vertex.all_reports()
        if not any(reports):
            return cls(status="deprecated")
        subtasks = [
            _back_pressure(number, vertex.subtasks[number].current.attempt, report)
            for number, report in enumerate(reports)
        ]
        worst = _level(max(each.ratio for each in subtasks))
        return cls(status="ok", old_level=worst, level=worst, end_timestamp=now, subtasks=subtasks)


def _back_pressure(subtask: int, attempt: int, report: SubtaskReport) -> SubtaskBackPressure:
    ratio = _share([report], _BACK_PRESSURED)
    level = _level(ratio)
    return SubtaskBackPressure(
        subtask=subtask,
        attempt_number=attempt,
        old_level=level,
        level=level,
        ratio=ratio,
        idle_ratio=_share([report], _IDLE),
        busy_ratio=_share([report], _BUSY),
    )


def _level(ratio: float) -> str:
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"
