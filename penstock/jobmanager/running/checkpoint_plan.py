"""What the checkpoints of a plan have in common: its operators, who must hear from whom, who commits."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.checkpoint.messages import OperatorPlan
from penstock.connectors.sink import Committer
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.runtime.network.routing import connected_sources


def create_committers(job: Job) -> dict[str, Committer]:
    """Return the committers of the sinks that have one, by operator id."""
    created = {name: sink.create_committer() for name, sink in job.sinks().items()}
    return {name: committer for name, committer in created.items() if committer is not None}


def operator_plans(job: Job, committers: Mapping[str, Committer]) -> tuple[OperatorPlan, ...]:
    """Return what a manifest says about each operator besides its state."""
    return tuple(
        OperatorPlan(
            operator=operator.operator_id,
            name=operator.name,
            vertex=vertex.id,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            uid=operator.uid,
            committer=operator.operator_id in committers,
        )
        for vertex in job.plan.vertices
        for operator in vertex.operators
    )


def expected_channels(job: Job) -> dict[TaskId, frozenset[TaskId]]:
    """Return, for every task of the plan, the tasks that it must hear from."""
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
