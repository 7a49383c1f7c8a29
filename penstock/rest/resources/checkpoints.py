"""`/jobs/<id>/checkpoints`: checkpoint statistics, latest checkpoints and history, in Flink's JSON."""

from __future__ import annotations

from http import HTTPStatus

from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointRecord
from penstock.rest.flink_json.checkpoints import (
    CheckpointConfigInfo,
    CheckpointDetails,
    CheckpointOverview,
    VertexCheckpointDetails,
    known_checkpoints,
)
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services


def _overview(services: Services, request: Request) -> Response:
    return Response(CheckpointOverview.of(find_job(services, request)))


def _config(services: Services, request: Request) -> Response:
    return Response(CheckpointConfigInfo.of(find_job(services, request).checkpointing()))


def _details(services: Services, request: Request) -> Response:
    return Response(CheckpointDetails.of(_find(services, request), with_vertices=True))


def _subtasks(services: Services, request: Request) -> Response:
    record, vertex = _find(services, request), request.parameters["vertexid"]
    if vertex not in record.parallelism:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown vertex {vertex} of checkpoint {record.number}",
            f"hint: its vertices are {', '.join(record.parallelism)}",
        )
    return Response(VertexCheckpointDetails.of(record.vertex(vertex), with_subtasks=True))


def _find(services: Services, request: Request) -> CheckpointRecord:
    job, wanted = find_job(services, request), request.parameters["checkpointid"]
    known = known_checkpoints(job.checkpoints())
    for record in known:
        if str(record.number) == wanted:
            return record
    numbers = ", ".join(dict.fromkeys(str(record.number) for record in known))
    raise HttpError(
        HTTPStatus.NOT_FOUND,
        f"unknown checkpoint {wanted} of job '{job.name}'",
        f"hint: the last checkpoints are {numbers}" if known else "hint: it has no checkpoints yet",
    )


ROUTES = (
    Route(
        "GET",
        "/jobs/:jobid/checkpoints",
        _overview,
        "checkpoint counts, summary statistics, latest checkpoints and history",
        response=CheckpointOverview,
    ),
    Route(
        "GET",
        "/jobs/:jobid/checkpoints/config",
        _config,
        "the checkpointing configuration",
        response=CheckpointConfigInfo,
    ),
    Route(
        "GET",
        "/jobs/:jobid/checkpoints/details/:checkpointid",
        _details,
        "statistics of a checkpoint, by vertex",
        response=CheckpointDetails,
    ),
    Route(
        "GET",
        "/jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid",
        _subtasks,
        "statistics of a checkpoint for every subtask of a vertex",
        response=VertexCheckpointDetails,
    ),
)
