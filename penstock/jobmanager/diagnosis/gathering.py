"""Gathers the figures of a running job: its description, and what its subtasks answer when they are asked.

All questions are asked at once, so that it takes as long as the longest of them: a second, in which keys are watched where there is skew.
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
from penstock.jobmanager.diagnosis.figures import Backlog, JobFigures, read_figures
from penstock.jobmanager.diagnosis.findings import Diagnosis
from penstock.jobmanager.diagnosis.rules.skew import skewed_subtask
from penstock.runtime.inspection.requests import (
    InspectionRequest,
    KeySamples,
    ProcessDetails,
    SlotId,
    SlotInfo,
    SplitTime,
    TaskDetail,
    TaskDetails,
)

_MOST_TASKS: Final = 64  # that are asked, of any kind
_WATCH_S: Final = 1.0
_PATIENCE_S: Final = 5.0

Question = tuple[
    str, Any, TaskId | SlotId, InspectionRequest
]  # what for, by which name, whom, what


class Patient(Protocol):
    """What runs a job, as a diagnosis sees it."""

    def describe(self) -> dict[str, Any]:
        """Return what there is to tell about the job."""

    def slots(self) -> list[SlotInfo]:
        """Return the slots that run and can be asked."""

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest, /) -> Future[Any]:
        """Ask something about a task or a slot."""

    def split_times(self) -> dict[TaskId, tuple[SplitTime, ...]]:
        """Return how far the splits of sources had come in event time at the last checkpoint, by task."""

    def backlogs(self) -> dict[str, tuple[int, str]]:
        """Return what waits for sources without an end, by vertex, and what that counts."""


def examine(patient: Patient, now_ms: int) -> Diagnosis:
    """Look at a job, and say what there is to say."""
    slots = patient.slots()
    job = read_figures(patient.describe(), now_ms, slots)
    begun = time.monotonic()
    before = patient.backlogs()
    asked = [
        (what, name, patient.inspect(target, request))
        for what, name, target, request in questions(job)
    ]
    wait([each for _, _, each in asked], _WATCH_S + _PATIENCE_S)
    if before:
        time.sleep(max(begun + _WATCH_S - time.monotonic(), 0.0))
    after, seconds = patient.backlogs(), time.monotonic() - begun
    answers: dict[str, dict[Any, Any]] = {"keys": {}, "details": {}, "processes": {}}
    unknown: dict[str, None] = {}
    for what, name, future in asked:
        error = _error_of(future)
        if error is None:
            answers[what][name] = future.result()
        else:
            unknown[f"{_NAMES[what]}: {error}"] = None
    if not slots and job.status == "RUNNING":
        unknown[_EPOCHS] = None
        # What the last checkpoint knew is better than nothing.
        answers["details"] = {
            task: TaskDetail(each) for task, each in patient.split_times().items()
        }
    job = replace(
        job,
        keys=answers["keys"],
        details=answers["details"],
        processes=answers["processes"],
        backlogs=dict(_backlogs(before, after, seconds)),
    )
    return diagnose(job, unknown)


_NAMES: Final = {"keys": "frequent keys", "details": "splits and states", "processes": "memory"}
_EPOCHS: Final = (
    "keys, states and memory: the job runs in epochs, or is being started, and nobody can be asked"
)


def questions(job: JobFigures) -> Iterator[Question]:
    """Yield what is worth asking: keys where there is skew, splits of sources, states, and memory."""
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
        if "HASH" in vertex.partitioned_by and skewed_subtask(vertex) is not None:
            for task in tasks:
                yield "keys", task, task, KeySamples(task, _WATCH_S)


def _error_of(future: Future[Any]) -> str | None:
    if not future.done():
        return "no answer in time"
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
