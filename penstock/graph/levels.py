"""Turns the vertices of a plan into the deployment of each level for one epoch. A pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.graph.deployment import (
    JobSettings,
    LevelDeployment,
    SubtaskRestore,
    VertexDeployment,
)
from penstock.graph.task_id import TaskId


def deploy_levels(
    vertices: Sequence[VertexDeployment],
    settings: JobSettings,
    *,
    checkpoint_id: int,
    attempt_number: int,
    restore: Mapping[TaskId, SubtaskRestore],
    assignments: Mapping[TaskId, Any],
    state_io: object,
    staging: str,
    deadline: float | None = None,
    longest_read_s: float | None = None,
) -> tuple[LevelDeployment, ...]:
    """Return the deployment of each level for an epoch, level 0 first.

    `restore` and `assignments` are of all subtasks; each level gets its own. Sources have a slot per subtask, subtasks of
    later
    vertices share the slot with their index.
    """
    hosted = [
        tuple(vertex for vertex in vertices if vertex.level == level)
        for level in range(1 + max(vertex.level for vertex in vertices))
    ]
    slots = [count_slots(level, members) for level, members in enumerate(hosted)]
    return tuple(
        LevelDeployment(
            settings=settings,
            level=level,
            slots=slots[level],
            checkpoint_id=checkpoint_id,
            attempt_number=attempt_number,
            vertices=members,
            restore=_of_level(restore, members),
            assignments=_of_level(assignments, members),
            next_slots=slots[level + 1] if level + 1 < len(slots) else 0,
            deadline=deadline,
            longest_read_s=longest_read_s,
            state_io=state_io,
            staging=staging,
            drains=any(each.drain for each in assignments.values()),
        )
        for level, members in enumerate(hosted)
    )


def count_slots(level: int, vertices: Sequence[VertexDeployment]) -> int:
    """Return the number of tasks of a level, given its vertices."""
    parallelisms = [vertex.parallelism for vertex in vertices]
    return sum(parallelisms) if level == 0 else max(parallelisms)


def _of_level(
    values: Mapping[TaskId, Any], members: Sequence[VertexDeployment]
) -> dict[TaskId, Any]:
    hosted = {vertex.id for vertex in members}
    return {task: value for task, value in values.items() if task.vertex in hosted}
