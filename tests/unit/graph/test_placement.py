"""Regions, slots and stages of a job."""

from __future__ import annotations

import pytest

from penstock.graph.compiler import compile_program
from penstock.graph.deploy import deploy
from penstock.graph.deploy_stages import deploy_stage
from penstock.graph.deployment import JobSettings, SubtaskRestore
from penstock.graph.placement import count_slots, lay_out
from penstock.graph.regions import find_regions
from penstock.graph.stage import BarrierSettings, NetworkSettings, StageKeys
from penstock.graph.task_id import TaskId
from tests.unit.graph.builder import key_by, operator, settings, sink, source, union


def plans(*roots, **options):
    return compile_program(roots, settings(**{"parallelism": 2, **options}))


def graph(*roots, **options):
    return plans(*roots, **options).job_graph


def names(job_graph, ids):
    by_id = {vertex.id: vertex.name for vertex in job_graph.vertices}
    return [by_id[each] for each in ids]


def pipeline(name, **options):
    return sink(f"{name}-out", operator(f"{name}-sum", key_by(source(name)), **options))


def test_vertices_that_records_connect_are_one_region():
    job = graph(pipeline("a"))
    assert [names(job, region) for region in find_regions(job)] == [
        ["Source: a", "a-sum -> Sink: a-out"]
    ]


def test_pipelines_without_a_common_vertex_are_regions_of_their_own():
    job = graph(pipeline("a"), pipeline("b"))
    found = [names(job, region) for region in find_regions(job)]
    assert sorted(region[0] for region in found) == ["Source: a", "Source: b"]
    assert sorted(len(region) for region in found) == [2, 2]


def test_a_late_union_makes_one_region_of_two():
    a, b = operator("a-sum", key_by(source("a"))), operator("b-sum", key_by(source("b")))
    job = graph(sink("out", operator("both", key_by(union(a, b)))))
    assert len(find_regions(job)) == 1


def test_two_sinks_of_one_source_are_in_its_region():
    a = source("a")
    job = graph(sink("x", key_by(a)), sink("y", key_by(a)))
    assert len(find_regions(job)) == 1


def test_a_group_has_as_many_slots_as_its_widest_vertex():
    job = graph(sink("out", operator("sum", key_by(source("a")), parallelism=3), parallelism=1))
    assert count_slots(job) == 3


def test_subtask_i_lives_in_slot_i_of_its_group():
    job = graph(pipeline("a", slot_sharing_group="heavy", parallelism=3))
    (stage,) = lay_out(job, None)
    first, second = job.vertices[0], job.vertices[1]
    assert stage.slots == 5 == count_slots(job)
    assert [stage.placement[TaskId(first.id, i)] for i in range(2)] == [0, 1]
    assert [stage.placement[TaskId(second.id, i)] for i in range(3)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("cores", "slots"),
    [
        pytest.param(None, [2, 2], id="no bound"),
        pytest.param(4, [2, 2], id="cores for both"),
        pytest.param(3, [2], id="cores for one"),
    ],
)
def test_regions_are_stages_of_their_own_if_there_are_cores_for_all(cores, slots):
    stages = lay_out(graph(pipeline("a"), pipeline("b")), cores)
    assert [stage.slots for stage in stages] == slots
    assert [stage.stage for stage in stages] == list(range(len(slots)))


def test_every_subtask_has_one_slot():
    job = graph(pipeline("a"), pipeline("b", parallelism=3))
    tasks = {TaskId(v.id, i) for v in job.vertices for i in range(v.parallelism)}
    for cores in (None, 3):
        placed = [task for stage in lay_out(job, cores) for task in stage.placement]
        assert sorted(placed) == sorted(tasks)


def test_stage_deployment_contains_only_its_own_subtasks():
    made = plans(pipeline("a"), pipeline("b"))
    stages = lay_out(made.job_graph, None)
    everyone = {task: SubtaskRestore() for stage in stages for task in stage.placement}
    deployment = deploy_stage(
        stages[1],
        deploy(made.stage_plan),
        JobSettings("job", "job"),
        attempt="x",
        attempt_number=3,
        next_checkpoint=8,
        restore=everyone,
        assignments=dict.fromkeys(everyone, "splits"),
        state_io=None,
        staging="/staging",
        driver="tcp://127.0.0.1:1",
        keys=StageKeys(b"public", b"secret"),
        network=NetworkSettings(),
        barriers=BarrierSettings(),
    )
    own = set(stages[1].placement)
    assert {vertex.id for vertex in deployment.vertices} == set(stages[1].vertices)
    assert set(deployment.restore) == set(deployment.assignments) == own
    assert (deployment.slots, deployment.stage, deployment.next_checkpoint) == (2, 1, 8)
    assert "secret" not in repr(deployment.keys)
