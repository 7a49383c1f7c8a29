"""Recompiles a program with another parallelism: for rescaling, and for the max parallelism of existing state."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace

from penstock.checkpoint.manifest import Manifest
from penstock.errors import ArgumentError, RestoreRefusedError
from penstock.graph.compiler import compile_program
from penstock.graph.deploy import deploy
from penstock.graph.settings import GraphSettings, check_parallelism
from penstock.graph.stage_plan import StagePlan, StageVertex
from penstock.jobmanager.job import Job


def replanned(job: Job, settings: GraphSettings) -> Job:
    """Return the job with recompiled plans."""
    plans = compile_program(job.program.transformations, settings)
    return replace(
        job,
        program=replace(job.program, settings=settings),
        plan=plans.stage_plan,
        job_graph=plans.job_graph,
        deployments=deploy(plans.stage_plan),
    )


def rescaled(job: Job, parallelism: int | Mapping[str, int]) -> Job:
    """Return the job with another parallelism: of all operators that do not set one, or of some by name.

    Names are uids, names or ids of operators, or ids of vertices; chained operators are rescaled together. The
    number of key groups does not change.
    """
    settings = replace(job.program.settings, key_groups=_key_groups(job.plan))
    if not isinstance(parallelism, Mapping):
        check_parallelism(parallelism, "the parallelism")
        return replanned(job, replace(settings, parallelism=parallelism))
    if not parallelism:
        raise ArgumentError("no operator to rescale", hint="give a name and a parallelism")
    chosen = dict(settings.rescaled)
    for name, wanted in parallelism.items():
        check_parallelism(wanted, f"the parallelism of '{name}'")
        vertex = _find_vertex(job.plan, name)
        chosen |= {operator.operator_id: wanted for operator in vertex.operators}
    return replanned(job, replace(settings, rescaled=chosen))


def fitted_to(job: Job, manifest: Manifest) -> Job:
    """Return the job with the max parallelism of the manifest's state.

    Operators with an explicit max parallelism keep it; if it differs, the checkpoint is rejected later. A parallelism above the number
    of key groups is rejected here.
    """
    written = {
        name: operator.max_parallelism
        for name, operator in manifest.operators.items()
        if operator.is_stateful
    }
    _check_parallelism(job.plan, written)
    current = _key_groups(job.plan)
    if all(current.get(name, groups) == groups for name, groups in written.items()):
        return job
    return replanned(job, replace(job.program.settings, key_groups=written))


def _check_parallelism(plan: StagePlan, written: Mapping[str, int]) -> None:
    for vertex in plan.vertices:
        for operator in vertex.operators:
            groups = written.get(operator.operator_id, vertex.parallelism)
            if vertex.parallelism > groups:
                raise RestoreRefusedError(
                    f"operator '{operator.name}' has parallelism {vertex.parallelism}, above the max parallelism {groups} "
                    "of its state",
                    detail=f"its keys are in {groups} key groups, and a subtask needs at least one",
                    hint=f"set a parallelism of at most {groups}",
                )


def _key_groups(plan: StagePlan) -> dict[str, int]:
    return {
        operator.operator_id: vertex.max_parallelism
        for vertex in plan.vertices
        for operator in vertex.operators
    }


def _find_vertex(plan: StagePlan, name: str) -> StageVertex:
    names: dict[str, list[StageVertex]] = {}
    for vertex in plan.vertices:
        known = {vertex.id, vertex.name}
        for operator in vertex.operators:
            known |= {operator.operator_id, operator.name, operator.uid or operator.operator_id}
        for each in known:
            names.setdefault(each, []).append(vertex)
    found = names.get(name, [])
    if len(found) == 1:
        return found[0]
    if found:
        raise ArgumentError(
            f"'{name}' matches {len(found)} vertices of the job", hint="use a uid or an id instead"
        )
    near = difflib.get_close_matches(name, names, n=3)
    raise ArgumentError(
        f"unknown operator '{name}'",
        hint=f"did you mean {' or '.join(near)}?"
        if near
        else f"the operators are {', '.join(sorted(names))}",
    )
