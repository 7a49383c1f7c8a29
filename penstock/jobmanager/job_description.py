"""Describes a job for its clients: collects its view from the JobMaster, each part when it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.graph.task_id import TaskId
from penstock.jobmanager.execution.execution_graph import ExecutionJobVertex
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.job_view import (
    AccumulatorView,
    CheckpointingView,
    EdgeView,
    JobView,
    Lazy,
    OperatorView,
    SettingsView,
    SubtaskPlace,
    SubtaskReport,
    Value,
    VertexView,
)
from penstock.jobmanager.metrics.live_metrics import LiveMetrics
from penstock.jobmanager.metrics.progress_lines import ProgressLines
from penstock.runtime.inspection.requests import SlotInfo


def describe_job(master: JobMaster, error: Callable[[], str | None]) -> JobView:
    """Return the view of a job; `error` returns the message of the error that it ended with."""
    job, manifest = master.job, master.manifest
    status, graph = master.status, master.execution_graph
    return JobView(
        id=job.job_id,
        name=job.name,
        status=status,
        start_ms=master.started_ms,
        end_ms=master.ended_ms if status.is_terminal_state() else None,
        checkpoint_id=0 if manifest is None else manifest.checkpoint_id,
        restarts=master.restarts,
        checkpoint_directory=None if job.checkpoints.temporary else master.store.storage.base,
        savepoint=master.savepoints.last,
        timestamps=graph.timestamps,
        failure=graph.failure,
        failures=graph.failures,
        error=Lazy(error),
        settings=Lazy(lambda: _settings(job)),
        checkpointing=Lazy(lambda: _checkpointing(job)),
        checkpoints=Lazy(master.statistics.snapshot),
        vertices=Lazy(lambda: tuple(_vertex(each, master.live) for each in graph.vertices)),
        edges=Lazy(lambda: tuple(_edges(job))),
        latency=Lazy(lambda: _latency(master)),
        dropped=Lazy(lambda: tuple(master.dropped())),
        suspicious=Lazy(lambda: tuple(master.suspicious())),
        places=Lazy(lambda: _places(master.slots())),
        accumulators=Lazy(lambda: tuple(_accumulators(job, master.metrics))),
        totals=Lazy(lambda: _totals(master)),
        progress=Lazy(lambda: _progress(master)),
    )


def total_accumulators(master: JobMaster) -> dict[str, Any]:
    """Return the metrics of all operators, summed over subtasks and completed checkpoints, as `operator.metric`."""
    names = {
        operator.operator_id: operator.name
        for vertex in master.job.plan.vertices
        for operator in vertex.operators
    }
    return {
        f"{names[operator]}.{metric}": value
        for operator, report in master.metrics.items()
        for metric, (_, value) in report.items()
    }


def _totals(master: JobMaster) -> dict[str, Value | bool | None]:
    return {
        name: value if isinstance(value, int | float | str | None) else str(value)
        for name, value in total_accumulators(master).items()
    }


def _progress(master: JobMaster) -> ProgressLines:
    return ProgressLines() if master.recorder is None else master.recorder.lines()


def _settings(job: Job) -> SettingsView:
    strategy = job.restart_strategy
    return SettingsView(
        type="BATCH" if job.settings.batch_mode else "STREAMING",
        mode=job.mode,
        parallelism=job.program.settings.parallelism,
        restart_strategy=strategy.get_description() if strategy is not None else "",
        user_config={name: str(value) for name, value in job.settings.job_parameters.items()},
    )


def _checkpointing(job: Job) -> CheckpointingView:
    return CheckpointingView(job.checkpoints, job.barriers, job.settings.state_backend.name)


def _vertex(vertex: ExecutionJobVertex, live: LiveMetrics) -> VertexView:
    start_ms, end_ms = vertex.span()
    described = vertex.job_vertex
    return VertexView(
        id=vertex.id,
        name=described.name,
        parallelism=described.parallelism,
        max_parallelism=described.max_parallelism,
        slot_sharing_group=described.slot_sharing_group,
        state=vertex.state,
        start_ms=start_ms,
        end_ms=end_ms,
        subtasks=vertex.subtasks,
        operators=tuple(
            OperatorView(operator.operator_id, operator.uid, operator.name)
            for operator in described.operators
        ),
        reports=tuple(
            SubtaskReport(live.subtask(TaskId(vertex.id, subtask)))
            for subtask in range(len(vertex.subtasks))
        ),
    )


def _edges(job: Job) -> list[EdgeView]:
    vertices = job.plan.vertices
    return [
        EdgeView(
            vertex.id,
            vertices[output.target_vertex].id,
            output.partitioning.NAME,
            output.side_tag,
        )
        for vertex in vertices
        for output in vertex.outputs
    ]


def _latency(master: JobMaster) -> dict[str, float] | None:
    ends = [vertex.id for vertex in master.job.plan.vertices if not vertex.outputs]
    latency = master.live.latency(ends)
    return latency.to_json() if latency.count else None


def _places(slots: Sequence[SlotInfo]) -> dict[str, list[SubtaskPlace]]:
    places: dict[str, list[SubtaskPlace]] = {}
    for slot in slots:
        for task in slot.tasks:
            place = SubtaskPlace(task.subtask, slot.host, slot.process)
            places.setdefault(task.vertex, []).append(place)
    return places


def _accumulators(job: Job, metrics: Mapping[str, Mapping[str, Any]]) -> list[AccumulatorView]:
    return [
        AccumulatorView(
            vertex.id,
            operator.name,
            name,
            str(kind),
            value if isinstance(value, str) else json.dumps(value, default=str),
        )
        for vertex in job.plan.vertices
        for operator in vertex.operators
        for name, (kind, value) in metrics.get(operator.operator_id, {}).items()
    ]
