"""Metric values, under the names of Flink's REST API, from the view of a job. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from penstock.common.job_status import JobStatus
from penstock.jobmanager.job_view import JobView, Value, VertexView

_UNKNOWN: Final = -1  # Flink's value for the metrics of a checkpoint before the first one

# Flink's characters in operator names that are replaced in metric names.
_IN_NAMES: Final = str.maketrans(
    {" ": "_", ".": "_", ":": "_", ",": "_", "<": None, ">": None, '"': None}
)


def in_name(operator: str) -> str:
    """Return the name of an operator as a part of a metric name.

    >>> in_name("Source: my clicks")
    'Source__my_clicks'
    """
    return operator.translate(_IN_NAMES)


def task_values(vertex: VertexView, subtask: int) -> dict[str, Value]:
    """Return the last reported metrics of a subtask, and those of its operators as `operator.metric`."""
    report = vertex.report(subtask)
    found = report.metrics
    names = {each.id: in_name(each.name) for each in vertex.operators}
    for operator, measured in report.operators.items():
        for name, (kind, value, *_) in measured.items():
            found.update(flat(f"{names.get(operator, operator)}.{name}", kind, value))
    return found


def vertex_values(vertex: VertexView) -> Iterator[tuple[int, str, Value]]:
    """Yield the last reported metrics of the subtasks of a vertex: subtask, name, value."""
    for subtask in range(len(vertex.reports)):
        for name, value in task_values(vertex, subtask).items():
            yield subtask, name, value


def flat(name: str, kind: str, value: Any) -> Iterator[tuple[str, Value]]:
    """Yield the values of one metric: the rate of a meter, the statistics of a distribution by name."""
    if kind == "meter":
        yield name, value["rate"]
    elif kind == "distribution":
        for part, figure in distribution(value).items():
            yield f"{name}_{part}", figure
    else:
        yield name, value


def distribution(value: Mapping[str, Any]) -> dict[str, float]:
    """Return the statistics of a distribution with its mean; all are zero if it has no values."""
    count = value["count"]
    mean = value["sum"] / count if count else 0.0
    figures = {name: value[name] or 0 for name in ("sum", "count", "min", "max")}
    return {**figures, "mean": mean}


def job_values(job: JobView, now: int) -> dict[str, Value]:
    """Return the metrics of a job as a whole."""
    return {**_life(job, now), **_checkpoints(job), **dict(_latencies(job))}


def _life(job: JobView, now: int) -> dict[str, Value]:
    end = now if job.end_ms is None else job.end_ms
    times = job.status_times
    running = job.status is JobStatus.RUNNING
    began = times.get("RUNNING") or job.start_ms or end
    stopped = max(times.get("FAILING", 0), times.get("RESTARTING", 0)) or end
    return {
        "uptime": end - began if running else 0,
        "downtime": 0 if running or job.ended else max(0, end - stopped),
        "runningTime": end - began if running else 0,
        "numRestarts": job.restarts,
        "fullRestarts": job.restarts,
    }


def _checkpoints(job: JobView) -> dict[str, Value]:
    found = job.checkpoints()
    last, restored = found.completed, found.restored
    totals = None if last is None else last.totals()
    return {
        "totalNumberOfCheckpoints": found.count,
        "numberOfInProgressCheckpoints": found.in_progress_count,
        "numberOfCompletedCheckpoints": found.completed_count,
        "numberOfFailedCheckpoints": found.failed_count,
        "lastCompletedCheckpointId": _UNKNOWN if last is None else last.number,
        "lastCheckpointDuration": _UNKNOWN if totals is None else totals.duration_ms,
        "lastCheckpointSize": _UNKNOWN if totals is None else totals.written,
        "lastCheckpointFullSize": _UNKNOWN if totals is None else totals.size,
        "lastCheckpointProcessedData": _UNKNOWN if totals is None else totals.processed_in_flight,
        "lastCheckpointPersistedData": _UNKNOWN if totals is None else totals.persisted_in_flight,
        "lastCheckpointExternalPath": "n/a" if last is None or last.path is None else last.path,
        "lastCheckpointRestoreTimestamp": _UNKNOWN if restored is None else restored.restored_ms,
    }


def _latencies(job: JobView) -> Iterator[tuple[str, Value]]:
    for labels, figures in latencies(job):
        scope = ".".join(f"{name}.{value}" for name, value in labels.items())
        for part, figure in figures.items():
            yield f"latency.{scope}.latency_{part}", figure


def latencies(job: JobView) -> Iterator[tuple[dict[str, str], Mapping[str, float]]]:
    """Yield the latency from each source to each subtask: Flink's labels of both, and the statistics."""
    heads = {vertex.id: vertex.operators[0].id for vertex in job.vertices()}
    for vertex in job.vertices():
        for subtask, report in enumerate(vertex.reports):
            for source, figures in report.latencies.items():
                labels = {
                    "source_id": heads.get(source, source),
                    "operator_id": heads[vertex.id],
                    "operator_subtask_index": str(subtask),
                }
                yield labels, figures


def _skew(values: list[float]) -> float:
    """Return the average deviation of values from their mean, in percent of it: 0 if all are equal.

    >>> _skew([10.0, 10.0]), _skew([0.0, 20.0])
    (0.0, 100.0)
    """
    average = sum(values) / len(values)
    if not average:
        return 0.0
    deviation = sum(abs(each - average) for each in values) / len(values)
    return min(100.0, 100.0 * deviation / abs(average))


AGGREGATIONS: Final[dict[str, Callable[[list[float]], float]]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
    "skew": _skew,
}


class MetricInfo(Struct, frozen=True):
    """The name of a metric, and its value if it was requested."""

    id: str
    value: str | UnsetType = UNSET


class AggregatedMetric(Struct, frozen=True, kw_only=True):
    """A metric, aggregated over subtasks or jobs with the requested functions."""

    id: str
    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    sum: float | UnsetType = UNSET
    avg: float | UnsetType = UNSET
    skew: float | UnsetType = UNSET


def aggregated(
    values: Iterable[tuple[str, Value]], wanted: set[str], aggregations: Iterable[str]
) -> list[AggregatedMetric]:
    """Return the aggregated values of each requested metric; values that are not numbers are skipped."""
    numbers: dict[str, list[float]] = {}
    for name, value in values:
        if name in wanted and is_number(value):
            numbers.setdefault(name, []).append(float(value))
    return [
        AggregatedMetric(id=name, **{each: AGGREGATIONS[each](found) for each in aggregations})
        for name, found in numbers.items()
    ]


def is_number(value: object) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
