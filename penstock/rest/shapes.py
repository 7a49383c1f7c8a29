"""From a controller's description of a job to Flink's JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.common.job_status import JobStatus

_TASK_STATES = (
    "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED",
    "FAILED", "RECONCILING",
)  # fmt: skip

Description = dict[str, Any]

_COUNTED = (
    ("read", "bytes", "numBytesIn"),
    ("write", "bytes", "numBytesOut"),
    ("read", "records", "numRecordsIn"),
    ("write", "records", "numRecordsOut"),
)
_SHARES = {
    "backpressured": "backPressuredTimeMsPerSecond",
    "idle": "idleTimeMsPerSecond",
    "busy": "busyTimeMsPerSecond",
}
_LOW, _HIGH = 0.1, 0.5  # up to which part of the time back-pressure is "ok", and "low"


def overview(job: Description, now: int) -> dict[str, Any]:
    """Return a job as `/jobs/overview` lists it."""
    tasks = [each for vertex in job["vertices"] for each in vertex["subtasks"]]
    counts = _counts(task["current"]["state"] for task in tasks)
    return {
        "jid": job["id"],
        "name": job["name"],
        **_times(job["start_ms"], job["end_ms"], now),
        "last-modification": now if job["end_ms"] is None else job["end_ms"],
        "state": job["status"],
        "tasks": {
            "total": len(tasks),
            **{state.lower(): count for state, count in counts.items()},
        },
    }


def details(job: Description, now: int) -> dict[str, Any]:
    """Return a job as `/jobs/<id>` shows it; what Flink has not is under `penstock`."""
    vertices = job["vertices"]
    times = job["status_times"]
    return {
        "jid": job["id"],
        "name": job["name"],
        "isStoppable": job["end_ms"] is None,
        "state": job["status"],
        **_times(job["start_ms"], job["end_ms"], now),
        "maxParallelism": max((vertex["max_parallelism"] for vertex in vertices), default=-1),
        "now": now,
        "timestamps": {status.name: times.get(status.name, 0) for status in JobStatus},
        "vertices": [_in_details(vertex, now) for vertex in vertices],
        "status-counts": _counts(vertex["state"] for vertex in vertices),
        "penstock": {
            "epoch": job["epoch"],
            "restarts": job["restarts"],
            "checkpoints": job["checkpoints"],
            "savepoint": job["savepoint"],
            "failure": job["failure"],
            **({"latency": job["latency"]} if job.get("latency") else {}),
        },
    }


def _in_details(vertex: Description, now: int) -> dict[str, Any]:
    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "maxParallelism": vertex["max_parallelism"],
        "parallelism": vertex["parallelism"],
        "status": vertex["state"],
        **_times(vertex["start_ms"], vertex["end_ms"], now),
        "tasks": _counts(each["current"]["state"] for each in vertex["subtasks"]),
        **_metrics(vertex.get("reports", ())),
        "operators": vertex["operators"],
    }


def vertex_details(vertex: Description, now: int) -> dict[str, Any]:
    """Return a vertex as `/jobs/<id>/vertices/<id>` shows it: its subtasks, each in its current attempt."""
    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "parallelism": vertex["parallelism"],
        "maxParallelism": vertex["max_parallelism"],
        "now": now,
        "subtasks": [
            _subtask(each["subtask"], each["current"], now)
            | _metrics(vertex.get("reports", ())[each["subtask"] : each["subtask"] + 1])
            for each in vertex["subtasks"]
        ],
    }


def _subtask(number: int, current: Description, now: int) -> dict[str, Any]:
    times = current["timestamps"]
    ends = [times[state] for state in ("FINISHED", "CANCELED", "FAILED") if state in times]
    return {
        "subtask": number,
        "status": current["state"],
        "attempt": current["attempt"],
        **_times(times.get("DEPLOYING"), ends[0] if ends else None, now),
        "timestamps": times,
        "penstock": {
            "checkpoint": current["checkpoint"],
            "acknowledged": current["acknowledged_ms"],
            "failure": current["failure"],
        },
    }


def _metrics(reports: Sequence[Description]) -> dict[str, Any]:
    """Return what subtasks told, added up as Flink shows it; nothing if none told anything."""
    known = [report for report in reports if report]
    if not known:
        return {}
    complete = len(known) == len(reports)

    def total(name: str) -> float:
        counts: list[float] = [report.get(name, 0) for report in known]
        return sum(counts)

    counted = {
        f"{way}-{what}{suffix}": value
        for way, what, name in _COUNTED
        for suffix, value in (("", total(name)), ("-complete", complete))
    }
    # Flink adds up the time since the start; here the shares of the last second are told.
    shares = {f"{share}-ratio": _share(known, name) for share, name in _SHARES.items()}
    return {"metrics": counted | shares}


def _share(reports: Sequence[Description], name: str) -> float:
    millis: list[float] = [report.get(name, 0) for report in reports]
    return round(sum(millis) / len(millis) / 1000, 3)


def back_pressure(vertex: Description, now: int) -> dict[str, Any]:
    """Return a vertex as `/jobs/<id>/vertices/<id>/backpressure` shows it."""
    reports = vertex.get("reports", ())
    if not any(reports):
        return {"status": "deprecated"}  # as Flink says of a vertex that nobody has sampled
    subtasks: list[dict[str, Any]] = []
    for number, report in enumerate(reports):
        ratio = _share([report], _SHARES["backpressured"])
        level = _level(ratio)
        subtasks.append(
            {
                "subtask": number,
                "backpressureLevel": level,
                "backpressure-level": level,
                "ratio": ratio,
                "idleRatio": _share([report], _SHARES["idle"]),
                "busyRatio": _share([report], _SHARES["busy"]),
            }
        )
    worst = _level(max(each["ratio"] for each in subtasks))
    return {
        "status": "ok",
        "backpressureLevel": worst,
        "backpressure-level": worst,
        "end-timestamp": now,
        "subtasks": subtasks,
    }


def _level(ratio: float) -> str:
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def _times(start: int | None, end: int | None, now: int) -> dict[str, int]:
    return {
        "start-time": -1 if start is None else start,
        "end-time": -1 if end is None else end,
        "duration": -1 if start is None else (now if end is None else end) - start,
    }


def _counts(states: Iterable[str]) -> dict[str, int]:
    counts = Counter(states)
    return {state: counts[state] for state in _TASK_STATES}
