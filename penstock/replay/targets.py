"""Finds the vertex and subtask that a user selects."""

from __future__ import annotations

from penstock.replay.errors import ReplayError
from penstock.replay.recording import Recording
from penstock.replay.running import ReplayTarget
from penstock.runtime.network.messages import TaskFailure


def find_target(recording: Recording, vertex: str | int, subtask: int | None) -> ReplayTarget:
    """Find a subtask: its vertex by uid, by the name of an operator in it, by its index or its id.

    Part of a name is enough if it is unique. Without a subtask number it is the subtask that failed, else subtask 0.
    """
    index = _find_vertex(recording, str(vertex))
    deployment = recording.plan.vertices[index]
    number = _subtask_that_failed(recording, deployment.id) if subtask is None else subtask
    if not 0 <= number < deployment.parallelism:
        raise ReplayError(
            f"vertex '{deployment.name}' has no subtask {number}",
            hint=f"its subtasks are 0 to {deployment.parallelism - 1}",
        )
    if (
        recording.record.pipelined
    ):  # in pipelined mode subtasks are replayed one by one, vertex after vertex
        return ReplayTarget(index, number, index, number)
    return ReplayTarget(deployment.level, deployment.slot_offset + number, index, number)


def _subtask_that_failed(recording: Recording, vertex: str) -> int:
    failure = recording.record.failure
    task = failure.task if isinstance(failure, TaskFailure) else None
    return task.subtask if task is not None and task.vertex == vertex else 0


def _find_vertex(recording: Recording, wanted: str) -> int:
    plan = recording.plan
    exact: list[int] = []
    partial: list[int] = []
    for index, vertex in enumerate(plan.vertices):
        ids = [info.operator_id for info in vertex.operators]
        names = [info.name for info in vertex.operators]
        uids = [plan.uids[each] for each in ids if each in plan.uids]
        if wanted in {str(index), vertex.id, vertex.name, *ids, *names, *uids}:
            exact.append(index)
        elif any(wanted in name for name in names):
            partial.append(index)
    found = exact or partial
    if len(found) == 1:
        return found[0]
    known = "\n".join(
        f"  {index}  {vertex.name}  x{vertex.parallelism}"
        for index, vertex in enumerate(plan.vertices)
    )
    raise ReplayError(
        f"unknown vertex '{wanted}' in job '{plan.job_name}'"
        if not found
        else f"'{wanted}' is ambiguous: it matches the vertices {', '.join(map(str, found))}",
        detail=f"its vertices are\n{known}",
        hint="select one by number, uid, id or the name of an operator",
    )
