"""`/jobs/<id>/vertices/<id>/flamegraph`: where a running subtask, or all of a vertex, spends its time."""

from __future__ import annotations

from http import HTTPStatus

from penstock.graph.task_id import TaskId
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.rest.flink_json.parts import Index
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_vertex
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.flame_graphs import TERMINATED, FlameGraph, FlameGraphType


def _flame_graph(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    kind = _kind(request)
    chosen = _subtask(request, vertex.parallelism)
    subtasks = range(vertex.parallelism) if chosen is None else [chosen]
    running = [
        TaskId(vertex.id, each.subtask)
        for each in vertex.subtasks
        if each.subtask in subtasks and each.current.state is ExecutionState.RUNNING
    ]
    if not running:
        return Response(FlameGraph(end_timestamp=TERMINATED))
    controller = services.jobs.running(request.parameters["jobid"])
    return Response(services.flame_graphs.get(controller, running, kind, services.now_ms()))


def _kind(request: Request) -> FlameGraphType:
    given = request.query.get("type", FlameGraphType.FULL.value)
    try:
        return FlameGraphType(given.lower())
    except ValueError:
        known = ", ".join(kind.value for kind in FlameGraphType)
        raise HttpError(
            HTTPStatus.BAD_REQUEST, f"unknown flame graph type '{given}'", f"hint: use {known}"
        ) from None


def _subtask(request: Request, parallelism: int) -> int | None:
    given = request.query.get("subtaskindex")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or int(given) >= parallelism:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown subtask '{given}'",
            f"hint: subtaskindex must be 0 to {parallelism - 1}",
        )
    return int(given)


ROUTES = (
    Route(
        "GET",
        "/jobs/:jobid/vertices/:vertexid/flamegraph",
        _flame_graph,
        "where the subtasks of a vertex spend their time: `?type=full|on_cpu|off_cpu&subtaskindex=0`; "
        "`endTimestamp` is -3 while the first samples are taken",
        query={
            "type": FlameGraphType,
            "subtaskindex": Index,
        },
        response=FlameGraph,
    ),
)
