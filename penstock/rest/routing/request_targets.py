"""Finds the vertex, subtask or attempt that a request names."""

from __future__ import annotations

from http import HTTPStatus

from penstock.jobmanager.execution.execution_graph import Execution, ExecutionVertex
from penstock.jobmanager.job_view import JobView, VertexView
from penstock.rest.messages import HttpError, Request
from penstock.rest.routing.routes import Services


def find_job(services: Services, request: Request) -> JobView:
    """Return the job that a request names."""
    return services.jobs.view(request.parameters["jobid"])


def find_vertex(services: Services, request: Request) -> VertexView:
    """Return the vertex that a request names."""
    return find_vertex_of(find_job(services, request), request)


def find_vertex_of(job: JobView, request: Request) -> VertexView:
    """Return the vertex of a job that a request names."""
    wanted, vertices = request.parameters["vertexid"], job.vertices()
    for vertex in vertices:
        if vertex.id == wanted:
            return vertex
    raise HttpError(
        HTTPStatus.NOT_FOUND,
        f"unknown vertex {wanted} of job '{job.name}'",
        f"hint: its vertices are {', '.join(vertex.id for vertex in vertices)}",
    )


def find_subtask_of(vertex: VertexView, request: Request) -> ExecutionVertex:
    """Return the subtask of a vertex that a request names."""
    wanted = request.parameters["subtaskindex"]
    for subtask in vertex.subtasks:
        if str(subtask.subtask) == wanted:
            return subtask
    raise HttpError(
        HTTPStatus.NOT_FOUND,
        f"unknown subtask {wanted} of '{vertex.name}'",
        f"hint: its subtasks are 0 to {len(vertex.subtasks) - 1}",
    )


def find_attempt_of(subtask: ExecutionVertex, request: Request) -> Execution:
    """Return the attempt of a subtask that a request names."""
    wanted, attempts = request.parameters["attempt"], [*subtask.history, subtask.current]
    for attempt in attempts:
        if str(attempt.attempt) == wanted:
            return attempt
    known = ", ".join(str(each.attempt) for each in attempts)
    raise HttpError(
        HTTPStatus.NOT_FOUND,
        f"unknown attempt {wanted} of subtask {subtask.subtask}",
        f"hint: its last attempts are {known}",
    )
