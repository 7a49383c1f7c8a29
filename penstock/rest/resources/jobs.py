"""`/jobs`: which jobs there are, and cancelling them."""

from __future__ import annotations

from http import HTTPStatus

from penstock.rest import shapes
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.resources.vertex_metrics import find_vertex
from penstock.rest.routes import Route, Services


def _list(services: Services, _request: Request) -> Response:
    jobs = [{"id": job["id"], "status": job["status"]} for job in services.jobs.descriptions()]
    return Response({"jobs": jobs})


def _overview(services: Services, _request: Request) -> Response:
    now = services.now_ms()
    return Response({"jobs": [shapes.overview(job, now) for job in services.jobs.descriptions()]})


def _details(services: Services, request: Request) -> Response:
    job = services.jobs.describe(request.parameters["jobid"])
    return Response(shapes.details(job, services.now_ms()))


def _vertex(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    return Response(shapes.vertex_details(vertex, services.now_ms()))


def _status(services: Services, request: Request) -> Response:
    return Response({"status": services.jobs.describe(request.parameters["jobid"])["status"]})


def _cancel(services: Services, request: Request) -> Response:
    mode = request.query.get("mode", "cancel")
    if mode != "cancel":
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"mode '{mode}' is unknown",
            "hint: mode=cancel cancels; POST /jobs/<id>/stop stops with a savepoint",
        )
    job_id = request.parameters["jobid"]
    if services.jobs.describe(job_id)["status"] != "CANCELED":
        services.jobs.running(job_id).cancel()
    return Response({}, HTTPStatus.ACCEPTED)


ROUTES = (
    Route("GET", "/jobs", _list, "ids and states of all jobs"),
    Route("GET", "/jobs/overview", _overview, "all jobs, with name, times and tasks"),
    Route(
        "GET",
        "/jobs/:jobid",
        _details,
        "one job, with its vertices and how many of their subtasks are in which state",
    ),
    Route("GET", "/jobs/:jobid/vertices/:vertexid", _vertex, "one vertex, with its subtasks"),
    Route("GET", "/jobs/:jobid/status", _status, "the state of one job"),
    Route("PATCH", "/jobs/:jobid", _cancel, "cancel a job (`?mode=cancel`)"),
)
