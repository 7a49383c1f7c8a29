"""Attempts, their states, and graphs that never change."""

from __future__ import annotations

import itertools

import pytest

from penstock.errors import ArgumentError
from penstock.graph.compiler import compile_program
from penstock.jobmanager.execution.execution_graph import Execution, generate
from penstock.jobmanager.execution.execution_state import (
    ExecutionState,
    JobStatus,
    may_follow,
    status_may_follow,
)
from tests.builders.cases import by_name, check_all
from tests.unit.graph.builder import SHAPES

S = ExecutionState
J = JobStatus
LIFE = (S.SCHEDULED, S.DEPLOYING, S.RUNNING, S.FINISHED)

ALLOWED = {
    S.CREATED: {S.SCHEDULED, S.CANCELED, S.FAILED},
    S.SCHEDULED: {S.DEPLOYING, S.CANCELED, S.FAILED},
    S.DEPLOYING: {S.RUNNING, S.CANCELING, S.FAILED},
    S.RUNNING: {S.FINISHED, S.CANCELING, S.FAILED},
    S.CANCELING: {S.CANCELED, S.FAILED},
}


@pytest.fixture
def graph():
    job = compile_program(*SHAPES["keyed_job"]()).job_graph
    return generate(job, job_id="j1", now_ms=0)


def states(graph):
    return [[subtask.current.state for subtask in vertex.subtasks] for vertex in graph.vertices]


def test_the_state_diagram_of_executions() -> None:
    def check(pair) -> None:
        state, following = pair
        assert may_follow(state, following) is (following in ALLOWED.get(state, set()))

    pairs = by_name(itertools.product(S, S), lambda pair: f"{pair[0].name}-{pair[1].name}")
    check_all(pairs, check)


def test_terminal_states_are_those_that_nothing_follows() -> None:
    assert {state for state in S if state.is_terminal} == {S.FINISHED, S.CANCELED, S.FAILED}
    for status in J:
        if status.is_globally_terminal_state():
            assert not any(status_may_follow(status, following) for following in J)


@pytest.mark.parametrize(
    "path",
    [
        [J.RUNNING, J.FINISHED],
        [J.RUNNING, J.FAILING, J.FAILED],
        [J.RUNNING, J.FAILING, J.RESTARTING, J.CREATED, J.RUNNING, J.FINISHED],
        [J.RUNNING, J.RESTARTING, J.RUNNING, J.CANCELLING, J.CANCELED],
        [J.RUNNING, J.SUSPENDED],
    ],
    ids=lambda path: " ".join(status.name for status in path),
)
def test_the_lives_of_a_job(graph, path) -> None:
    for now, status in enumerate(path, 1):
        graph = graph.with_status(status, now)
    assert graph.status is path[-1]
    assert [status for status, _ in graph.timestamps] == [J.CREATED, *path]
    assert graph.timestamp(path[-1]) == len(path)


def test_a_job_takes_no_step_that_the_diagram_does_not_have(graph) -> None:
    finished = graph.with_status(J.RUNNING, 1).with_status(J.FINISHED, 2)
    with pytest.raises(ArgumentError, match="'job' cannot go from FINISHED to RUNNING") as caught:
        finished.with_status(J.RUNNING, 3)
    assert caught.value.detail == "possible next states: none"


def test_a_new_graph_has_attempt_0_of_every_subtask(graph) -> None:
    assert states(graph) == [[S.CREATED] * 2] * 2
    assert graph.execution(graph.vertices[0].id, 1) == Execution(0, S.CREATED, ((S.CREATED, 0),))


def test_a_change_returns_a_copy_and_shares_the_rest(graph) -> None:
    vertex = graph.vertices[0].id
    changed = graph.transition(vertex, 1, S.SCHEDULED, 5)
    assert states(graph) == [[S.CREATED] * 2] * 2
    assert states(changed) == [[S.CREATED, S.SCHEDULED], [S.CREATED] * 2]
    assert changed.vertices[1] is graph.vertices[1]
    assert changed.execution(vertex, 1).timestamp(S.SCHEDULED) == 5
    assert changed.execution(vertex, 1).timestamp(S.RUNNING) is None


def test_mark_all_moves_every_attempt_and_notes_the_time(graph) -> None:
    for now, state in enumerate(LIFE, 1):
        graph = graph.mark_all(state, now)
    assert states(graph) == [[S.FINISHED] * 2] * 2
    assert graph.vertices[0].subtasks[0].current.timestamps == (
        (S.CREATED, 0),
        (S.SCHEDULED, 1),
        (S.DEPLOYING, 2),
        (S.RUNNING, 3),
        (S.FINISHED, 4),
    )


def test_mark_all_leaves_ended_attempts_alone(graph) -> None:
    vertex = graph.vertices[0].id
    failed = graph.transition(vertex, 0, S.FAILED, 1, failure="ValueError")
    assert states(failed.mark_all(S.SCHEDULED, 2)) == [[S.FAILED, S.SCHEDULED], [S.SCHEDULED] * 2]
    assert failed.execution(vertex, 0).failure == "ValueError"


