"""`/jobs`: the list of jobs, the details of one, and its cancellation."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

from penstock.common.job_status import JobStatus
from penstock.rest.flink_json.jobs import (
    ExecutionResult,
    JobAccumulators,
    JobConfig,
    JobDetails,
    JobExceptions,
    JobIdAndStatus,
    JobIds,
    JobOverview,
    JobOverviews,
    JobPlan,
    JobState,
    Plan,
)
from penstock.rest.flink_json.parts import Empty, Index
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services

_EXCEPTIONS = 20  # Flink's default


def _list(services: Services, _request: Request) -> Response:
    jobs = [JobIdAndStatus(job.id, job.status.name) for job in services.jobs.views()]
    return Response(JobIds(jobs))


def _overview(services: Services, _request: Request) -> Response:
    now = services.now_ms()
    return Response(JobOverviews([JobOverview.of(job, now) for job in services.jobs.views()]))


def _details(services: Services, request: Request) -> Response:
    return Response(JobDetails.of(find_job(services, request), services.now_ms()))


def _status(services: Services, request: Request) -> Response:
    return Response(JobState(find_job(services, request).status.name))


def _plan(services: Services, request: Request) -> Response:
    return Response(JobPlan(Plan.of(find_job(services, request))))


def _config(services: Services, request: Request) -> Response:
    return Response(JobConfig.of(find_job(services, request)))


def _exceptions(services: Services, request: Request) -> Response:
    most = request.query.get("maxExceptions", str(_EXCEPTIONS))
    if not most.isascii() or not most.isdigit() or len(most) > 9:
        raise HttpError(HTTPStatus.BAD_REQUEST, "maxExceptions must be a non-negative integer")
    return Response(JobExceptions.of(find_job(services, request), int(most)))


def _accumulators(services: Services, request: Request) -> Response:
    return Response(JobAccumulators.of(find_job(services, request)))


def _execution_result(services: Services, request: Request) -> Response:
    return Response(ExecutionResult.of(find_job(services, request)))


def _cancel(services: Services, request: Request) -> Response:
    mode = request.query.get("mode", "cancel")
    if mode != "cancel":
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown mode '{mode}'",
            "hint: use mode=cancel; POST /jobs/<id>/stop stops with a savepoint",
        )
    job = find_job(services, request)
    if job.status is not JobStatus.CANCELED:
        services.jobs.running(job.id).cancel()
    return Response(Empty(), HTTPStatus.ACCEPTED)


ROUTES = (
    Route("GET", "/jobs", _list, "ids and states of all jobs", response=JobIds),
    Route(
        "GET",
        "/jobs/overview",
        _overview,
        "all jobs, with name, times and task counts",
        response=JobOverviews,
    ),
    Route(
        "GET",
        "/jobs/:jobid",
        _details,
        "one job, with its vertices and the numbers of their subtasks by state",
        response=JobDetails,
    ),
    Route("GET", "/jobs/:jobid/status", _status, "the state of one job", response=JobState),
    Route(
        "GET",
        "/jobs/:jobid/plan",
        _plan,
        "the plan of a job: its vertices and the exchanges between them",
        response=JobPlan,
    ),
    Route(
        "GET",
        "/jobs/:jobid/config",
        _config,
        "the execution config of a job, with its global job parameters",
        response=JobConfig,
    ),
    Route(
        "GET",
        "/jobs/:jobid/exceptions",
        _exceptions,
        "the failures of a job, the newest first: `?maxExceptions=20`",
        query={"maxExceptions": Index},
        response=JobExceptions,
    ),
    Route(
        "GET",
        "/jobs/:jobid/accumulators",
        _accumulators,
        "the accumulators of a job",
        query={"includeSerializedValue": Literal["true", "false"]},
        response=JobAccumulators,
    ),
    Route(
        "GET",
        "/jobs/:jobid/execution-result",
        _execution_result,
        "the execution result of a job",
        response=ExecutionResult,
    ),
    Route(
        "PATCH",
        "/jobs/:jobid",
        _cancel,
        "cancel a job (`?mode=cancel`)",
        query={"mode": Literal["cancel"]},
        response=Empty,
    ),
)
