"""`/jobs/<id>/vertices/<id>/...`: what the subtasks of a vertex told last about themselves. Only subtasks that stay tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from penstock.rest import shapes
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routes import Route, Services

_AGGREGATIONS: Final[dict[str, Callable[[list[float]], float]]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values),
}


def find_vertex(services: Services, request: Request) -> dict[str, Any]:
    """Return the description of the vertex that a request names."""
    job = services.jobs.describe(request.parameters["jobid"])
    wanted = request.parameters["vertexid"]
    for vertex in job["vertices"]:
        if vertex["id"] == wanted:
            found: dict[str, Any] = vertex
            return found
    known = ", ".join(vertex["id"] for vertex in job["vertices"])
    raise HttpError(
        HTTPStatus.NOT_FOUND,
        f"job '{job['name']}' has no vertex {wanted}",
        f"hint: its vertices are {known}",
    )


def _back_pressure(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    return Response(shapes.back_pressure(vertex, services.now_ms()))


def _watermarks(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    return Response(list(_chosen(vertex, ["currentInputWatermark"])))


def _metrics(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    wanted = _wanted(request)
    if wanted is None:
        return Response([{"id": f"{subtask}.{name}"} for subtask, name, _ in _values(vertex)])
    return Response(
        [
            {"id": f"{subtask}.{name}", "value": str(value)}
            for subtask, name, value in _values(vertex)
            if f"{subtask}.{name}" in wanted
        ]
    )


def _aggregated(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    values: dict[str, list[float]] = {}
    for _, name, value in _values(vertex):
        if isinstance(value, int | float):
            values.setdefault(name, []).append(value)
    wanted = _wanted(request)
    if wanted is None:
        return Response([{"id": name} for name in values])
    return Response(
        [
            {"id": name, **{each: _AGGREGATIONS[each](found) for each in _aggregations(request)}}
            for name, found in values.items()
            if name in wanted
        ]
    )


def _wanted(request: Request) -> set[str] | None:
    given = request.query.get("get")
    return None if given is None else {name for name in given.split(",") if name}


def _aggregations(request: Request) -> list[str]:
    given = request.query.get("agg")
    chosen = list(_AGGREGATIONS) if given is None else given.split(",")
    unknown = [each for each in chosen if each not in _AGGREGATIONS]
    if unknown:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"aggregation '{unknown[0]}' is unknown",
            f"hint: there are {', '.join(_AGGREGATIONS)}",
        )
    return chosen


def _values(vertex: dict[str, Any]) -> Iterator[tuple[int, str, Any]]:
    for subtask, report in enumerate(vertex.get("reports", ())):
        for name, value in report.items():
            if isinstance(value, dict):
                yield from ((subtask, f"{name}.{part}", each) for part, each in value.items())
            else:
                yield subtask, name, value


def _chosen(vertex: dict[str, Any], wanted: Iterable[str]) -> Iterator[dict[str, str]]:
    for subtask, name, value in _values(vertex):
        if name in wanted:
            yield {"id": f"{subtask}.{name}", "value": str(value)}


_VERTEX = "/jobs/:jobid/vertices/:vertexid"

ROUTES = (
    Route(
        "GET",
        f"{_VERTEX}/backpressure",
        _back_pressure,
        "busy, idle and back-pressured shares of the subtasks of a vertex, of a pipelined job",
    ),
    Route("GET", f"{_VERTEX}/watermarks", _watermarks, "the watermark of each subtask, as above"),
    Route(
        "GET",
        f"{_VERTEX}/metrics",
        _metrics,
        "names of the metrics of all subtasks; values with `?get=0.busyTimeMsPerSecond,...`",
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        _aggregated,
        "the same over all subtasks: `?get=numRecordsIn&agg=min,max,sum,avg`",
    ),
)
