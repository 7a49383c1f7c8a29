"""`/penstock/session` and `/penstock/jobs`: submit jobs to a session, get their results, and shut the session down."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

from msgspec import Struct, field

from penstock.jobmanager.dispatcher.submission import Submission
from penstock.rest.flink_json.jobs import SubmittedJobResult
from penstock.rest.flink_json.parts import Empty, Id, Index
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.job_session import JobSession

MAX_SUBMISSION_BYTES = 256 << 20


class Submitted(Struct, frozen=True):
    """A job that was submitted, and the options of the submission that have no effect."""

    jobid: Id
    ignored_options: list[str] = field(name="ignored-options")


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
    submission = request.read(Submission)
    job_id = session.submit(submission)
    ignored = session.ignored_options(submission)
    return Response(Submitted(job_id, ignored), HTTPStatus.ACCEPTED)


def _result(services: Services, request: Request) -> Response:
    line, start_ms = (_number(request, name) for name in ("line", "start_ms"))
    return Response(SubmittedJobResult.of(find_job(services, request), line, start_ms))


def _number(request: Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} must be a non-negative integer")
    return int(text)


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
    return Response(Empty(), HTTPStatus.ACCEPTED)


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
        body=Submission,
        response=Submitted,
    ),
    Route(
        "GET",
        "/penstock/jobs/:jobid/result",
        _result,
        "the state of a job, its result, and the lines about its progress from number `line` of the run that started at `start_ms`",
        query={"line": Index, "start_ms": Index},
        response=SubmittedJobResult,
    ),
    Route(
        "DELETE",
        "/cluster",
        _shut_down,
        "shut a session down; its jobs are cancelled (`?jobs=keep`: left to another JobManager)",
        query={"jobs": Literal["cancel", "keep"]},
        response=Empty,
        answered_by_standbys=True,
    ),
)
