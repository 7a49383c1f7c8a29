"""Turns a stage's layout into the deployment of its slots. A pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.graph.deployment import JobSettings, SubtaskRestore, VertexDeployment
from penstock.graph.placement import StageLayout
from penstock.graph.stage import BarrierSettings, NetworkSettings, StageDeployment, StageKeys
from penstock.graph.task_id import TaskId


def deploy_stage(
    layout: StageLayout,
    vertices: Sequence[VertexDeployment],
    settings: JobSettings,
    *,
    attempt: str,
    attempt_number: int,
    next_checkpoint: int,
    restore: Mapping[TaskId, SubtaskRestore],
    assignments: Mapping[TaskId, Any],
    state_io: object,
    staging: str,
    driver: str,
    keys: StageKeys,
    network: NetworkSettings,
    barriers: BarrierSettings,
) -> StageDeployment:
    """Return the deployment of a stage; `vertices`, `restore` and `assignments` may be those of the whole job."""
    placement = layout.placement
    return StageDeployment(
        settings=settings,
        stage=layout.stage,
        slots=layout.slots,
        attempt=attempt,
        attempt_number=attempt_number,
        next_checkpoint=next_checkpoint,
        vertices=tuple(vertex for vertex in vertices if vertex.id in layout.vertices),
        placement=dict(placement),
        restore={task: point for task, point in restore.items() if task in placement},
        assignments={task: each for task, each in assignments.items() if task in placement},
        state_io=state_io,
        staging=staging,
        driver=driver,
        keys=keys,
        network=network,
        barriers=barriers,
    )
