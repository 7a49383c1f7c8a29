"""Writes docs/grafana/penstock.json: the Grafana dashboard for jobs, over what Prometheus has of them.

python -m tools.gen_grafana
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).parent.parent / "docs" / "grafana" / "penstock.json"

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_JOB = 'job_id=~"$job_id"'
_TASK = f'{_JOB},task_name=~"$task"'
_SUBTASK = "{{task_name}} / {{subtask_index}}"
_VERTEX = "{{task_name}}"


class Panel(NamedTuple):
    """One chart: what it shows, in which unit, and by which expressions with which legends."""

    title: str
    unit: str
    expressions: tuple[tuple[str, str], ...]
    about: str = ""
    kind: str = "timeseries"


def _task(name: str) -> str:
    return f"flink_taskmanager_job_task_{name}{{{_TASK}}}"


def _by_vertex(how: str, name: str) -> str:
    return f"{how} by (task_name) ({_task(name)})"


def _operator(name: str) -> str:
    return f"flink_taskmanager_job_task_operator_{name}{{{_TASK}}}"


def _job(name: str) -> str:
    return f"flink_jobmanager_job_{name}{{{_JOB}}}"


_LATENCY = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"

ROWS: dict[str, tuple[Panel, ...]] = {
    "Cluster": (
        Panel("Running jobs", "none", (("flink_jobmanager_numRunningJobs", ""),), kind="stat"),
        Panel("Slots", "none", (("flink_jobmanager_taskSlotsTotal", "total"),
                                ("flink_jobmanager_taskSlotsAvailable", "free")), kind="stat"),
        Panel("Uptime", "ms", ((_job("uptime"), "{{job_name}}"),), kind="stat"),
        Panel("Restarts", "none", ((_job("numRestarts"), "{{job_name}}"),), kind="stat"),
    ),
    "Throughput": (
        Panel("Records in per second", "ops",
              ((_by_vertex("sum", "numRecordsInPerSecond"), _VERTEX),)),
        Panel("Records out per second", "ops",
              ((_by_vertex("sum", "numRecordsOutPerSecond"), _VERTEX),)),
        Panel("Bytes in per second", "Bps", ((_by_vertex("sum", "numBytesInPerSecond"), _VERTEX),)),
        Panel("Bytes out per second", "Bps", ((_by_vertex("sum", "numBytesOutPerSecond"), _VERTEX),)),
    ),
    "Where the time goes": (
        Panel("Busy", "percentunit",
              ((f"{_by_vertex('max', 'busyTimeMsPerSecond')} / 1000", _VERTEX),),
              "The busiest subtask of each vertex. Near 100 %: the bottleneck."),
        Panel("Back-pressured", "percentunit",
              ((f"{_by_vertex('max', 'backPressuredTimeMsPerSecond')} / 1000", _VERTEX),),
              "Waiting for room: what comes after these vertices is too slow."),
        Panel("Time of operators", "percentunit",
              ((f"avg by (operator_name) ({_operator('busyTimeMsPerSecond')}) / 1000",
                "{{operator_name}}"),),
              "Of each operator without those after it in the chain, on average over subtasks."),
        Panel("Encoding, decoding and sending", "percentunit",
              ((f"{_by_vertex('avg', 'exchangeTimeMsPerSecond')} / 1000", _VERTEX),)),
        Panel("Input buffers in use", "percentunit",
              ((_by_vertex("max", "buffers_inPoolUsage"), _VERTEX),)),
        Panel("Output buffers in use", "percentunit",
              ((_by_vertex("max", "buffers_outPoolUsage"), _VERTEX),)),
        Panel("Records in by subtask", "ops", ((_task("numRecordsInPerSecond"), _SUBTASK),),
              "Lines far apart within a vertex: skew."),
    ),
    "Event time": (
        Panel("Watermark lag", "ms", ((_by_vertex("max", "watermarkLag"), _VERTEX),),
              "From the watermark to the wall clock, of the slowest subtask."),
        Panel("Late records dropped per second", "ops",
              ((f"sum by (operator_name) (rate({_operator('numLateRecordsDropped')}[1m]))",
                "{{operator_name}}"),)),
        Panel("Latency from the sources", "ms",
              tuple((f'max by (operator_id) ({_LATENCY}{{{_JOB},quantile="{each}"}})',
                     f"{{{{operator_id}}}} {each}") for each in ("0.5", "0.99")),
              "Needs metrics.latency.interval."),
        Panel("Time without input", "ms",
              ((f"max by (operator_name) ({_operator('sourceIdleTime')})", "{{operator_name}}"),)),
    ),
    "State and checkpoints": (
        Panel("Duration of the last checkpoint", "ms",
              ((_job("lastCheckpointDuration"), "{{job_name}}"),)),
        Panel("Size of the last checkpoint", "bytes",
              ((_job("lastCheckpointFullSize"), "{{job_name}} all"),
               (_job("lastCheckpointSize"), "{{job_name}} written"))),
        Panel("Checkpoints", "none",
              ((_job("numberOfCompletedCheckpoints"), "{{job_name}} completed"),
               (_job("numberOfFailedCheckpoints"), "{{job_name}} failed"))),
        Panel("State by vertex", "bytes", ((_by_vertex("sum", "stateSizeBytes"), _VERTEX),)),
        Panel("Entries of state", "none", ((_by_vertex("sum", "numStateEntries"), _VERTEX),)),
        Panel("Timers", "none",
              ((_by_vertex("sum", "numEventTimeTimers"), "{{task_name}} event time"),
               (_by_vertex("sum", "numProcessingTimeTimers"), "{{task_name}} processing time"))),
    ),
    "Processes": (
        Panel("CPU", "percentunit",
              (("flink_taskmanager_Status_JVM_CPU_Load", "{{tm_id}}"),
               ("flink_jobmanager_Status_JVM_CPU_Load", "JobManager"))),
        Panel("Memory", "bytes",
              (("flink_taskmanager_Status_JVM_Memory_Heap_Used", "{{tm_id}}"),
               ("flink_jobmanager_Status_JVM_Memory_Heap_Used", "JobManager"))),
    ),
}  # fmt: skip


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": 24, "x": 0, "y": y},
                "panels": [],
            }
        )
        y += 1
        stats = all(panel.kind == "stat" for panel in row)
        width, height = (6, 4) if stats else (12, 8)
        for number, panel in enumerate(row):
            x = number * width % 24
            place = {"h": height, "w": width, "x": x, "y": y + number * width // 24 * height}
            panels.append(_panel(len(panels) + 1, panel, place))
        y += -(-len(row) * width // 24) * height
    return {
        "title": "Penstock",
        "uid": "penstock-jobs",
        "description": "Jobs of Penstock: throughput, back-pressure, time, state, checkpoints.",
        "tags": ["penstock", "flink"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _DATASOURCE,
            "expr": expression,
            "legendFormat": legend or "__auto",
        }
        for index, (expression, legend) in enumerate(panel.expressions)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {},
        "targets": targets,
    }


def _variables() -> list[dict[str, Any]]:
    source = {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }
    return [
        source,
        _variable("job_id", "Job", "label_values(flink_jobmanager_job_uptime, job_id)"),
        _variable(
            "task",
            "Vertex",
            f"label_values(flink_taskmanager_job_task_numRecordsIn{{{_JOB}}}, task_name)",
        ),
    ]


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def text() -> str:
    """Return the file as it is to be."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text())
