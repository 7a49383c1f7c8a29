"""`/jobs/<id>/checkpoints`: checkpoint statistics, latest checkpoints and history, in Flink's JSON."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.routing.schemas import (
    ANY_OBJECT,
    INTEGER,
    TEXT,
    array,
    fields,
    mapping,
)

Json = dict[str, Any]


def _overview(services: Services, request: Request) -> Response:
    job = services.jobs.describe(request.parameters["jobid"])
    statistics, savepoint = job["checkpoint_statistics"], job["savepoint"]
    latest = {name: record and _brief(record) for name, record in statistics["latest"].items()}
    latest["savepoint"] = None if savepoint is None else _savepoint(savepoint)
    return Response(
        {
            "counts": statistics["counts"],
            "summary": statistics["summary"],
            "latest": latest,
            "history": [_brief(record) for record in statistics["history"]],
        }
    )


def _config(services: Services, request: Request) -> Response:
    return Response(services.jobs.describe(request.parameters["jobid"])["checkpoint_config"])


def _brief(record: Json) -> Json:
    """Return a checkpoint without its subtasks."""
    return {**record, "tasks": {}} if "tasks" in record else record


def _savepoint(path: str) -> Json:
    return {
        "className": "completed",
        "status": "COMPLETED",
        "is_savepoint": True,
        "checkpoint_type": "SAVEPOINT",
        "external_path": path,
    }


def _details(services: Services, request: Request) -> Response:
    record = _find(services, request)
    tasks = {
        vertex: {name: value for name, value in task.items() if name not in ("summary", "subtasks")}
        for vertex, task in record["tasks"].items()
    }
    return Response({**record, "tasks": tasks})


def _subtasks(services: Services, request: Request) -> Response:
    record, vertex = _find(services, request), request.parameters["vertexid"]
    if vertex not in record["tasks"]:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown vertex {vertex} of checkpoint {record['id']}",
            f"hint: its vertices are {', '.join(record['tasks'])}",
        )
    return Response(record["tasks"][vertex])


def _find(services: Services, request: Request) -> Json:
    job, wanted = (
        services.jobs.describe(request.parameters["jobid"]),
        request.parameters["checkpointid"],
    )
    statistics = job["checkpoint_statistics"]
    latest = [record for record in statistics["latest"].values() if record and "tasks" in record]
    known: list[Json] = [*statistics["history"], *latest]
    for record in known:
        if str(record["id"]) == wanted:
            return record
    numbers = ", ".join(dict.fromkeys(str(record["id"]) for record in known))
    raise HttpError(
        HTTPStatus.NOT_FOUND,
        f"unknown checkpoint {wanted} of job '{job['name']}'",
        f"hint: the last checkpoints are {numbers}" if known else "hint: it has no checkpoints yet",
    )


_CHECKPOINT = fields({"id": INTEGER, "status": TEXT, "tasks": mapping(ANY_OBJECT)})

ROUTES = (
    Route(
        "GET",
        "/jobs/:jobid/checkpoints",
        _overview,
        "checkpoint counts, summary statistics, latest checkpoints and history",
        response=fields(
            {
                "counts": mapping(INTEGER),
                "summary": mapping(ANY_OBJECT),
                "latest": ANY_OBJECT,
                "history": array(_CHECKPOINT),
            }
        ),
    ),
    Route(
        "GET",
        "/jobs/:jobid/checkpoints/config",
        _config,
        "the checkpointing configuration",
        response=fields({"mode": TEXT, "interval": INTEGER}),
    ),
    Route(
        "GET",
        "/jobs/:jobid/checkpoints/details/:checkpointid",
        _details,
        "statistics of a checkpoint, by vertex",
        response=_CHECKPOINT,
    ),
    Route(
        "GET",
        "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid",
        _subtasks,
        "statistics of a checkpoint for every subtask of a vertex",
        response=fields({"id": INTEGER, "status": TEXT, "subtasks": array(ANY_OBJECT)}),
    ),
)
