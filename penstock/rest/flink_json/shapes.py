"""Flink's JSON of jobs, from a controller's description of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from penstock.common.job_status import JobStatus
from penstock.rest.flink_json import vertex_shapes

Description = dict[str, Any]

_JOB_STATES = ("INITIALIZING", *(status.name for status in JobStatus))


def overview(job: Description, now: int) -> dict[str, Any]:
    """Return a job as `/jobs/overview` lists it."""
    tasks = [each for vertex in job["vertices"] for each in vertex["subtasks"]]
    counts = count_states(task["current"]["state"] for task in tasks)
    return {
        "jid": job["id"],
        "name": job["name"],
        "jobType": _settings(job)["type"],
        **times(job["start_ms"], job["end_ms"], now),
        "last-modification": now if job["end_ms"] is None else job["end_ms"],
        "state": job["status"],
        "schedulerType": "Default",
        "pending-operators": 0,
        "tasks": {
            "total": len(tasks),
            **{state.lower(): count for state, count in counts.items()},
        },
    }


def details(job: Description, now: int) -> dict[str, Any]:
    """Return a job as `/jobs/<id>` shows it; extensions are in the field `penstock`."""
    vertices = job["vertices"]
    status_times = job["status_times"]
    return {
        "jid": job["id"],
        "name": job["name"],
        "application-id": job["id"],
        "isStoppable": job["end_ms"] is None,
        "state": job["status"],
        "job-type": _settings(job)["type"],
        "schedulerType": "Default",
        "pending-operators": 0,
        **times(job["start_ms"], job["end_ms"], now),
        "maxParallelism": max((vertex["max_parallelism"] for vertex in vertices), default=-1),
        "now": now,
        "timestamps": {name: status_times.get(name, 0) for name in _JOB_STATES},
        "vertices": [_in_details(job, vertex, now) for vertex in vertices],
        "status-counts": count_states(vertex["state"] for vertex in vertices),
        "plan": plan(job),
        "penstock": {
            "checkpoint_id": job["checkpoint_id"],
            "restarts": job["restarts"],
            "checkpoints": job["checkpoints"],
            "savepoint": job["savepoint"],
            "failure": job["failure"],
            **({"latency": job["latency"]} if job.get("latency") else {}),
            "dropped": job.get("dropped", []),
        },
    }


def _in_details(job: Description, vertex: Description, now: int) -> dict[str, Any]:
    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "slotSharingGroupId": _settings(job)["slot_sharing_groups"].get(vertex["id"], "default"),
        "maxParallelism": vertex["max_parallelism"],
        "parallelism": vertex["parallelism"],
        "status": vertex["state"],
        **times(vertex["start_ms"], vertex["end_ms"], now),
        "tasks": count_states(each["current"]["state"] for each in vertex["subtasks"]),
        "metrics": vertex_shapes.io_metrics(vertex_shapes.reports(vertex)),
        "operators": vertex["operators"],
    }


def plan(job: Description) -> dict[str, Any]:
    """Return the plan of a job as `/jobs/<id>/plan` shows it."""
    edges = job.get("edges", ())
    nodes = []
    for vertex in job["vertices"]:
        inputs = [edge for edge in edges if edge["target"] == vertex["id"]]
        node = {
            "id": vertex["id"],
            "parallelism": vertex["parallelism"],
            "operator": "",
            "operator_strategy": "",
            "description": _chain(vertex),
            "optimizer_properties": {},
        }
        node["inputs"] = [
            {
                "num": number,
                "id": edge["source"],
                "ship_strategy": edge["strategy"],
                "exchange": "pipelined_bounded",
            }
            for number, edge in enumerate(inputs)
        ]
        nodes.append(node)
    return {"jid": job["id"], "name": job["name"], "type": _settings(job)["type"], "nodes": nodes}


def _chain(vertex: Description) -> str:
    """Return the operators of a chain, with the line breaks of Flink's web page."""
    first, *others = [operator["name"] for operator in vertex["operators"]] or [vertex["name"]]
    return f"{first}<br/>" + "".join(f"+- {name}<br/>" for name in others)


def config(job: Description) -> dict[str, Any]:
    """Return a job as `/jobs/<id>/config` shows it."""
    settings = _settings(job)
    return {
        "jid": job["id"],
        "name": job["name"],
        "execution-config": {
            "restart-strategy": settings["restart_strategy"],
            "job-parallelism": settings["parallelism"],
            "object-reuse-mode": True,  # chained operators pass records without copying them
            "user-config": settings["user_config"],
        },
        "penstock": {"mode": settings["mode"]},
    }


def exceptions(job: Description, most: int) -> dict[str, Any]:
    """Return the failures of a job as `/jobs/<id>/exceptions` shows them, the newest first; other fields are for old clients."""
    history = job.get("exceptions") or {"entries": [], "truncated": False}
    entries = history["entries"][:most]
    truncated = history["truncated"] or len(history["entries"]) > most
    root = entries[0] if entries else None
    return {
        "root-exception": None if root is None else root["stacktrace"],
        "timestamp": None if root is None else root["timestamp"],
        "all-exceptions": [
            {
                "exception": entry["stacktrace"],
                "task": entry["task"],
                "location": vertex_shapes.NOWHERE,
                "timestamp": entry["timestamp"],
                "taskManagerId": vertex_shapes.NOWHERE,
            }
            for entry in entries
            if entry["task"] is not None
        ],
        "truncated": truncated,
        "exceptionHistory": {
            "entries": [_exception(each) for each in entries],
            "truncated": truncated,
        },
    }


def _exception(entry: Description) -> dict[str, Any]:
    return {
        "exceptionName": entry["name"],
        "stacktrace": entry["stacktrace"],
        "timestamp": entry["timestamp"],
        "failureLabels": {},
        "taskName": entry["task"],
        "endpoint": None if entry["task"] is None else vertex_shapes.NOWHERE,
        "taskManagerId": None if entry["task"] is None else vertex_shapes.NOWHERE,
        "concurrentExceptions": [],
        "penstock": {
            "vertex": entry["vertex"],
            "subtask": entry["subtask"],
            "attempt": entry["attempt"],
            "restarted": entry["tasks"],
        },
    }


def accumulators(job: Description) -> dict[str, Any]:
    """Return the accumulators of a job as `/jobs/<id>/accumulators` shows them."""
    return {
        "job-accumulators": [],
        "user-task-accumulators": [user_accumulator(each) for each in job.get("accumulators", ())],
        "serialized-user-task-accumulators": {},
    }


def user_accumulator(accumulator: Description) -> dict[str, str]:
    """Return one accumulator."""
    return {
        "name": f"{accumulator['operator']}.{accumulator['name']}",
        "type": accumulator["type"],
        "value": accumulator["value"],
    }


_NO_SETTINGS = {
    "type": "STREAMING",
    "mode": "auto",
    "parallelism": 1,
    "restart_strategy": "",
    "user_config": {},
    "slot_sharing_groups": {},
}


def _settings(job: Description) -> dict[str, Any]:
    return job.get("settings") or _NO_SETTINGS


def times(start: int | None, end: int | None, now: int) -> dict[str, int]:
    """Return the start time, the end time, and the duration so far."""
    return vertex_shapes.times(start, end, now)


def count_states(states: Iterable[str]) -> dict[str, int]:
    """Return the number of subtasks in each state, including states with none."""
    counts = Counter(states)
    return {state: counts[state] for state in vertex_shapes.TASK_STATES}
