"""The deployments of the tasks of each level in an epoch."""

from __future__ import annotations

import pytest

from penstock.connectors.base.source import SourceAssignment
from penstock.graph.compiler import compile_program
from penstock.graph.deploy import deploy
from penstock.graph.deployment import JobSettings, SubtaskRestore
from penstock.graph.levels import deploy_levels
from penstock.graph.task_id import TaskId

from .builder import SHAPES, keyed, settings, sink, source


def deployed(roots, options, **values):
    plan = compile_program(roots, options).stage_plan
    given = {"restore": {}, "assignments": {}, "state_io": None, "staging": "/staging", **values}
    levels = deploy_levels(
        deploy(plan), JobSettings("j", "a job"), checkpoint_id=7, attempt_number=2, **given
    )
    return plan, levels


@pytest.mark.parametrize("shape", SHAPES)
def test_levels_are_those_of_the_plan(shape: str) -> None:
    plan, levels = deployed(*SHAPES[shape]())
    assert [(each.level, each.slots) for each in levels] == [
        (each.index, each.slots) for each in plan.levels
    ]
    assert [tuple(vertex.vertex for vertex in each.vertices) for each in levels] == [
        each.vertices for each in plan.levels
    ]
    assert [each.next_slots for each in levels] == [*[each.slots for each in plan.levels][1:], 0]
    assert {(each.checkpoint_id, each.attempt_number) for each in levels} == {(7, 2)}


def test_level_deployment_contains_only_its_own_subtasks() -> None:
    roots = [sink("s", keyed("k", source("a")))]
    plan, _ = deployed(roots, settings(parallelism=2))
    a, k = ([TaskId(vertex.id, subtask) for subtask in (0, 1)] for vertex in plan.vertices)
    restore = {task: SubtaskRestore(snapshot=f"{task}") for task in [*a, *k]}
    given = {a[0]: SourceAssignment(), a[1]: SourceAssignment(idle=True)}
    _, (first, second) = deployed(
        roots, settings(parallelism=2), restore=restore, assignments=given
    )
    assert set(first.restore) == set(a)
    assert set(second.restore) == set(k)
    assert first.assignments == given
    assert second.assignments == {}


def test_common_settings_are_in_every_level() -> None:
    _, levels = deployed([keyed("k", source("a"))], settings(), deadline=9.5, longest_read_s=2.0)
    assert {(each.deadline, each.longest_read_s, each.staging) for each in levels} == {
        (9.5, 2.0, "/staging")
    }


@pytest.mark.parametrize("drain", [False, True])
def test_all_levels_know_that_sources_are_drained(drain: bool) -> None:
    roots = [keyed("k", source("a"))]
    plan, _ = deployed(roots, settings())
    assignments = {TaskId(plan.vertices[0].id, 0): SourceAssignment(drain=drain)}
    _, levels = deployed(roots, settings(), assignments=assignments)
    assert [each.drains for each in levels] == [drain, drain]
