"""Placement: the slot of each subtask, and the subtasks that are started and restarted together. Pure functions.

A slot hosts one subtask of every vertex of a slot sharing group, so a group has as many slots as its widest vertex has
subtasks, and a job has the sum over its groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.graph.job_graph import JobGraph, JobVertex
from penstock.graph.regions import find_regions
from penstock.graph.task_id import TaskId


@dataclass(frozen=True, slots=True)
class StageLayout:
    """One stage: the vertices whose subtasks are started together, and the slot of each subtask."""

    stage: int
    vertices: tuple[str, ...]
    slots: int
    placement: dict[TaskId, int]


def count_slots(graph: JobGraph) -> int:
    """Return the minimum number of slots of a job."""
    return sum(_widths(graph.vertices).values())


def count_slots_apart(graph: JobGraph) -> int:
    """Return the number of slots a job needs to run its regions in separate stages."""
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    return sum(
        sum(_widths([vertices[each] for each in region]).values()) for region in find_regions(graph)
    )


def lay_out(graph: JobGraph, cores: int | None) -> tuple[StageLayout, ...]:
    """Return the stages of a job for a number of cores, None: unlimited.

    Each region is a separate stage if there are enough cores for all of them; otherwise they share slots in one stage.
    """
    regions = find_regions(graph)
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    apart = tuple(
        _stage(number, [vertices[each] for each in region]) for number, region in enumerate(regions)
    )
    if cores is None or sum(stage.slots for stage in apart) <= cores:
        return apart
    return (_stage(0, graph.vertices),)


def _stage(number: int, vertices: Sequence[JobVertex]) -> StageLayout:
    widths = _widths(vertices)
    offsets: dict[str, int] = {}
    slots = 0
    for group, width in widths.items():
        offsets[group] = slots
        slots += width
    return StageLayout(
        number,
        tuple(vertex.id for vertex in vertices),
        slots,
        {
            TaskId(vertex.id, subtask): offsets[vertex.slot_sharing_group] + subtask
            for vertex in vertices
            for subtask in range(vertex.parallelism)
        },
    )


def _widths(vertices: Sequence[JobVertex]) -> dict[str, int]:
    """Return the number of slots of each slot sharing group, in order of appearance."""
    widths: dict[str, int] = {}
    for vertex in vertices:
        group = vertex.slot_sharing_group
        widths[group] = max(widths.get(group, 0), vertex.parallelism)
    return widths
