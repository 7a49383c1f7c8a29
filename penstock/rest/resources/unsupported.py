"""Routes of Flink that Penstock does not support: 404, with the reason."""

from __future__ import annotations

from http import HTTPStatus

from msgspec import Struct, field

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Handler, Route, Services

_PROFILER = "the profiler is the JVM's, and tasks run in Python"
_FLAME = "hint: /jobs/<id>/vertices/<id>/flamegraph shows where a subtask spends its time"


class DataSets(Struct, frozen=True):
    """Cluster data sets, which are not supported."""

    data_sets: tuple[()] = field(name="dataSets", default=())


def _no_data_sets(_services: Services, _request: Request) -> Response:
    return Response(DataSets())


def _missing(reason: str, *hints: str) -> Handler:
    def handler(_services: Services, request: Request) -> Response:
        raise HttpError(
            HTTPStatus.NOT_FOUND, f"{request.path} is not supported by Penstock: {reason}", *hints
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
        "cluster data sets are not kept between jobs",
        "hint: write to a file or a topic, and read from it",
    ),
    (
        "POST",
        "/jobs",
        "a JobGraph of Flink contains Java code",
        "hint: submit a program with 'penstock run --session', or upload a Python file to /jars/upload",
    ),
    (
        "POST",
        "/jobs/:jobid/checkpoints",
        "checkpoints are only triggered periodically",
        "hint: POST /jobs/<id>/savepoints triggers a savepoint",
    ),
    (
        "PATCH",
        "/jobs/:jobid/client/heartbeat",
        "a job does not depend on the client that submitted it",
        "hint: 'penstock cancel' ends it",
    ),
)

ROUTES = (
    Route("GET", "/datasets", _no_data_sets, "cluster data sets: always empty", response=DataSets),
    *(
        Route(method, path, _missing(reason, *hints), f"404: {reason}")
        for method, path, reason, *hints in _TABLE
    ),
)
