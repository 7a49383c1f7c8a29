"""`/jobs/<id>/vertices/<id>`: a vertex, its subtasks and their attempts."""

from __future__ import annotations

from msgspec import Struct, field

from penstock.jobmanager.job_view import JobView, SubtaskReport, VertexView
from penstock.rest.flink_json.jobs import UserAccumulator
from penstock.rest.flink_json.vertices import (
    UNASSIGNED,
    Locations,
    SubtaskAttempt,
    VertexDetails,
    VertexTaskManagers,
    VertexTimes,
)
from penstock.rest.messages import Request, Response
from penstock.rest.routing.request_targets import (
    find_attempt_of,
    find_job,
    find_subtask_of,
    find_vertex_of,
)
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.taskmanagers import locations_of


class VertexAccumulators(Struct, frozen=True):
    """The accumulators of a vertex."""

    id: str
    user_accumulators: list[UserAccumulator] = field(name="user-accumulators")


class SubtaskAccumulators(Struct, frozen=True, kw_only=True):
    """A subtask without accumulators, because only the sums over all subtasks are known, as of the last checkpoint."""

    subtask: int
    attempt: int
    endpoint: str
    host: str
    user_accumulators: tuple[()] = field(name="user-accumulators", default=())


class SubtasksAccumulators(Struct, frozen=True):
    """The subtasks of a vertex without accumulators."""

    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


class AttemptAccumulators(Struct, frozen=True, kw_only=True):
    """An attempt of a subtask without accumulators."""

    subtask: int
    attempt: int
    id: str
    user_accumulators: tuple[()] = field(name="user-accumulators", default=())


def _find(services: Services, request: Request) -> tuple[JobView, VertexView, Locations]:
    job = find_job(services, request)
    vertex = find_vertex_of(job, request)
    return job, vertex, locations_of(job.places().get(vertex.id, ()))


def _details(services: Services, request: Request) -> Response:
    _, vertex, locations = _find(services, request)
    return Response(VertexDetails.of(vertex, locations, services.now_ms()))


def _times(services: Services, request: Request) -> Response:
    _, vertex, locations = _find(services, request)
    return Response(VertexTimes.of(vertex, locations, services.now_ms()))


def _taskmanagers(services: Services, request: Request) -> Response:
    _, vertex, locations = _find(services, request)
    return Response(VertexTaskManagers.of(vertex, locations, services.now_ms()))


def _subtask(services: Services, request: Request) -> Response:
    _, vertex, locations = _find(services, request)
    subtask = find_subtask_of(vertex, request)
    number = subtask.subtask
    location = locations.get(number, UNASSIGNED)
    return Response(
        SubtaskAttempt.of(
            number, subtask.current, vertex.report(number), location, services.now_ms()
        )
    )


def _attempt(services: Services, request: Request) -> Response:
    _, vertex, locations = _find(services, request)
    subtask = find_subtask_of(vertex, request)
    attempt, number = find_attempt_of(subtask, request), subtask.subtask
    report, location = vertex.report(number), locations.get(number, UNASSIGNED)
    if attempt is not subtask.current:  # metrics are known only for the current attempt
        report, location = SubtaskReport(), UNASSIGNED
    return Response(SubtaskAttempt.of(number, attempt, report, location, services.now_ms()))


def _accumulators(services: Services, request: Request) -> Response:
    job = find_job(services, request)
    vertex = find_vertex_of(job, request)
    counted = [each for each in job.accumulators() if each.vertex == vertex.id]
    return Response(VertexAccumulators(vertex.id, [UserAccumulator.of(each) for each in counted]))


def _accumulators_of_subtasks(services: Services, request: Request) -> Response:
    _, vertex, locations = _find(services, request)
    subtasks = [
        SubtaskAccumulators(
            subtask=each.subtask,
            attempt=each.current.attempt,
            endpoint=locations.get(each.subtask, UNASSIGNED).host,
            host=locations.get(each.subtask, UNASSIGNED).host,
        )
        for each in vertex.subtasks
    ]
    return Response(SubtasksAccumulators(vertex.id, vertex.parallelism, subtasks))


def _accumulators_of_attempt(services: Services, request: Request) -> Response:
    vertex = find_vertex_of(find_job(services, request), request)
    subtask = find_subtask_of(vertex, request)
    number, attempt = subtask.subtask, find_attempt_of(subtask, request).attempt
    return Response(
        AttemptAccumulators(subtask=number, attempt=attempt, id=f"{vertex.id}_{number}_{attempt}")
    )


_VERTEX = "/jobs/:jobid/vertices/:vertexid"

ROUTES = (
    Route("GET", _VERTEX, _details, "one vertex, with its subtasks", response=VertexDetails),
    Route(
        "GET",
        f"{_VERTEX}/subtasktimes",
        _times,
        "when the subtasks of a vertex entered their states",
        response=VertexTimes,
    ),
    Route(
        "GET",
        f"{_VERTEX}/taskmanagers",
        _taskmanagers,
        "a vertex by the TaskManagers of its subtasks",
        response=VertexTaskManagers,
    ),
    Route(
        "GET",
        f"{_VERTEX}/accumulators",
        _accumulators,
        "the accumulators of a vertex",
        response=VertexAccumulators,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/accumulators",
        _accumulators_of_subtasks,
        "the subtasks of a vertex; their accumulators are empty, because only the sums over all subtasks are known",
        response=SubtasksAccumulators,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex",
        _subtask,
        "one subtask, in its current attempt",
        response=SubtaskAttempt,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt",
        _attempt,
        "one attempt of a subtask: the current one, or a recent one",
        response=SubtaskAttempt,
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex/attempts/:attempt/accumulators",
        _accumulators_of_attempt,
        "an attempt of a subtask; its accumulators are empty, because only the sums over all subtasks are known",
        response=AttemptAccumulators,
    ),
)
