"""Savepoints: taking them, stopping with one, deleting them."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from penstock.rest.flink_json.parts import Id, Name
from penstock.rest.messages import Request, Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.operations import Outcome, Standing, TriggerId, run_in_background

_SAVEPOINT = "savepoint"
_DISPOSAL = "disposal"
#: Flink's formats all mean the same here: one that every version reads.
_Format = Literal["CANONICAL", "NATIVE"]


class SavepointTriggerRequestBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Take a savepoint. `triggerId` is chosen by the client, so that it may repeat the request."""

    target_directory: Name | None = field(name="target-directory", default=None)
    cancel_job: bool | None = field(name="cancel-job", default=None)
    format_type: _Format | None = field(name="formatType", default=None)
    trigger_id: Id | None = field(name="triggerId", default=None)


class StopWithSavepointRequestBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Stop with a savepoint."""

    target_directory: Name | None = field(name="targetDirectory", default=None)
    drain: bool | None = None
    format_type: _Format | None = field(name="formatType", default=None)
    trigger_id: Id | None = field(name="triggerId", default=None)


class SavepointDisposalRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Delete a savepoint."""

    path: Name = field(name="savepoint-path")


class SavepointOutcome(Outcome, frozen=True, kw_only=True):
    """The outcome of a savepoint or a stop: the path of the savepoint."""

    location: str | UnsetType = UNSET


def _trigger(services: Services, request: Request) -> Response:
    wanted = request.read(SavepointTriggerRequestBody)
    job_id = request.parameters["jobid"]
    controller = services.jobs.running(job_id)
    directory = wanted.target_directory
    return services.operations.start(
        _SAVEPOINT,
        job_id,
        lambda: (
            # No record is processed after the savepoint, so a job that resumes from it repeats nothing.
            controller.stop_with_savepoint(False, directory)
            if wanted.cancel_job
            else controller.trigger_savepoint(directory)
        ),
        wanted.trigger_id,
    )


def _stop(services: Services, request: Request) -> Response:
    wanted = request.read(StopWithSavepointRequestBody)
    job_id = request.parameters["jobid"]
    controller = services.jobs.running(job_id)
    return services.operations.start(
        _SAVEPOINT,
        job_id,
        lambda: controller.stop_with_savepoint(bool(wanted.drain), wanted.target_directory),
        wanted.trigger_id,
    )


def _status(services: Services, request: Request) -> Response:
    return services.operations.status(
        _SAVEPOINT,
        request.parameters["jobid"],
        request.parameters["triggerid"],
        lambda path: SavepointOutcome(location=path),
    )


def _dispose(services: Services, request: Request) -> Response:
    path = request.read(SavepointDisposalRequest).path
    return services.operations.start(_DISPOSAL, None, lambda: run_in_background(lambda: _rm(path)))


def _rm(path: str) -> None:
    from penstock.savepoint.reader import dispose_savepoint

    dispose_savepoint(path)


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
