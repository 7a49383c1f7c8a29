"""Flame graphs: when stacks are sampled, and what is made of them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace

import pytest
from msgspec import to_builtins

from penstock.errors import JobRequestError, UnsupportedOperationError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.rest.messages import HttpError, Request
from penstock.rest.resources import flame_graph
from penstock.rest.services.flame_graphs import REFRESH_MS, FlameGraphs, FlameGraphType
from penstock.runtime.inspection.requests import Stacks
from tests.builders.rest_fakes import NOW

STACKS = Stacks(10, {("turn", "map"): (5, 1), ("turn", "flush"): (0, 2), ("wait",): (0, 2)})


def node(name, value, *children):
    return {"name": name, "value": value, "children": list(children)}


TREES = {
    FlameGraphType.FULL: node(
        "root", 10, node("turn", 8, node("flush", 2), node("map", 6)), node("wait", 2)
    ),
    FlameGraphType.ON_CPU: node("root", 5, node("turn", 5, node("map", 5))),
    FlameGraphType.OFF_CPU: node(
        "root", 5, node("turn", 3, node("flush", 2), node("map", 1)), node("wait", 2)
    ),
}


@pytest.fixture
def graphs():
    return FlameGraphs()


def shown(graphs, controller, tasks, kind, now_ms):
    """The JSON of a graph."""
    return to_builtins(graphs.get(controller, tasks, kind, now_ms))


def sampled(controller, stacks=STACKS):
    controller.answers["inspect"] = future = Future()
    future.set_result(stacks)
    return future


def test_the_first_request_begins_to_sample_and_the_next_gets_the_graph(graphs, controller):
    controller.answers["inspect"] = future = Future()
    tasks = [TaskId("v1", 0)]
    assert shown(graphs, controller, tasks, FlameGraphType.FULL, NOW) == {"endTimestamp": -3}
    assert shown(graphs, controller, tasks, FlameGraphType.FULL, NOW + 1) == {"endTimestamp": -3}
    assert len(controller.calls) == 1, "what is being sampled is not sampled twice"
    future.set_result(STACKS)
    for kind, tree in TREES.items():
        graph = shown(graphs, controller, tasks, kind, NOW + 2)
        assert graph == {"endTimestamp": NOW + 2, "data": tree}
    shown(graphs, controller, tasks, FlameGraphType.FULL, NOW + REFRESH_MS)
    assert len(controller.calls) == 1


def test_an_old_graph_is_shown_while_a_new_one_is_made(graphs, controller):
    tasks = [TaskId("v1", 0)]
    sampled(controller)
    shown(graphs, controller, tasks, FlameGraphType.FULL, NOW)
    controller.answers["inspect"] = future = Future()
    later = NOW + REFRESH_MS + 1
    assert shown(graphs, controller, tasks, FlameGraphType.FULL, later)["endTimestamp"] == NOW
    assert len(controller.calls) == 2
    future.set_result(Stacks(1, {("turn",): (1, 0)}))
    new = shown(graphs, controller, tasks, FlameGraphType.FULL, later + 5)
    assert new == {"endTimestamp": later + 5, "data": node("root", 1, node("turn", 1))}


def test_subtasks_of_a_vertex_are_added_up(graphs, controller):
    sampled(controller)
    tasks = [TaskId("v2", n) for n in range(3)]
    graph = shown(graphs, controller, tasks, FlameGraphType.ON_CPU, NOW)
    assert graph["data"]["value"] == 15


@pytest.mark.parametrize(
    ("error", "stamp"),
    [(UnsupportedOperationError("epochs"), -2), (JobRequestError("gone"), -1)],
    ids=["epochs", "gone"],
)
def test_what_cannot_be_sampled_has_no_graph_and_a_reason(graphs, controller, error, stamp):
    controller.answers["inspect"] = future = Future()
    future.set_exception(error)
    graph = shown(graphs, controller, [TaskId("v1", 0)], FlameGraphType.FULL, NOW)
    assert graph == {"endTimestamp": stamp, "penstock": {"reason": error.message}}


def handle(services, query=None, vertex="v2"):
    (route,) = flame_graph.ROUTES
    parameters = {"jobid": "a" * 32, "vertexid": vertex}
    request = Request("GET", route.path, query or {}, parameters=parameters)
    return to_builtins(route.handler(services, request).content)


def test_the_resource_samples_running_subtasks_only(services, controller):
    sampled(controller)
    first, second, third = controller.vertices[1].subtasks
    ended = replace(second, current=replace(second.current, state=ExecutionState.FINISHED))
    controller.change_vertex(1, subtasks=(first, ended, third))
    assert handle(services, {"type": "ON_CPU"})["data"]["value"] == 10
    assert [call[1] for call in controller.calls] == [TaskId("v2", 0), TaskId("v2", 2)]
    assert handle(services, {"subtaskindex": "1"}) == {"endTimestamp": -1}
    assert handle(services, {"subtaskindex": "2", "type": "off_cpu"})["data"]["value"] == 5


@pytest.mark.parametrize(
    "query", [{"type": "hot"}, {"subtaskindex": "3"}, {"subtaskindex": "-1"}, {"subtaskindex": "x"}]
)
def test_unknown_vertices_and_types_are_rejected(services, controller, query):
    with pytest.raises(HttpError) as error:
        handle(services, query)
    assert error.value.status == 400
