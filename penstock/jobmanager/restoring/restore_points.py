"""Computes the state that each subtask of a plan restores from a completed checkpoint. Pure functions."""

from __future__ import annotations

from typing import Any

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import Manifest, OperatorSnapshot
from penstock.errors import RestoreRefusedError
from penstock.graph.deployment import SubtaskRestore
from penstock.graph.key_groups import key_group_range
from penstock.graph.stage_plan import StagePlan, StageVertex
from penstock.graph.task_id import TaskId


def restore_points(
    plan: StagePlan, base: Manifest | None, *, just_restored: bool
) -> dict[TaskId, SubtaskRestore]:
    """Return the restore point of each subtask, by task.

    `just_restored`: the plan has just started, so subtasks that workers still cache in memory must not be used, because they may belong to
    another program.
    """
    if base is None:
        return {}
    _check_in_flight(plan, base)
    points = {}
    for vertex in plan.vertices:
        before = base.vertices.get(vertex.id)
        former = _former_subtasks(vertex, base)
        in_flight = _in_flight(plan, vertex, base)
        for subtask in range(vertex.parallelism):
            own = None
            if before is not None and before.parallelism == vertex.parallelism:
                own = before.subtasks[subtask] if len(former) == 1 else None
            keyed, owned = _keyed_state(vertex, subtask, base)
            points[TaskId(vertex.id, subtask)] = SubtaskRestore(
                snapshot=own.attempt if own is not None and not just_restored else None,
                keyed=keyed,
                owned=owned,
                local=own.local if own is not None else None,
                former=former,
                just_restored=just_restored,
                in_flight=in_flight,
            )
    return points


def _check_in_flight(plan: StagePlan, base: Manifest) -> None:
    """Reject a plan without the vertices of in-flight records."""
    known = {vertex.id for vertex in plan.vertices}
    for name, vertex in base.vertices.items():
        if name not in known and any(each.in_flight is not None for each in vertex.subtasks):
            raise RestoreRefusedError(
                f"checkpoint {base.checkpoint_id} has in-flight records of vertex '{name}', but the job has no such vertex",
                detail="an unaligned checkpoint can only be restored by the same program, at any parallelism",
                hint="take a savepoint of the old program, and start the new one from it",
            )


def _in_flight(
    plan: StagePlan, vertex: StageVertex, base: Manifest
) -> dict[str, tuple[StateHandle | None, ...]]:
    """Return the in-flight records of the channels of a vertex, and of their other ends: by vertex id and former subtask."""
    if not base.has_in_flight_data:
        return {}
    ends = [
        vertex.index,
        *(output.target_vertex for output in vertex.outputs),
        *(gate.source_vertex for gate in vertex.inputs),
    ]
    names = dict.fromkeys(plan.vertices[index].id for index in ends)
    return {
        name: tuple(each.in_flight for each in base.vertices[name].subtasks)
        for name in names
        if name in base.vertices
    }


def _keyed_state(
    vertex: StageVertex, subtask: int, base: Manifest
) -> tuple[dict[str, tuple[StateChain, ...]], range | None]:
    """Return the state chains to read, by operator id, and the key groups to keep (None: all)."""
    keyed: dict[str, tuple[StateChain, ...]] = {}
    owned = None
    groups = key_group_range(subtask, vertex.parallelism, vertex.max_parallelism)
    for operator in vertex.operators:
        snapshot = base.operators.get(operator.operator_id)
        if snapshot is None or not snapshot.is_stateful:
            continue
        if snapshot.parallelism == vertex.parallelism:
            chains: tuple[StateChain, ...] = (snapshot.subtasks[subtask],)
        else:
            chains, owned = _overlapping(snapshot, groups), groups
        keyed[operator.operator_id] = tuple(chain for chain in chains if chain)
    return keyed, owned


def _overlapping(snapshot: OperatorSnapshot, groups: range) -> tuple[StateChain, ...]:
    """Return the chains of the former subtasks that may have entries of these key groups."""
    return tuple(
        chain
        for chain in snapshot.subtasks
        if any(
            handle.key_groups[0] < groups.stop and groups.start < handle.key_groups[1]
            for handle in chain
        )
    )


def _former_subtasks(vertex: StageVertex, base: Manifest) -> dict[str, tuple[Any, ...]]:
    """Return the non-keyed state of all subtasks that ran the vertex's operators, by vertex id.

    An operator may have been in another chain, so in another vertex.
    """
    ids = [operator.operator_id for operator in vertex.operators]
    homes = [vertex.id, *(base.operators[name].vertex for name in ids if name in base.operators)]
    return {
        home: tuple(s.local for s in base.vertices[home].subtasks if s.local is not None)
        for home in dict.fromkeys(homes)
        if home in base.vertices
    }
