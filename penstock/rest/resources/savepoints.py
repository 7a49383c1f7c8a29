"""Savepoints: taking them, stopping with one, deleting them."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from penstock.rest.flink_json.parts import Id
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.operations import Outcome, Standing, TriggerId, run_in_background

_SAVEPOINT = "savepoint"
_DISPOSAL = "disposal"
_TRIGGER_ID = re.compile(r"[0-9a-fA-F]{32}")


_Path = Annotated[str, Meta(min_length=1, pattern="^[^\\u0000]*$")]
_Format = Literal["CANONICAL", "NATIVE"]


class SavepointTriggerRequestBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Take a savepoint. `triggerId` is chosen by the client, so that it may repeat the request."""

    target_directory: _Path | None = field(name="target-directory", default=None)
    cancel_job: bool | None = field(name="cancel-job", default=None)
    format_type: _Format | None = field(name="formatType", default=None)
    trigger_id: Id | None = field(name="triggerId", default=None)


class StopWithSavepointRequestBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Stop with a savepoint."""

    target_directory: _Path | None = field(name="targetDirectory", default=None)
    drain: bool | None = None
    format_type: _Format | None = field(name="formatType", default=None)
    trigger_id: Id | None = field(name="triggerId", default=None)


class SavepointDisposalRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Delete a savepoint."""

    path: _Path = field(name="savepoint-path")


class SavepointOutcome(Outcome, frozen=True, kw_only=True):
    """The outcome of a savepoint or a stop: the path of the savepoint."""

    location: str | UnsetType = UNSET


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
    request.refuse_unknown_fields(SavepointTriggerRequestBody)
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
    request.refuse_unknown_fields(StopWithSavepointRequestBody)
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
        lambda path: SavepointOutcome(location=path),
    )


def _dispose(services: Services, request: Request) -> Response:
    request.refuse_unknown_fields(SavepointDisposalRequest)
    path = request.text("savepoint-path")
    if path is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "missing field 'savepoint-path'")
    return services.operations.start(_DISPOSAL, None, lambda: run_in_background(lambda: _rm(path)))


def _rm(path: str) -> Any:
    from penstock.savepoint.reader import dispose_savepoint

    return dispose_savepoint(path)


def _disposal_status(services: Services, request: Request) -> Response:
    return services.operations.status(
        _DISPOSAL, None, request.parameters["triggerid"], lambda _: Outcome()
    )


ROUTES = (
    Route(
        "POST",
        "/jobs/:jobid/savepoints",
        _trigger,
        'take a savepoint: `{"target-directory", "cancel-job"}`',
        body=SavepointTriggerRequestBody,
        response=TriggerId,
    ),
    Route(
        "POST",
        "/jobs/:jobid/stop",
        _stop,
        'stop with a savepoint: `{"targetDirectory", "drain"}`',
        body=StopWithSavepointRequestBody,
        response=TriggerId,
    ),
    Route(
        "GET",
        "/jobs/:jobid/savepoints/:triggerid",
        _status,
        "the status of a savepoint or a stop; `operation.location` is the path of the savepoint",
        response=Standing[SavepointOutcome],
    ),
    Route(
        "POST",
        "/savepoint-disposal",
        _dispose,
        'delete a savepoint: `{"savepoint-path"}`',
        body=SavepointDisposalRequest,
        response=TriggerId,
    ),
    Route(
        "GET",
        "/savepoint-disposal/:triggerid",
        _disposal_status,
        "the status of a deletion",
        response=Standing[Outcome],
    ),
)
