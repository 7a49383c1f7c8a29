"""Finds the vertex, subtask or attempt that a request names."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from penstock.rest.messages import HttpError, Request
from penstock.rest.routing.routes import Services

Json = dict[str, Any]


def find_vertex(services: Services, request: Request) -> Json:
    """Return the description of the vertex that a request names."""
    return find_vertex_of(services.jobs.describe(request.parameters["jobid"]), request)


def find_vertex_of(job: Json, request: Request) -> Json:
    """Return the description of the vertex of a job that a request names."""
    wanted = request.parameters["vertexid"]
    for vertex in job["vertices"]:
        if vertex["id"] == wanted:
            found: Json = vertex
            return found
    known = ", ".join(vertex["id"] for vertex in job["vertices"])
    raise HttpError(
        HTTPStatus.NOT_FOUND,
        f"unknown vertex {wanted} of job '{job['name']}'",
        f"hint: its vertices are {known}",
    )


def find_subtask(services: Services, request: Request) -> tuple[Json, Json]:
    """Return the descriptions of the vertex and of its subtask that a request names."""
    vertex = find_vertex(services, request)
    return vertex, find_subtask_of(vertex, request)


def find_subtask_of(vertex: Json, request: Request) -> Json:
    """Return the description of the subtask of a vertex that a request names."""
    wanted = request.parameters["subtaskindex"]
    found: Json | None = _numbered(vertex["subtasks"], "subtask", wanted)
    if found is None:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown subtask {wanted} of '{vertex['name']}'",
            f"hint: its subtasks are 0 to {len(vertex['subtasks']) - 1}",
        )
    return found


def find_attempt_of(subtask: Json, request: Request) -> Json:
    """Return the description of the attempt of a subtask that a request names."""
    wanted = request.parameters["attempt"]
    attempts = [*subtask.get("history", ()), subtask["current"]]
    found: Json | None = _numbered(attempts, "attempt", wanted)
    if found is None:
        known = ", ".join(str(each["attempt"]) for each in attempts)
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown attempt {wanted} of subtask {subtask['subtask']}",
            f"hint: its last attempts are {known}",
        )
    return found


def _numbered(choices: Sequence[Json], name: str, wanted: str) -> Json | None:
    return next((each for each in choices if str(each[name]) == wanted), None)
