"""`/penstock/jobs/<id>/logs`: the log lines of a job, from the JobManager and all its tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from penstock.logs.lines import FORMATS, JSON
from penstock.logs.log_buffer import LogEntry, log_book
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services

_USUAL: Final = 1_000
_MOST: Final = 10_000
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def _logs(services: Services, request: Request) -> Response:
    job_id = find_job(services, request).id
    after, limit = _number(request, "after", 0), _number(request, "limit", _USUAL)
    if limit > _MOST:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"limit must be at most {_MOST}, not {limit}")
    wanted = _wanted(request)
    found = log_book().entries(lambda each: each.number > after and wanted(each), job_id=job_id)
    # The last lines for a first request, the next lines for a client that follows.
    shown = found[:limit] if after else found[-limit:] if limit else []
    form = request.query.get("format", JSON)
    if form not in FORMATS:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown format '{form}'",
            f"hint: use {', '.join(FORMATS)}",
        )
    last = shown[-1].number if shown else after
    if form != JSON:
        text = "".join(f"{each.line.in_format(form)}\n" for each in shown)
        headers = {"Penstock-Last-Line": str(last)}
        return Response(text, headers=headers, media_type="text/plain; charset=UTF-8")
    return Response(
        {
            "lines": [{"number": each.number, **each.line.to_json()} for each in shown],
            "last": last,
            "left-out": log_book().left_out(job_id),
        }
    )


def _number(request: Request, name: str, usual: int) -> int:
    given = request.query.get(name)
    if given is None:
        return usual
    if not given.isascii() or not given.isdigit() or len(given) > 15:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"'{name}' must be a non-negative integer")
    return int(given)


def _wanted(request: Request) -> Callable[[LogEntry], bool]:
    level = request.query.get("level", "DEBUG").upper()
    if level not in _LEVELS:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown level '{level}'",
            f"hint: use {', '.join(_LEVELS)}",
        )
    least = logging.getLevelNamesMapping()[level]
    vertex, taskmanager = request.query.get("vertex"), request.query.get("taskmanager")
    subtask = _number(request, "subtask", 0) if "subtask" in request.query else None

    def wanted(entry: LogEntry) -> bool:
        scope = entry.line.scope
        return (
            logging.getLevelNamesMapping().get(entry.line.level, least) >= least
            and (vertex is None or vertex == scope.vertex_id or vertex in (scope.vertex or ""))
            and (subtask is None or subtask == scope.subtask)
            and (taskmanager is None or taskmanager == entry.source)
        )

    return wanted


ROUTES = (
    Route(
        "GET",
        "/penstock/jobs/:jobid/logs",
        _logs,
        "the logged and printed lines of a job, the last ones or those `?after=<number>`: "
        "`limit`, `level`, `vertex`, `subtask`, `taskmanager`, `format=text|json`",
    ),
)
