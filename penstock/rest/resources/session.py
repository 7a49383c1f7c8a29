"""`/penstock/session` and `/penstock/jobs`: a session takes jobs, tells how they ended, and is shut down."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routes import Route, Services
from penstock.rest.session import Session

MAX_SUBMISSION_BYTES = 256 << 20


def _session(services: Services) -> Session:
    if services.session is None:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            "this process is a program of its own and no session",
            "hint: 'penstock session start' starts one",
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
            f"jobs={jobs} is unknown",
            "hint: jobs=cancel cancels them, jobs=keep leaves them to another JobManager",
        )
    session.shut_down(keeps_jobs=jobs == "keep")
    return Response({}, HTTPStatus.ACCEPTED)


ROUTES = (
    Route(
        "GET",
        "/penstock/session",
        _show,
        "the session: its Spark, its slots and who holds them, its jobs",
        answered_by_standbys=True,
    ),
    Route(
        "POST",
        "/penstock/jobs",
        _submit,
        "run a job: what `penstock run --session` sends",
        max_body_bytes=MAX_SUBMISSION_BYTES,
    ),
    Route(
        "GET", "/penstock/jobs/:jobid/result", _result, "the state of a job, and how it has ended"
    ),
    Route(
        "DELETE",
        "/cluster",
        _shut_down,
        "end a session; its jobs are cancelled (`?jobs=keep`: left to another JobManager)",
        query={"jobs": {"type": "string", "enum": ["cancel", "keep"]}},
        answered_by_standbys=True,
    ),
)
