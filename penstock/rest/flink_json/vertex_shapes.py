"""Flink's JSON of a vertex, from its description: subtasks, attempts, times, backpressure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Description = dict[str, Any]

TASK_STATES: Final = (
    "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED",
    "FAILED", "RECONCILING",
)  # fmt: skip
NOWHERE: Final = "(unassigned)"  # Flink's host of a subtask that is not scheduled
_LIFE: Final = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_ENDS: Final = ("FINISHED", "CANCELED", "FAILED")
_COUNTED: Final = {
    "read-bytes": "numBytesIn",
    "write-bytes": "numBytesOut",
    "read-records": "numRecordsIn",
    "write-records": "numRecordsOut",
}
_ACCUMULATED: Final = {
    "accumulated-backpressured-time": "accumulateBackPressuredTimeMs",
    "accumulated-idle-time": "accumulateIdleTimeMs",
    "accumulated-busy-time": "accumulateBusyTimeMs",
}
_SHARES: Final = {
    "backpressured": "backPressuredTimeMsPerSecond",
    "idle": "idleTimeMsPerSecond",
    "busy": "busyTimeMsPerSecond",
}
_LOW, _HIGH = 0.1, 0.5  # ratios up to which backpressure is "ok" and "low"


def reports(vertex: Description) -> list[Description]:
    """Return the last reports of the subtasks of a vertex, without those that have none."""
    known: Sequence[Description] = vertex.get("reports", ())
    return [*known, *({} for _ in range(len(vertex["subtasks"]) - len(known)))]


def io_metrics(reported: Sequence[Description]) -> dict[str, Any]:
    """Return what subtasks reported, added up as Flink shows it."""
    known = [report for report in reported if report]
    complete = bool(known) and len(known) == len(reported)
    shown: dict[str, Any] = {}
    for shape, name in _COUNTED.items():
        shown[shape] = sum(_number(report, name) for report in known)
        shown[f"{shape}-complete"] = complete
    for shape, name in _ACCUMULATED.items():
        shown[shape] = sum(_number(report, name) for report in known)
    # Flink adds up the time since the start; here the shares of the last second are reported, too.
    return shown | {f"{share}-ratio": _share(known, name) for share, name in _SHARES.items()}


def _number(report: Mapping[str, Any], name: str) -> float:
    value = report.get(name, 0)
    return value if isinstance(value, int | float) else 0


def _share(reported: Sequence[Description], name: str) -> float:
    if not reported:
        return 0.0
    return round(sum(_number(report, name) for report in reported) / len(reported) / 1000, 3)


def vertex_details(vertex: Description, places: Sequence[Description], now: int) -> dict[str, Any]:
    """Return a vertex as `/jobs/<id>/vertices/<id>` shows it: its subtasks, each in its current attempt."""
    reported = reports(vertex)
    subtasks = [
        subtask(each["subtask"], each["current"], reported[each["subtask"]], places, now)
        for each in vertex["subtasks"]
    ]
    return {
        "id": vertex["id"],
        "name": vertex["name"],
        "parallelism": vertex["parallelism"],
        "maxParallelism": vertex["max_parallelism"],
        "now": now,
        "subtasks": subtasks,
        "aggregated": _aggregated(subtasks),
    }


def subtask(
    number: int,
    execution: Description,
    report: Description,
    places: Sequence[Description],
    now: int,
) -> dict[str, Any]:
    """Return one attempt of a subtask."""
    entered = execution["timestamps"]
    end = _end(entered)
    span = times(entered.get("DEPLOYING"), end, now)
    return {
        "subtask": number,
        "status": execution["state"],
        "attempt": execution["attempt"],
        **place(places, number),
        **span,
        "start_time": span["start-time"],
        "metrics": io_metrics([report]),
        "status-duration": _status_durations(entered, now),
        "other-concurrent-attempts": None,
        "timestamps": entered,
        "penstock": {
            "checkpoint": execution["checkpoint"],
            "acknowledged": execution["acknowledged_ms"],
            "failure": execution["failure"],
        },
    }


def place(places: Sequence[Description], number: int) -> dict[str, str]:
    """Return the location of a subtask: its host and TaskManager."""
    for each in places:
        if each["subtask"] == number:
            return {
                "endpoint": each["host"],
                "taskmanager-id": each["taskmanager"],
            }
    return {"endpoint": NOWHERE, "taskmanager-id": NOWHERE}


def _end(entered: Mapping[str, int]) -> int | None:
    return next((entered[state] for state in _ENDS if state in entered), None)


def _status_durations(entered: Mapping[str, int], now: int) -> dict[str, int]:
    """Return how long an attempt was in each state; -1 for states that it was not in."""
    ordered = sorted(entered.items(), key=lambda item: item[1])
    left = {state: ordered[i + 1][1] for i, (state, _) in enumerate(ordered[:-1])}
    return {
        state: left.get(state, now) - entered[state] if state in entered else -1 for state in _LIFE
    }


def subtask_times(vertex: Description, places: Sequence[Description], now: int) -> dict[str, Any]:
    """Return when the subtasks of a vertex entered their states, as `/jobs/<id>/vertices/<id>/subtasktimes` shows it."""
    shown = []
    for each in vertex["subtasks"]:
        entered = each["current"]["timestamps"]
        shown.append(
            {
                "subtask": each["subtask"],
                "endpoint": place(places, each["subtask"])["endpoint"],
                "host": place(places, each["subtask"])["endpoint"],
                "duration": times(entered.get("DEPLOYING"), _end(entered), now)["duration"],
                "timestamps": {state: entered.get(state, 0) for state in TASK_STATES},
            }
        )
    return {"id": vertex["id"], "name": vertex["name"], "now": now, "subtasks": shown}


def by_taskmanager(vertex: Description, places: Sequence[Description], now: int) -> dict[str, Any]:
    """Return a vertex by the TaskManagers of its subtasks, as `/jobs/<id>/vertices/<id>/taskmanagers` shows it."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in vertex_details(vertex, places, now)["subtasks"]:
        groups.setdefault(each["taskmanager-id"], []).append(each)
    reported = reports(vertex)
    shown = []
    for name, subtasks in groups.items():
        starts = [each["start-time"] for each in subtasks if each["start-time"] >= 0]
        ends = [each["end-time"] for each in subtasks]
        start = min(starts, default=None)
        end = max(ends) if min(ends) >= 0 else None
        counts = Counter(each["status"] for each in subtasks)
        shown.append(
            {
                "endpoint": subtasks[0]["endpoint"],
                "host": subtasks[0]["endpoint"],
                "taskmanager-id": name,
                "status": _aggregate_state(counts, len(subtasks)),
                **times(start, end, now),
                "metrics": io_metrics([reported[each["subtask"]] for each in subtasks]),
                "status-counts": {state: counts[state] for state in TASK_STATES},
                "aggregated": _aggregated(subtasks),
            }
        )
    return {"id": vertex["id"], "name": vertex["name"], "now": now, "taskmanagers": shown}


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


