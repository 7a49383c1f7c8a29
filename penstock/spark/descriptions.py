"""How Spark's UI and its event logs name what runs for a job: the job, its vertices, and the checkpoint or the attempt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from penstock.graph.deployment import LevelDeployment, VertexDeployment
from penstock.graph.stage import StageDeployment

_LONGEST: Final = 200


def describe_epoch(job: str, levels: Sequence[LevelDeployment]) -> str:
    """Return the description of a Spark job that is an epoch."""
    if not levels:
        return job
    vertices = _vertices(vertex for level in levels for vertex in level.vertices)
    return f"{job}: checkpoint {levels[0].checkpoint_id}: {vertices}"


def describe_stage(job: str, deployment: StageDeployment) -> str:
    """Return the description of a Spark job that is a stage of a pipelined job; attempts count from 1."""
    return f"{job}: attempt {deployment.attempt_number + 1}: {_vertices(deployment.vertices)}"


def _vertices(vertices: Iterable[VertexDeployment]) -> str:
    names = "; ".join(vertex.name for vertex in vertices)
    return names if len(names) <= _LONGEST else f"{names[: _LONGEST - 3]}..."
