"""What Flink has and what has no meaning here: 404, with the reason."""

from __future__ import annotations

from http import HTTPStatus

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routes import Handler, Route, Services

_PROFILER = "profiles are made by the JVM's profiler, and tasks run in Python"
_FLAME = "hint: /jobs/<id>/vertices/<id>/flamegraph shows where a subtask spends its time"


def _no_data_sets(_services: Services, _request: Request) -> Response:
    return Response({"dataSets": []})  # none are kept between jobs


def _missing(reason: str, *hints: str) -> Handler:
    def handler(_services: Services, request: Request) -> Response:
        raise HttpError(
            HTTPStatus.NOT_FOUND, f"{request.path} has no meaning here: {reason}", *hints
        )

    return handler


_TABLE = (
    ("GET", "/jobmanager/profiler", _PROFILER, _FLAME),
    ("POST", "/jobmanager/profiler", _PROFILER, _FLAME),
    ("GET", "/jobmanager/profiler/:file", _PROFILER, _FLAME),
    ("GET", "/taskmanagers/:taskmanagerid/profiler", _PROFILER, _FLAME),
    ("POST", "/taskmanagers/:taskmanagerid/profiler", _PROFILER, _FLAME),
    ("GET", "/taskmanagers/:taskmanagerid/profiler/:file", _PROFILER, _FLAME),
    (
        "DELETE",
        "/datasets/:datasetid",
        "no data sets are kept between jobs",
        "hint: write to a file or a topic, and read that",
    ),
    (
        "POST",
        "/jobs",
        "a JobGraph of Flink's is Java code",
        "hint: 'penstock run --session' sends a program, /jars/upload takes a Python file",
    ),
    (
        "POST",
        "/jobs/:jobid/checkpoints",
        "checkpoints are taken at their interval, and not when they are asked for",
        "hint: POST /jobs/<id>/savepoints takes one that stays",
    ),
    (
        "PATCH",
        "/jobs/:jobid/client/heartbeat",
        "a job does not end with the client that sent it",
        "hint: 'penstock cancel' ends it",
    ),
)

ROUTES = (
    Route("GET", "/datasets", _no_data_sets, "data sets that are kept between jobs: none"),
    *(
        Route(method, path, _missing(reason, *hints), f"404: {reason}")
        for method, path, reason, *hints in _TABLE
    ),
)
