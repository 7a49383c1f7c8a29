"""Collects the metrics of a running job: its view, and the results of inspection requests to its subtasks.

All requests are sent at once, so the diagnosis takes as long as the longest one: a second, to count keys where there is skew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.diagnosis.diagnose import diagnose
from penstock.jobmanager.diagnosis.findings import Diagnosis
from penstock.jobmanager.diagnosis.metrics import (
    Backlog,
    JobFigures,
    VertexFigures,
    read_figures,
)
from penstock.jobmanager.diagnosis.rules.skew import skewed_subtask
from penstock.jobmanager.job_view import JobView
from penstock.runtime.inspection.requests import (
    InspectionRequest,
    KeySamples,
    ProcessDetails,
    ProcessFacts,
    SlotId,
    SlotInfo,
    SplitTime,
    TaskDetail,
    TaskDetails,
)
from penstock.runtime.task.shared import task_metrics as names

_MOST_TASKS: Final = 64  # inspected per kind of request
_WATCH_S: Final = 1.0
_TIMEOUT_S: Final = 5.0

Question = tuple[str, Any, TaskId | SlotId, InspectionRequest]  # purpose, name, target, request


class DiagnosableJob(Protocol):
    """The controller of a job, as the diagnosis uses it."""

    def view(self) -> JobView:
        """Return the view of the job."""

    def slots(self) -> list[SlotInfo]:
        """Return the running slots that can be inspected."""

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest, /) -> Future[Any]:
        """Send an inspection request to a task or slot."""

    def split_times(self) -> dict[TaskId, tuple[SplitTime, ...]]:
        """Return the watermarks of the splits of sources at the last checkpoint, by task."""

    def backlogs(self) -> dict[str, tuple[int, str]]:
        """Return the backlogs of unbounded sources, by vertex, with their units."""


def examine(diagnosable: DiagnosableJob, now_ms: int) -> Diagnosis:
    """Diagnose a job."""
    slots, view = diagnosable.slots(), diagnosable.view()
    job = read_figures(view, now_ms, slots)
    begun = time.monotonic()
    before = diagnosable.backlogs()
    asked = [
        (what, name, diagnosable.inspect(target, request))
        for what, name, target, request in questions(job)
    ]
    wait([each for _, _, each in asked], _WATCH_S + _TIMEOUT_S)
    if before:
        time.sleep(max(begun + _WATCH_S - time.monotonic(), 0.0))
    after, seconds = diagnosable.backlogs(), time.monotonic() - begun
    answers: dict[str, dict[Any, Any]] = {"keys": {}, "details": {}, "processes": {}}
    unknown: dict[str, None] = {}
    for what, name, future in asked:
        error = _error_of(future)
        if error is None:
            answers[what][name] = future.result()
        else:
            unknown[f"{_NAMES[what]}: {error}"] = None
    if not slots and job.status == "RUNNING":
        # No task can be asked: use what the subtasks reported with the last checkpoint.
        answers["details"] = _reported_details(view, diagnosable.split_times())
        answers["processes"] = _reported_processes(view)
        if not answers["processes"]:
            unknown[_NOTHING_REPORTED] = None
        for vertex in job.vertices:
            if _may_have_frequent_key(vertex):
                unknown[f"{_NAMES['keys']} of '{vertex.name}': {_NOT_SAMPLED}"] = None
    job = replace(
        job,
        keys=answers["keys"],
        details=answers["details"],
        processes=answers["processes"],
        backlogs=dict(_backlogs(before, after, seconds)),
    )
    return diagnose(job, unknown)


_NAMES: Final = {"keys": "frequent keys", "details": "splits and states", "processes": "memory"}
_NOTHING_REPORTED: Final = (
    "states and memory: no subtask has reported; in epoch mode they do so with the first checkpoint"
)
_NOT_SAMPLED: Final = (
    "the job runs in epoch mode, in which the keys of records are not counted; in pipelined mode they are "
    "(penstock.execution.mode)"
)


def questions(job: JobFigures) -> Iterator[Question]:
    """Yield the inspection requests: keys where there is skew, splits of sources, states, and memory."""
    if not job.slots:
        return
    running = {task for slot in job.slots for task in slot.tasks}
    places = {(slot.host, slot.process): slot for slot in reversed(job.slots)}
    for (host, process), slot in list(places.items())[:_MOST_TASKS]:
        yield "processes", f"process {process} on {host}", slot.id, ProcessDetails()
    for vertex in job.vertices:
        tasks = [vertex.task(n) for n in range(vertex.parallelism)]
        tasks = [task for task in tasks if task in running][:_MOST_TASKS]
        for task in tasks if vertex.is_source else tasks[:1]:
            yield "details", task, task, TaskDetails(task)
        if _may_have_frequent_key(vertex):
            for task in tasks:
                yield "keys", task, task, KeySamples(task, _WATCH_S)


def _may_have_frequent_key(vertex: VertexFigures) -> bool:
    return "HASH" in vertex.partitioned_by and skewed_subtask(vertex) is not None


def _reported_details(
    view: JobView, splits: Mapping[TaskId, tuple[SplitTime, ...]]
) -> dict[TaskId, TaskDetail]:
    states = {
        TaskId(vertex.id, number): report.content.get(names.STATES, ())
        for vertex in view.vertices()
        for number, report in enumerate(vertex.reports)
    }
    return {
        task: TaskDetail(splits.get(task, ()), states.get(task, ()))
        for task in dict.fromkeys([*states, *splits])
    }


def _reported_processes(view: JobView) -> dict[str, ProcessFacts]:
    reports = [report for vertex in view.vertices() for report in vertex.reports]
    return {
        f"process {found.process} on {report.process['host']}": found
        for report in reports
        if (found := report.content.get(names.PROCESS_FACTS)) is not None
    }


def _error_of(future: Future[Any]) -> str | None:
    if not future.done():
        return "no response in time"
    error = future.exception()
    if error is None:
        return None
    return error.message if isinstance(error, PenstockError) else str(error)


def _backlogs(
    before: Mapping[str, tuple[int, str]], after: Mapping[str, tuple[int, str]], seconds: float
) -> Iterator[tuple[str, Backlog]]:
    for vertex, (now, unit) in after.items():
        then, former = before.get(vertex, (None, None))
        if then is not None and former == unit:
            yield vertex, Backlog(then, now, seconds, unit)
