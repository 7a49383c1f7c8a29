"""`/jobs`: the list of jobs, the details of one, and its cancellation."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from penstock.rest.flink_json import shapes
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.routing.schemas import (
    ANY_OBJECT,
    FLAG,
    ID,
    INDEX,
    INTEGER,
    TEXT,
    TIMES,
    array,
    choice,
    fields,
    mapping,
    nullable,
)

_EXCEPTIONS = 20  # Flink's default


def _list(services: Services, _request: Request) -> Response:
    jobs = [{"id": job["id"], "status": job["status"]} for job in services.jobs.descriptions()]
    return Response({"jobs": jobs})


def _overview(services: Services, _request: Request) -> Response:
    now = services.now_ms()
    return Response({"jobs": [shapes.overview(job, now) for job in services.jobs.descriptions()]})


def _job(services: Services, request: Request) -> dict[str, Any]:
    return services.jobs.describe(request.parameters["jobid"])


def _details(services: Services, request: Request) -> Response:
    return Response(shapes.details(_job(services, request), services.now_ms()))


def _status(services: Services, request: Request) -> Response:
    return Response({"status": _job(services, request)["status"]})


def _plan(services: Services, request: Request) -> Response:
    return Response({"plan": shapes.plan(_job(services, request))})


def _config(services: Services, request: Request) -> Response:
    return Response(shapes.config(_job(services, request)))


def _exceptions(services: Services, request: Request) -> Response:
    most = request.query.get("maxExceptions", str(_EXCEPTIONS))
    if not most.isascii() or not most.isdigit() or len(most) > 9:
        raise HttpError(HTTPStatus.BAD_REQUEST, "maxExceptions must be a non-negative integer")
    return Response(shapes.exceptions(_job(services, request), int(most)))


def _accumulators(services: Services, request: Request) -> Response:
    return Response(shapes.accumulators(_job(services, request)))


def _execution_result(services: Services, request: Request) -> Response:
    job = _job(services, request)
    if job["end_ms"] is None:
        return Response({"status": {"id": "IN_PROGRESS"}})
    failed = job["status"] != "FINISHED"
    failure = {
        "class": "penstock.errors.JobExecutionError",
        "stack-trace": job["failure"] or "the job was cancelled",
    }
    return Response(
        {
            "status": {"id": "COMPLETED"},
            "job-execution-result": {
                "id": job["id"],
                "application-status": {"FINISHED": "SUCCEEDED"}.get(job["status"], job["status"]),
                "net-runtime": job["end_ms"] - job["start_ms"],
                "accumulator-results": {},
                **({"failure-cause": failure} if failed else {}),
            },
        }
    )


def _cancel(services: Services, request: Request) -> Response:
    mode = request.query.get("mode", "cancel")
    if mode != "cancel":
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown mode '{mode}'",
            "hint: use mode=cancel; POST /jobs/<id>/stop stops with a savepoint",
        )
    job_id = request.parameters["jobid"]
    if services.jobs.describe(job_id)["status"] != "CANCELED":
        services.jobs.running(job_id).cancel()
    return Response({}, HTTPStatus.ACCEPTED)


_JOB = {"jid": ID, "name": TEXT, "state": TEXT, **TIMES}
_PLAN = fields({"jid": ID, "name": TEXT, "type": TEXT, "nodes": array(ANY_OBJECT)})

_DROPPED = fields(
    {
        "vertex": TEXT,
        "operator": TEXT,
        "name": TEXT,
        "metric": TEXT,
        "reason": TEXT,
        "dropped": INTEGER,
        "records": INTEGER,
        "watermark": nullable(INTEGER),
        "lateness_ms": nullable(INTEGER),
        "unit": TEXT,
    }
)

ROUTES = (
    Route(
        "GET",
        "/jobs",
        _list,
        "ids and states of all jobs",
        response=fields({"jobs": array(fields({"id": ID, "status": TEXT}))}),
    ),
    Route(
        "GET",
        "/jobs/overview",
        _overview,
        "all jobs, with name, times and task counts",
        response=fields({"jobs": array(fields({**_JOB, "tasks": mapping(INTEGER)}))}),
    ),
    Route(
        "GET",
        "/jobs/:jobid",
        _details,
        "one job, with its vertices and the numbers of their subtasks by state",
        response=fields(
            {
                **_JOB,
                "isStoppable": FLAG,
                "now": INTEGER,
                "timestamps": mapping(INTEGER),
                "vertices": array(fields({"id": TEXT, "name": TEXT, "status": TEXT, **TIMES})),
                "status-counts": mapping(INTEGER),
                "plan": _PLAN,
                "penstock": fields({"dropped": array(_DROPPED)}),
            }
        ),
    ),
    Route(
        "GET",
        "/jobs/:jobid/status",
        _status,
        "the state of one job",
        response=fields({"status": TEXT}),
    ),
    Route(
        "GET",
        "/jobs/:jobid/plan",
        _plan,
        "the plan of a job: its vertices and the exchanges between them",
        response=fields({"plan": _PLAN}),
    ),
    Route(
        "GET",
        "/jobs/:jobid/config",
        _config,
        "the execution config of a job, with its global job parameters",
        response=fields({"jid": ID, "name": TEXT, "execution-config": ANY_OBJECT}),
    ),
    Route(
        "GET",
        "/jobs/:jobid/exceptions",
        _exceptions,
        "the failures of a job, the newest first: `?maxExceptions=20`",
        query={"maxExceptions": INDEX},
        response=fields(
            {"exceptionHistory": fields({"entries": array(ANY_OBJECT), "truncated": FLAG})}
        ),
    ),
    Route(
        "GET",
        "/jobs/:jobid/accumulators",
        _accumulators,
        "the accumulators of a job",
        query={"includeSerializedValue": choice("true", "false")},
        response=fields({"user-task-accumulators": array(ANY_OBJECT)}),
    ),
    Route(
        "GET",
        "/jobs/:jobid/execution-result",
        _execution_result,
        "the execution result of a job",
        response=fields({"status": fields({"id": TEXT})}, {"job-execution-result": ANY_OBJECT}),
    ),
    Route(
        "PATCH",
        "/jobs/:jobid",
        _cancel,
        "cancel a job (`?mode=cancel`)",
        query={"mode": choice("cancel")},
        response=ANY_OBJECT,
    ),
)
