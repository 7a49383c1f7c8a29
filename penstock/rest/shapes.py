"""From a controller's description of a job to Flink's JSON."""

from __future__ import annotations

from typing import Any

_TASK_STATES = (
    "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED",
    "FAILED", "RECONCILING",
)  # fmt: skip
# What the tasks of a job do while the job is in a state
_TASK_STATE_OF = {
    "CREATED": "CREATED",
    "RUNNING": "RUNNING",
    "FAILING": "FAILED",
    "FAILED": "FAILED",
    "CANCELLING": "CANCELING",
    "CANCELED": "CANCELED",
    "FINISHED": "FINISHED",
    "RESTARTING": "SCHEDULED",
    "SUSPENDED": "CANCELED",
    "RECONCILING": "RECONCILING",
}

Description = dict[str, Any]


def overview(job: Description, now: int) -> dict[str, Any]:
    """Return a job as `/jobs/overview` lists it."""
    counts = _task_counts(job, sum(vertex["parallelism"] for vertex in job["vertices"]))
    return {
        "jid": job["id"],
        "name": job["name"],
        **_times(job, now),
        "last-modification": now if job["end_ms"] is None else job["end_ms"],
        "state": job["status"],
        "tasks": {
            "total": sum(counts.values()),
            **{state.lower(): count for state, count in counts.items()},
        },
    }


def details(job: Description, now: int) -> dict[str, Any]:
    """Return a job as `/jobs/<id>` shows it; what Flink has not is under `penstock`."""
    vertices = [
        {
            "id": vertex["id"],
            "name": vertex["name"],
            "maxParallelism": vertex["max_parallelism"],
            "parallelism": vertex["parallelism"],
            "status": _TASK_STATE_OF[job["status"]],
            **_times(job, now),
            "tasks": _task_counts(job, vertex["parallelism"]),
            "operators": vertex["operators"],
        }
        for vertex in job["vertices"]
    ]
    states = _TASK_STATE_OF[job["status"]]
    return {
        "jid": job["id"],
        "name": job["name"],
        "isStoppable": job["end_ms"] is None,
        "state": job["status"],
        **_times(job, now),
        "maxParallelism": max((vertex["maxParallelism"] for vertex in vertices), default=-1),
        "now": now,
        "vertices": vertices,
        "status-counts": {state: len(vertices) if state == states else 0 for state in _TASK_STATES},
        "penstock": {
            "epoch": job["epoch"],
            "restarts": job["restarts"],
            "checkpoints": job["checkpoints"],
            "savepoint": job["savepoint"],
        },
    }


def _times(job: Description, now: int) -> dict[str, int]:
    end = job["end_ms"]
    return {
        "start-time": job["start_ms"],
        "end-time": -1 if end is None else end,
        "duration": (now if end is None else end) - job["start_ms"],
    }


def _task_counts(job: Description, tasks: int) -> dict[str, int]:
    current = _TASK_STATE_OF[job["status"]]
    return {state: tasks if state == current else 0 for state in _TASK_STATES}
