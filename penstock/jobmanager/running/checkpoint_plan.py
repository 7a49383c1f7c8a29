"""What all checkpoints of a plan share: operators, expected channels, committers."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.checkpoint.messages import OperatorPlan
from penstock.connectors.base.sink import Committer, CommitterContext
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.runtime.network.routing import connected_sources

_log = logging.getLogger(__name__)


def create_committers(job: Job, *, pipelined: bool) -> dict[str, Committer]:
    """Return the committers of the sinks that have one, by operator id."""
    created = {name: create_committer(job, name, pipelined=pipelined) for name in job.sinks()}
    return {name: committer for name, committer in created.items() if committer is not None}


def create_committer(job: Job, operator: str, *, pipelined: bool) -> Committer | None:
    """Open the committer of a sink; None if there is no such sink, or it has none."""
    sink = job.sinks().get(operator)
    committer = sink.create_committer() if sink is not None else None
    if committer is not None:
        interval_ms = job.checkpoints.interval_ms
        context = CommitterContext(job.job_id, operator, interval_ms, not pipelined, job.bounded)
        committer.open(context)
    return committer


def warn_of_hidden_output(job: Job) -> None:
    """Warn if sinks of a pipelined job would publish nothing while it runs."""
    if hidden := _sinks_without_commits(job):
        _log.warning(
            "job '%s': %s publishes output with checkpoints, but checkpointing is disabled: nothing becomes visible until the job "
            "ends (set execution.checkpointing.interval)",
            job.name,
            ", ".join(f"'{name}'" for name in hidden),
        )


def _sinks_without_commits(job: Job) -> list[str]:
    """Return the names of sinks whose output stays hidden in pipelined mode, because the job takes no checkpoints until it ends."""
    if job.checkpoints.interval_ms is not None or job.bounded:
        return []
    hidden = {
        operator_id
        for operator_id, sink in job.sinks().items()
        if not hasattr(sink, "put_streamed") and sink.create_committer() is not None
    }
    operators = (operator for vertex in job.plan.vertices for operator in vertex.operators)
    return [operator.name for operator in operators if operator.operator_id in hidden]


def operator_plans(job: Job, committers: Mapping[str, Committer]) -> tuple[OperatorPlan, ...]:
    """Return the entries of operators in a manifest, without their state."""
    return tuple(
        OperatorPlan(
            operator=operator.operator_id,
            name=operator.name,
            vertex=vertex.id,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            uid=operator.uid,
            committer=operator.operator_id in committers,
            description=operator.state_description,
        )
        for vertex in job.plan.vertices
        for operator in vertex.operators
    )


def expected_channels(job: Job) -> dict[TaskId, frozenset[TaskId]]:
    """Return the upstream tasks of every task of the plan."""
    vertices = job.plan.vertices
    channels: dict[TaskId, frozenset[TaskId]] = {}
    for vertex in vertices:
        for subtask in range(vertex.parallelism):
            channels[TaskId(vertex.id, subtask)] = frozenset(
                TaskId(vertices[gate.source_vertex].id, source)
                for gate in vertex.inputs
                for source in connected_sources(
                    gate.partitioning.NAME, subtask, gate.source_parallelism, vertex.parallelism
                )
            )
    return channels
