"""All metrics of the jobs of this process as Flink's reporters get them: a scope, a name, labels and a value. Pure.

The scope is Flink's *logical* one (`taskmanager`, `job`, `task`, `operator`), and the variables of Flink's scope formats are the labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.common.job_status import JobStatus
from penstock.jobmanager.job_view import JobView, Measured, VertexView
from penstock.rest.flink_json.metric_values import (
    distribution,
    is_number,
    job_values,
    latencies,
)

JOB_MANAGER: Final = ("jobmanager",)
JOB: Final = ("jobmanager", "job")
TASK_MANAGER: Final = ("taskmanager",)
TASK: Final = ("taskmanager", "job", "task")
OPERATOR: Final = ("taskmanager", "job", "task", "operator")
LATENCY: Final = ("taskmanager", "job", "latency")

_QUANTILES: Final = {
    "p50": "0.5",
    "p75": "0.75",
    "p95": "0.95",
    "p98": "0.98",
    "p99": "0.99",
    "p999": "0.999",
}


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One value. `counts` means that it only grows, until the job restarts.

    A summary has quantiles, and the number of its values in `value`.
    """

    scope: tuple[str, ...]
    name: str  # dots separate metric groups
    labels: Mapping[str, str]
    value: float
    counts: bool = False
    quantiles: Mapping[str, float] = field(default_factory=dict)


def samples(
    jobs: Iterable[JobView],
    now: int,
    process: Mapping[str, Any],
    cluster: Mapping[str, int] | None = None,
) -> Iterator[MetricSample]:
    """Yield all metrics of the jobs of this process; ended jobs only have their state.

    `process` are the metrics of this process, `cluster` those of all TaskManagers together.
    """
    host = {"host": str(process.get("host", ""))}
    found = list(jobs)
    running = [job for job in found if job.status is JobStatus.RUNNING]
    yield MetricSample(JOB_MANAGER, "numRunningJobs", host, len(running))
    yield from _numbers(JOB_MANAGER, cluster or {}, host)
    yield from _numbers(JOB_MANAGER, _figures(process), host)
    seen: set[str] = set()
    for job in found:
        of_job = {"job_id": job.id, "job_name": job.name}
        values = job_values(job, now)
        plain = {name: each for name, each in values.items() if not name.startswith("latency.")}
        yield from _numbers(JOB, plain, {**host, **of_job})
        if not job.ended:
            for vertex in job.vertices():
                yield from _of_vertex(vertex, of_job, seen)
            yield from _of_latencies(job, of_job)


def _figures(process: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in process.items() if name.startswith("Status.")}


def _numbers(
    scope: tuple[str, ...], values: Mapping[str, Any], labels: Mapping[str, str]
) -> Iterator[MetricSample]:
    for name, value in values.items():
        if is_number(value):
            yield MetricSample(scope, name, labels, value, _counts(name))


def _counts(name: str) -> bool:
    """Whether a metric of this name only grows; counters of user functions may go down."""
    return name.startswith("num") and not name.endswith(_NOT_COUNTED)


_NOT_COUNTED: Final = ("PerSecond", "Entries", "Timers", "Jobs", "Checkpoints", "TaskManagers")


def _of_vertex(
    vertex: VertexView, of_job: Mapping[str, str], seen: set[str]
) -> Iterator[MetricSample]:
    names = {each.id: each.name for each in vertex.operators}
    for report, each in zip(vertex.reports, vertex.subtasks, strict=False):
        if not report.metrics:
            continue
        process = report.process
        manager = {
            "host": str(process.get("host", "")),
            "tm_id": f"{process.get('host', '')}-{process.get('pid', '')}",
        }
        if process and manager["tm_id"] not in seen:
            seen.add(manager["tm_id"])
            yield from _numbers(TASK_MANAGER, _figures(process), manager)
        labels = {
            **manager,
            **of_job,
            "task_id": vertex.id,
            "task_name": vertex.name,
            "subtask_index": str(each.subtask),
            "task_attempt_num": str(each.current.attempt),
        }
        yield from _numbers(TASK, report.metrics, labels)
        for operator, measured in report.operators.items():
            of_operator = {
                **labels,
                "operator_id": operator,
                "operator_name": names.get(operator, operator),
            }
            yield from _of_operator(measured, of_operator)


def _of_operator(
    measured: Mapping[str, Measured], labels: Mapping[str, str]
) -> Iterator[MetricSample]:
    for full, (kind, value, *scoped) in measured.items():
        name, own = (scoped[0], {**labels, **dict(scoped[1])}) if scoped else (full, labels)
        if kind == "meter":
            yield MetricSample(OPERATOR, name, own, value["rate"])
        elif kind == "distribution":
            for part, figure in distribution(value).items():
                yield MetricSample(OPERATOR, f"{name}_{part}", own, figure, part == "count")
        elif is_number(value):
            yield MetricSample(OPERATOR, name, own, value, kind == "counter" and _counts(name))


def _of_latencies(job: JobView, of_job: Mapping[str, str]) -> Iterator[MetricSample]:
    for labels, figures in latencies(job):
        scope = (*LATENCY, *labels)
        quantiles = {share: figures[name] for name, share in _QUANTILES.items() if name in figures}
        yield MetricSample(
            scope, "latency", {**of_job, **labels}, figures["count"], quantiles=quantiles
        )
