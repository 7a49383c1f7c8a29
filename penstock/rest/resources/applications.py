"""`/applications`: programs with their jobs. A program of Penstock is one job, so each job is its own application."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from penstock.rest.flink_json import shapes
from penstock.rest.messages import Request, Response
from penstock.rest.resources.job_manager import ROUTES as _JOB_MANAGER
from penstock.rest.routing.routes import Role, Route, Services

_STATES: Final = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")
# Job states that applications do not have
_AS_APPLICATION: Final = {
    "INITIALIZING": "CREATED",
    "CANCELLING": "CANCELING",
    "RESTARTING": "RUNNING",
    "RECONCILING": "RUNNING",
    "SUSPENDED": "RUNNING",
}


def _state(status: str) -> str:
    return _AS_APPLICATION.get(status, status)


def _brief(job: dict[str, Any], now: int) -> dict[str, Any]:
    return {
        "id": job["id"],
        "name": job["name"],
        "start-time": job["start_ms"],
        "end-time": -1 if job["end_ms"] is None else job["end_ms"],
        "duration": (now if job["end_ms"] is None else job["end_ms"]) - job["start_ms"],
        "status": _state(job["status"]),
    }


def _overview(services: Services, _request: Request) -> Response:
    now = services.now_ms()
    return Response(
        {
            "applications": [
                {**_brief(job, now), "jobs": {job["status"]: 1}}
                for job in services.jobs.descriptions()
            ]
        }
    )


def _details(services: Services, request: Request) -> Response:
    job, now = services.jobs.describe(request.parameters["applicationid"]), services.now_ms()
    times = {_state(name): time for name, time in job["status_times"].items()}
    return Response(
        {
            **_brief(job, now),
            "timestamps": {state: times.get(state, 0) for state in _STATES},
            "jobs": [shapes.overview(job, now)],
        }
    )


def _exceptions(services: Services, request: Request) -> Response:
    job = services.jobs.describe(request.parameters["applicationid"])
    entries = []
    if job["status"] == "FAILED" and job["failure"]:
        entries.append(
            {
                "exceptionName": str(job["failure"]).strip().splitlines()[-1].split(":")[0],
                "stacktrace": job["failure"],
                "timestamp": job["end_ms"],
                "jobId": job["id"],
            }
        )
    return Response({"exceptionHistory": {"entries": entries}})


def _config(services: Services, request: Request) -> Response:
    services.jobs.describe(request.parameters["applicationid"])
    (route,) = (each for each in _JOB_MANAGER if each.path == "/jobmanager/config")
    return route.handler(services, request)


def _cancel(services: Services, request: Request) -> Response:
    job_id = request.parameters.get("applicationid") or request.parameters["jobid"]
    if services.jobs.describe(job_id)["status"] != "CANCELED":
        services.jobs.running(job_id).cancel()
    return Response({}, HTTPStatus.OK if request.method == "GET" else HTTPStatus.ACCEPTED)


_ONE = "/applications/:applicationid"

ROUTES = (
    Route(
        "GET", "/applications/overview", _overview, "all programs, each with the state of its job"
    ),
    Route("GET", _ONE, _details, "one program, with its job"),
    Route("GET", f"{_ONE}/exceptions", _exceptions, "the failures of a program"),
    Route(
        "GET", f"{_ONE}/jobmanager/config", _config, "the options of the JobManager that runs it"
    ),
    Route("POST", f"{_ONE}/cancel", _cancel, "cancel a program's job"),
    Route(
        "GET",
        "/jobs/:jobid/yarn-cancel",
        _cancel,
        "cancel a job, as Flink's web page does",
        role=Role.WRITE,
    ),
)