def _aggregated(subtasks: Sequence[Description]) -> dict[str, Any]:
    return {
        "metrics": {
            name: distribution(each["metrics"][name] for each in subtasks)
            for name in (*_COUNTED, *_ACCUMULATED)
        },
        "status-duration": {
            state: distribution(each["status-duration"][state] for each in subtasks)
            for state in _LIFE
        },
    }


def distribution(values: Iterable[float]) -> dict[str, float]:
    """Return the distribution of values, in Flink's fields."""
    ordered = sorted(values)
    last = len(ordered) - 1
    if last < 0:
        return dict.fromkeys(("min", "max", "avg", "sum", "median", "p25", "p75", "p95"), 0)

    def at(share: float) -> float:
        return ordered[round(share * last)]

    total = sum(ordered)
    return {
        "min": ordered[0], "max": ordered[-1], "avg": round(total / len(ordered)), "sum": total,
        "median": at(0.5), "p25": at(0.25), "p75": at(0.75), "p95": at(0.95),
    }  # fmt: skip


def back_pressure(vertex: Description, now: int) -> dict[str, Any]:
    """Return a vertex as `/jobs/<id>/vertices/<id>/backpressure` shows it."""
    reported = reports(vertex)
    if not any(reported):
        return {"status": "deprecated"}  # Flink's status of a vertex that was not sampled
    subtasks: list[dict[str, Any]] = []
    for number, report in enumerate(reported):
        ratio = _share([report], _SHARES["backpressured"])
        level = _level(ratio)
        subtasks.append(
            {
                "subtask": number,
                "attempt-number": vertex["subtasks"][number]["current"]["attempt"],
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


def times(start: int | None, end: int | None, now: int) -> dict[str, int]:
    """Return the start time, the end time, and the duration so far."""
    return {
        "start-time": -1 if start is None else start,
        "end-time": -1 if end is None else end,
        "duration": -1 if start is None else (now if end is None else end) - start,
    }
