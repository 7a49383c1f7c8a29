"""Metric values, under the names of Flink's REST API, from a controller's description of a job. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

Description = Mapping[str, Any]
Value = int | float | str

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


def task_values(vertex: Description, subtask: int) -> dict[str, Value]:
    """Return the last reported metrics of a subtask, and those of its operators as `operator.metric`."""
    found: dict[str, Value] = dict(_at(vertex.get("reports"), subtask))
    names = {each["id"]: in_name(each["name"]) for each in vertex["operators"]}
    for operator, measured in _at(vertex.get("operator_reports"), subtask).items():
        for name, (kind, value, *_) in measured.items():
            found.update(flat(f"{names.get(operator, operator)}.{name}", kind, value))
    return found


def _at(reports: Any, subtask: int) -> Mapping[str, Any]:
    """Return the report of a subtask; empty if there is none."""
    if not reports or not 0 <= subtask < len(reports):
        return {}
    found: Mapping[str, Any] = reports[subtask]
    return found


def vertex_values(vertex: Description) -> Iterator[tuple[int, str, Value]]:
    """Yield the last reported metrics of the subtasks of a vertex: subtask, name, value."""
    for subtask in range(len(vertex.get("reports", ()))):
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


def job_values(job: Description, now: int) -> dict[str, Value]:
    """Return the metrics of a job as a whole."""
    return {**_life(job, now), **_checkpoints(job), **dict(_latencies(job))}


def _life(job: Description, now: int) -> dict[str, Value]:
    end = now if job["end_ms"] is None else job["end_ms"]
    times = job.get("status_times", {})
    running = job["status"] == "RUNNING"
    began = times.get("RUNNING") or job["start_ms"] or end
    stopped = max(times.get("FAILING", 0), times.get("RESTARTING", 0)) or end
    ended = job["end_ms"] is not None
    return {
        "uptime": end - began if running else 0,
        "downtime": 0 if running or ended else max(0, end - stopped),
        "runningTime": end - began if running else 0,
        "numRestarts": job.get("restarts", 0),
        "fullRestarts": job.get("restarts", 0),
    }


def _checkpoints(job: Description) -> dict[str, Value]:
    statistics = job.get("checkpoint_statistics") or {}
    counts, latest = statistics.get("counts", {}), statistics.get("latest", {})
    last, restored = latest.get("completed") or {}, latest.get("restored") or {}
    return {
        "totalNumberOfCheckpoints": counts.get("total", 0),
        "numberOfInProgressCheckpoints": counts.get("in_progress", 0),
        "numberOfCompletedCheckpoints": counts.get("completed", 0),
        "numberOfFailedCheckpoints": counts.get("failed", 0),
        "lastCompletedCheckpointId": last.get("id", _UNKNOWN),
        "lastCheckpointDuration": last.get("end_to_end_duration", _UNKNOWN),
        "lastCheckpointSize": last.get("checkpointed_size", _UNKNOWN),
        "lastCheckpointFullSize": last.get("state_size", _UNKNOWN),
        "lastCheckpointProcessedData": last.get("processed_data", _UNKNOWN),
        "lastCheckpointPersistedData": last.get("persisted_data", _UNKNOWN),
        "lastCheckpointExternalPath": last.get("external_path", "n/a"),
        "lastCheckpointRestoreTimestamp": restored.get("restore_timestamp", _UNKNOWN),
    }


def _latencies(job: Description) -> Iterator[tuple[str, Value]]:
    for labels, figures in latencies(job):
        scope = ".".join(f"{name}.{value}" for name, value in labels.items())
        for part, figure in figures.items():
            yield f"latency.{scope}.latency_{part}", figure


def latencies(job: Description) -> Iterator[tuple[dict[str, str], Mapping[str, float]]]:
    """Yield the latency from each source to each subtask: Flink's labels of both, and the statistics."""
    heads = {vertex["id"]: vertex["operators"][0]["id"] for vertex in job["vertices"]}
    for vertex in job["vertices"]:
        for subtask, found in enumerate(vertex.get("latencies", ())):
            for source, figures in found.items():
                labels = {
                    "source_id": heads.get(source, source),
                    "operator_id": heads[vertex["id"]],
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


def aggregated(
    values: Iterable[tuple[str, Value]], wanted: set[str], aggregations: Iterable[str]
) -> list[dict[str, Any]]:
    """Return the aggregated values of each requested metric; values that are not numbers are skipped."""
    numbers: dict[str, list[float]] = {}
    for name, value in values:
        if name in wanted and is_number(value):
            numbers.setdefault(name, []).append(float(value))
    return [
        {"id": name, **{each: AGGREGATIONS[each](found) for each in aggregations}}
        for name, found in numbers.items()
    ]


def is_number(value: Any) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
