"""`/penstock/jobs/<id>/state`: the state tables of a job's last checkpoint, page by page.

Reading them unpickles the job's objects in this process, as a restore does, so it requires the write role.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta

from penstock.errors import ArgumentError, CheckpointError
from penstock.rest.flink_json.parts import Index
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Role, Route, Services
from penstock.state import Snapshot, browsing

_MOST_ROWS: Final = 1000
_ROWS: Final = 50

T = TypeVar("T")


def _overview(services: Services, request: Request) -> Response:
    return Response(_look(services, request, browsing.describe))


def _table(services: Services, request: Request) -> Response:
    offset = _number(request, "offset", 0, 0, 2**53)
    limit = _number(request, "limit", _ROWS, 1, _MOST_ROWS)
    explode = _flag(request, "explode")
    key = request.query.get("key")
    operator, state = request.parameters["operatorid"], request.query.get("table")

    def read(snapshot: Snapshot) -> dict[str, Any]:
        found = _chosen(snapshot, operator, state, explode=explode)
        page = browsing.page(found, offset=offset, limit=limit, key=key)
        return {
            "checkpoint": {"id": snapshot.checkpoint_id, "created": snapshot.manifest.created_ms},
            "name": found.name,
            "columns": page.columns,
            "rows": page.rows,
            "offset": offset,
            "limit": limit,
            "more": page.more,
            "incomplete": page.incomplete,
        }

    return Response(_look(services, request, read))


def _chosen(snapshot: Snapshot, operator: str, state: str | None, *, explode: bool) -> Any:
    if state == "timers":
        return snapshot.timers(operator)
    if state == "offsets":
        return snapshot.offsets(operator)
    return browsing.choose(snapshot, operator, state, explode=explode)


def _look(services: Services, request: Request, look: Callable[[Snapshot], T]) -> T:
    job = find_job(services, request)
    directory = job.checkpoint_directory
    if directory is None:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"job '{job.name}' has no checkpoint directory",
            "hint: set execution.checkpointing.dir and execution.checkpointing.interval",
        )
    if not job.checkpoint_id:
        raise HttpError(HTTPStatus.NOT_FOUND, f"job '{job.name}' has no completed checkpoint yet")
    try:
        return browsing.latest(directory, look)
    except ArgumentError as error:  # an unknown operator or state
        raise HttpError(HTTPStatus.NOT_FOUND, *str(error).split("\n")) from error
    except CheckpointError as error:
        raise HttpError(HTTPStatus.CONFLICT, *str(error).split("\n")) from error


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    given = request.query.get(name, str(default))
    if not given.isascii() or not given.isdigit() or not least <= int(given[:20]) <= most:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"'{name}' must be an integer from {least} to {most}, not '{given}'",
        )
    return int(given)


def _flag(request: Request, name: str) -> bool:
    given = request.query.get(name, "false")
    if given not in {"true", "false"}:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"'{name}' must be true or false")
    return given == "true"


ROUTES = (
    Route(
        "GET",
        "/penstock/jobs/:jobid/state",
        _overview,
        "the states of all operators in the last checkpoint; requires the token, because it unpickles the job's objects",
        role=Role.WRITE,
    ),
    Route(
        "GET",
        "/penstock/jobs/:jobid/state/:operatorid",
        _table,
        "rows of a state (`?table=NAME`, or `timers`, `offsets`), by `offset` and `limit`; `key` is a string or a "
        "Python literal, `explode=true` returns one row per element",
        role=Role.WRITE,
        query={
            "table": str,
            "offset": Index,
            "limit": Annotated[int, Meta(ge=1, le=_MOST_ROWS)],
            "key": str,
            "explode": bool,
        },
    ),
)