def test_mark_all_cancels_undeployed_attempts_directly(graph) -> None:
    vertex = graph.vertices[0].id
    running = graph.transition(vertex, 0, S.SCHEDULED, 1).transition(vertex, 0, S.DEPLOYING, 2)
    assert states(running.mark_all(S.CANCELING, 3)) == [[S.CANCELING, S.CANCELED], [S.CANCELED] * 2]


def test_mark_all_refuses_to_skip_states(graph) -> None:
    with pytest.raises(ArgumentError, match="cannot go from CREATED to RUNNING"):
        graph.mark_all(S.RUNNING, 1)


def test_a_new_attempt_keeps_the_old_ones(graph) -> None:
    vertex = graph.vertices[1].id
    for attempt in range(3):
        graph = graph.transition(vertex, 0, S.FAILED, 10 + attempt).mark_all(S.CANCELED, 11)
        graph = graph.restart_all(20 + attempt)
    subtask = graph.vertex(vertex).subtasks[0]
    assert subtask.current == Execution.create(3, 22)
    assert [(old.attempt, old.state) for old in subtask.history] == [
        (n, S.FAILED) for n in range(3)
    ]


def test_a_running_attempt_is_not_replaced(graph) -> None:
    with pytest.raises(ArgumentError, match="attempt 0 of subtask 0 is still CREATED"):
        graph.restart_all(1)
    one_ended = graph.transition(graph.vertices[0].id, 0, S.CANCELED, 1)
    with pytest.raises(ArgumentError, match="attempt 0 of subtask 1 is still CREATED"):
        one_ended.restart_all(2)


def test_restart_all_gives_every_subtask_a_new_attempt(graph) -> None:
    restarted = graph.mark_all(S.CANCELED, 1).restart_all(2)
    assert states(restarted) == [[S.CREATED] * 2] * 2
    assert {s.current.attempt for v in restarted.vertices for s in v.subtasks} == {1}


def test_with_execution_takes_the_current_attempt_in_a_following_state_only(graph) -> None:
    vertex = graph.vertices[0].id
    now = graph.execution(vertex, 0)
    moved = now.to(S.SCHEDULED, 1)
    assert graph.with_execution(vertex, 0, moved).execution(vertex, 0) is moved
    with pytest.raises(ArgumentError, match="attempt 7 of subtask 0 is not the current one"):
        graph.with_execution(vertex, 0, Execution.create(7, 1))
    with pytest.raises(ArgumentError, match="cannot go from SCHEDULED to CREATED"):
        graph.with_execution(vertex, 0, moved).with_execution(vertex, 0, now)


@pytest.mark.parametrize("subtask", [-1, 2])
def test_unknown_subtasks_and_vertices_are_refused(graph, subtask) -> None:
    with pytest.raises(ArgumentError, match=f"has no subtask {subtask}"):
        graph.execution(graph.vertices[0].id, subtask)
    with pytest.raises(ArgumentError, match="unknown vertex 'nobody'"):
        graph.execution("nobody", 0)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("CREATED", "CREATED", "CREATED"),
        ("CREATED", "SCHEDULED", "SCHEDULED"),
        ("SCHEDULED", "DEPLOYING", "DEPLOYING"),
        ("DEPLOYING", "RUNNING", "RUNNING"),
        ("RUNNING", "FINISHED", "RUNNING"),
        ("SCHEDULED", "FINISHED", "RUNNING"),
        ("FINISHED", "FINISHED", "FINISHED"),
        ("FINISHED", "CANCELED", "CANCELED"),
        ("CANCELED", "CANCELING", "CANCELING"),
        ("CANCELING", "FAILED", "FAILED"),
    ],
)
def test_the_state_of_a_vertex_sums_up_its_subtasks(graph, first, second, expected) -> None:
    ways = {
        "CREATED": (),
        "SCHEDULED": LIFE[:1],
        "DEPLOYING": LIFE[:2],
        "RUNNING": LIFE[:3],
        "FINISHED": LIFE,
        "CANCELED": (S.CANCELED,),
        "CANCELING": (*LIFE[:3], S.CANCELING),
        "FAILED": (S.FAILED,),
    }
    vertex = graph.vertices[0].id
    for subtask, state in enumerate((first, second)):
        for step in ways[state]:
            graph = graph.transition(vertex, subtask, step, 1)
    assert graph.vertex(vertex).state.name == expected
    assert sum(graph.vertex(vertex).state_counts().values()) == 2


def test_json_shows_states_times_and_attempts(graph) -> None:
    vertex = graph.vertices[0].id
    shown = graph.transition(vertex, 0, S.FAILED, 9, failure="boom").to_json()
    assert (shown["job_id"], shown["status"]) == ("j1", "CREATED")
    assert shown["timestamps"] == [["CREATED", 0]]
    assert shown["vertices"][0]["state"] == "FAILED"
    assert shown["vertices"][0]["subtasks"][0]["current"] == {
        "attempt": 0,
        "state": "FAILED",
        "timestamps": {"CREATED": 0, "FAILED": 9},
        "failure": "boom",
        "checkpoint": None,
        "acknowledged_ms": None,
    }
