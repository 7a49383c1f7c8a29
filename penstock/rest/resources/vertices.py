"""`/jobs/<id>/vertices/<id>`: a vertex, its subtasks and their attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.rest.flink_json import shapes, vertex_shapes
from penstock.rest.messages import Request, Response
from penstock.rest.routing.request_targets import find_attempt_of, find_subtask_of, find_vertex_of
from penstock.rest.routing.routes import Route, Services
from penstock.rest.routing.schemas import (
    ANY_OBJECT,
    INTEGER,
    TEXT,
    TIMES,
    array,
    fields,
    mapping,
)
from penstock.rest.services.taskmanagers import with_ids

Json = dict[str, Any]


def _find(services: Services, request: Request) -> tuple[Json, Json, Sequence[Json]]:
    job = services.jobs.describe(request.parameters["jobid"])
    vertex = find_vertex_of(job, request)
    return job, vertex, with_ids(job.get("places", {}).get(vertex["id"], ()))


def _details(services: Services, request: Request) -> Response:
    _, vertex, places = _find(services, request)
    return Response(vertex_shapes.vertex_details(vertex, places, services.now_ms()))


def _times(services: Services, request: Request) -> Response:
    _, vertex, places = _find(services, request)
    return Response(vertex_shapes.subtask_times(vertex, places, services.now_ms()))


def _taskmanagers(services: Services, request: Request) -> Response:
    _, vertex, places = _find(services, request)
    return Response(vertex_shapes.by_taskmanager(vertex, places, services.now_ms()))


def _subtask(services: Services, request: Request) -> Response:
    _, vertex, places = _find(services, request)
    subtask = find_subtask_of(vertex, request)
    number = subtask["subtask"]
    report = vertex_shapes.reports(vertex)[number]
    return Response(
        vertex_shapes.subtask(number, subtask["current"], report, places, services.now_ms())
    )


def _attempt(services: Services, request: Request) -> Response:
    _, vertex, places = _find(services, request)
    subtask = find_subtask_of(vertex, request)
    attempt, number = find_attempt_of(subtask, request), subtask["subtask"]
    if attempt is not subtask["current"]:  # metrics are known only for the current attempt
        return Response(vertex_shapes.subtask(number, attempt, {}, (), services.now_ms()))
    report = vertex_shapes.reports(vertex)[number]
    return Response(vertex_shapes.subtask(number, attempt, report, places, services.now_ms()))


def _accumulators(services: Services, request: Request) -> Response:
    job, vertex, _ = _find(services, request)
    counted = [each for each in job.get("accumulators", ()) if each["vertex"] == vertex["id"]]
    return Response(
        {
            "id": vertex["id"],
            "user-accumulators": [shapes.user_accumulator(each) for each in counted],
        }
    )


def _accumulators_of_subtasks(services: Services, request: Request) -> Response:
    """Respond in Flink's JSON, with empty lists: accumulators are only known summed over all subtasks, as of the last checkpoint."""
    _, vertex, places = _find(services, request)
    return Response(
        {
            "id": vertex["id"],
            "parallelism": vertex["parallelism"],
            "subtasks": [
                {
                    "subtask": each["subtask"],
                    "attempt": each["current"]["attempt"],
                    "endpoint": vertex_shapes.place(places, each["subtask"])["endpoint"],
                    "host": vertex_shapes.place(places, each["subtask"])["endpoint"],
                    "user-accumulators": [],
                }
                for each in vertex["subtasks"]
            ],
        }
    )


def _accumulators_of_attempt(services: Services, request: Request) -> Response:
    _, vertex, _ = _find(services, request)
    subtask = find_subtask_of(vertex, request)
    attempt = find_attempt_of(subtask, request)
    return Response(
        {
            "subtask": subtask["subtask"],
            "attempt": attempt["attempt"],
            "id": f"{vertex['id']}_{subtask['subtask']}_{attempt['attempt']}",
            "user-accumulators": [],
        }
    )


_VERTEX = "/jobs/:jobid/vertices/:vertexid"
_HEAD = {"id": TEXT, "name": TEXT, "now": INTEGER}
_COUNTED = array(fields({"name": TEXT, "type": TEXT, "value": TEXT}))
_ATTEMPT = fields(
    {
        "subtask": INTEGER,
        "status": TEXT,
        "attempt": INTEGER,
        "endpoint": TEXT,
        "taskmanager-id": TEXT,
        **TIMES,
        "metrics": ANY_OBJECT,
        "status-duration": mapping(INTEGER),
    }
)

ROUTES = (
    Route(
        "GET",
        _VERTEX,
        _details,
        "one vertex, with its subtasks",
        response=fields(
            {**_HEAD, "parallelism": INTEGER, "subtasks": array(_ATTEMPT), "aggregated": ANY_OBJECT}
        ),
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasktimes",
        _times,
        "when the subtasks of a vertex entered their states",
        response=fields({**_HEAD, "subtasks": array(fields({"timestamps": mapping(INTEGER)}))}),
    ),
    Route(
        "GET",
        f"{_VERTEX}/taskmanagers",
        _taskmanagers,
        "a vertex by the TaskManagers of its subtasks",
        response=fields({**_HEAD, "taskmanagers": array(fields({"endpoint": TEXT, **TIMES}))}),
    ),
    Route(
        "GET",
        f"{_VERTEX}/accumulators",
        _accumulators,
        "the accumulators of a vertex",
        response=fields({"id": TEXT, "user-accumulators": _COUNTED}),
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/accumulators",
        _accumulators_of_subtasks,
        "the subtasks of a vertex; their accumulators are empty, because only the sums over all subtasks are known",
        response=fields({"id": TEXT, "parallelism": INTEGER, "subtasks": array(ANY_OBJECT)}),
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex",
        _subtask,
        "one subtask, in its current attempt",
        response=_ATTEMPT,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt",
        _attempt,
        "one attempt of a subtask: the current one, or a recent one",
        response=_ATTEMPT,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt/accumulators",
        _accumulators_of_attempt,
        "an attempt of a subtask; its accumulators are empty, because only the sums over all subtasks are known",
        response=fields({"id": TEXT, "subtask": INTEGER, "attempt": INTEGER}),
    ),
)
