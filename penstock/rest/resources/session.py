"""`/penstock/session` and `/penstock/jobs`: submit jobs to a session, get their results, and shut the session down."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.job_session import JobSession

MAX_SUBMISSION_BYTES = 256 << 20


def _session(services: Services) -> JobSession:
    if services.session is None:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            "this process runs a single program and is not a session",
            "hint: start a session with 'penstock session start'",
        )
    return services.session


def _show(services: Services, _request: Request) -> Response:
    return Response(_session(services).describe())


def _submit(services: Services, request: Request) -> Response:
    session = _session(services)
    job_id = session.submit(request.body)
    ignored = session.ignored_options(request.body)
    return Response({"jobid": job_id, "ignored-options": ignored}, HTTPStatus.ACCEPTED)


def _result(services: Services, request: Request) -> Response:
    job = services.jobs.describe(request.parameters["jobid"])
    ended: dict[str, Any] = {}
    if job["end_ms"] is not None:
        ended = {
            "runtime_ms": job["end_ms"] - job["start_ms"],
            "error": job.get("error"),
            "accumulators": job.get("totals") or {},
        }
    return Response({"id": job["id"], "name": job["name"], "status": job["status"], **ended})


def _shut_down(services: Services, request: Request) -> Response:
    session = _session(services)
    jobs = request.query.get("jobs", "cancel")
    if jobs not in {"cancel", "keep"}:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown value jobs={jobs}",
            "hint: jobs=cancel cancels the jobs, jobs=keep leaves them to another JobManager",
        )
    session.shut_down(keeps_jobs=jobs == "keep")
    return Response({}, HTTPStatus.ACCEPTED)


ROUTES = (
    Route(
        "GET",
        "/penstock/session",
        _show,
        "the session: its Spark application, its slots by job, its jobs",
        answered_by_standbys=True,
    ),
    Route(
        "POST",
        "/penstock/jobs",
        _submit,
        "submit a job, as `penstock run --session` does",
        max_body_bytes=MAX_SUBMISSION_BYTES,
    ),
    Route("GET", "/penstock/jobs/:jobid/result", _result, "the state of a job, and its result"),
    Route(
        "DELETE",
        "/cluster",
        _shut_down,
        "shut a session down; its jobs are cancelled (`?jobs=keep`: left to another JobManager)",
        query={"jobs": {"type": "string", "enum": ["cancel", "keep"]}},
        answered_by_standbys=True,
    ),
)
