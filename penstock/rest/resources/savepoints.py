"""Savepoints: taking them, stopping with one, deleting them."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.routing.schemas import (
    FLAG,
    ID,
    TEXT,
    TRIGGER_ID,
    body,
    choice,
    nullable,
    operation,
)
from penstock.rest.services.operations import run_in_background

_SAVEPOINT = "savepoint"
_DISPOSAL = "disposal"
_TRIGGER_ID = re.compile(r"[0-9a-fA-F]{32}")


def trigger_id(request: Request) -> str | None:
    """Return the id that the client chose for the operation, or None."""
    given = request.text("triggerId")
    if given is not None and not _TRIGGER_ID.fullmatch(given):
        raise HttpError(HTTPStatus.BAD_REQUEST, "field 'triggerId' must be 32 hexadecimal digits")
    return given


def _check_format(request: Request) -> None:
    """Reject formats that Flink does not have. Flink's formats all mean the same here: one that every version reads."""
    given = request.text("formatType")
    if given not in {None, "CANONICAL", "NATIVE"}:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown savepoint format '{given}'",
            "hint: use CANONICAL or NATIVE",
        )


def _trigger(services: Services, request: Request) -> Response:
    request.refuse_unknown_fields(("target-directory", "cancel-job", "formatType", "triggerId"))
    _check_format(request)
    job_id = request.parameters["jobid"]
    controller = services.jobs.running(job_id)
    directory = request.text("target-directory")
    # No record is processed after the savepoint, so a job that resumes from it repeats nothing.
    stop = request.flag("cancel-job")
    return services.operations.start(
        _SAVEPOINT,
        job_id,
        lambda: (
            controller.stop_with_savepoint(False, directory)
            if stop
            else controller.trigger_savepoint(directory)
        ),
        trigger_id(request),
    )


def _stop(services: Services, request: Request) -> Response:
    request.refuse_unknown_fields(("targetDirectory", "drain", "formatType", "triggerId"))
    _check_format(request)
    job_id = request.parameters["jobid"]
    controller = services.jobs.running(job_id)
    directory, drain = request.text("targetDirectory"), request.flag("drain")
    return services.operations.start(
        _SAVEPOINT,
        job_id,
        lambda: controller.stop_with_savepoint(drain, directory),
        trigger_id(request),
    )


def _status(services: Services, request: Request) -> Response:
    return services.operations.status(
        _SAVEPOINT,
        request.parameters["jobid"],
        request.parameters["triggerid"],
        lambda path: {"location": path},
    )


def _dispose(services: Services, request: Request) -> Response:
    request.refuse_unknown_fields(("savepoint-path",))
    path = request.text("savepoint-path")
    if path is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "missing field 'savepoint-path'")
    return services.operations.start(_DISPOSAL, None, lambda: run_in_background(lambda: _rm(path)))


def _rm(path: str) -> Any:
    from penstock.savepoint.reader import dispose_savepoint

    return dispose_savepoint(path)


def _disposal_status(services: Services, request: Request) -> Response:
    return services.operations.status(
        _DISPOSAL, None, request.parameters["triggerid"], lambda _: {}
    )


_PATH = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$"}
_COMMON = {
    "formatType": nullable(choice("CANONICAL", "NATIVE")),
    "triggerId": nullable(ID),
}

ROUTES = (
    Route(
        "POST",
        "/jobs/:jobid/savepoints",
        _trigger,
        'take a savepoint: `{"target-directory", "cancel-job"}`',
        body=body({"target-directory": nullable(_PATH), "cancel-job": nullable(FLAG), **_COMMON}),
        response=TRIGGER_ID,
    ),
    Route(
        "POST",
        "/jobs/:jobid/stop",
        _stop,
        'stop with a savepoint: `{"targetDirectory", "drain"}`',
        body=body({"targetDirectory": nullable(_PATH), "drain": nullable(FLAG), **_COMMON}),
        response=TRIGGER_ID,
    ),
    Route(
        "GET",
        "/jobs/:jobid/savepoints/:triggerid",
        _status,
        "the status of a savepoint or a stop; `operation.location` is the path of the savepoint",
        response=operation({"location": TEXT}),
    ),
    Route(
        "POST",
        "/savepoint-disposal",
        _dispose,
        'delete a savepoint: `{"savepoint-path"}`',
        body=body({"savepoint-path": _PATH}, ["savepoint-path"]),
        response=TRIGGER_ID,
    ),
    Route(
        "GET",
        "/savepoint-disposal/:triggerid",
        _disposal_status,
        "the status of a deletion",
        response=operation({}),
    ),
)
