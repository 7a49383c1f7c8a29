"""`/jobs/<id>/vertices/<id>/...`: the last metrics that the subtasks of a vertex reported.

Subtasks report once a second in pipelined mode, and after each epoch in epoch mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from penstock.jobmanager.job_view import Value
from penstock.rest.flink_json.metric_values import (
    AGGREGATIONS,
    AggregatedMetric,
    MetricInfo,
    aggregated,
    is_number,
    task_values,
    vertex_values,
)
from penstock.rest.flink_json.vertices import BackPressure
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_subtask_of, find_vertex
from penstock.rest.routing.routes import Route, Services

_MOST_SUBTASKS: Final = 1 << 15  # in a range: Flink's upper bound of the parallelism


def _back_pressure(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    return Response(BackPressure.of(vertex, services.now_ms()))


def _watermarks(services: Services, request: Request) -> Response:
    found = vertex_values(find_vertex(services, request))
    return Response(
        [
            MetricInfo(f"{subtask}.{name}", str(value))
            for subtask, name, value in found
            if name == "currentInputWatermark"
        ]
    )


def _metrics(services: Services, request: Request) -> Response:
    found = vertex_values(find_vertex(services, request))
    return listed(request, {f"{subtask}.{name}": value for subtask, name, value in found})


def _of_subtask(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    subtask = find_subtask_of(vertex, request).subtask
    return listed(request, task_values(vertex, subtask))


def _of_subtasks(services: Services, request: Request) -> Response:
    vertex = find_vertex(services, request)
    chosen = _subtasks(request.query.get("subtasks"))
    values = [
        (name, value)
        for subtask, name, value in vertex_values(vertex)
        if chosen is None or subtask in chosen
    ]
    return added_up(request, values)


def _subtasks(text: str | None) -> set[int] | None:
    """Parse subtask numbers such as `0,2-4`; None: all."""
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last) if dash else (first, first)
        if not all(end.isdecimal() and len(end) < 6 for end in ends):
            raise HttpError(
                HTTPStatus.BAD_REQUEST,
                f"invalid subtasks '{text}'",
                "hint: write comma-separated numbers and ranges, such as 0,2-4",
            )
        found.update(range(int(ends[0]), min(int(ends[1]), _MOST_SUBTASKS) + 1))
    return found


def _of_coordinators(services: Services, request: Request) -> Response:
    find_vertex(services, request)
    return Response([])


def listed(request: Request, values: Mapping[str, Value]) -> Response:
    """Respond with the names of all metrics, or with the values requested by `get`."""
    wanted = _wanted(request)
    if wanted is None:
        return Response([MetricInfo(name) for name in values])
    return Response([MetricInfo(name, str(values[name])) for name in wanted if name in values])


def added_up(request: Request, values: Sequence[tuple[str, Value]]) -> Response:
    """Respond with the names of all numeric metrics, or with the aggregated values requested by `get`."""
    wanted, aggregations = _wanted(request), _aggregations(request)
    if wanted is None:
        numbers = dict.fromkeys(name for name, value in values if is_number(value))
        return Response([MetricInfo(name) for name in numbers])
    return Response(aggregated(values, set(wanted), aggregations))


def _wanted(request: Request) -> list[str] | None:
    given = request.query.get("get")
    return None if given is None else list(dict.fromkeys(filter(None, given.split(","))))


def _aggregations(request: Request) -> list[str]:
    given = request.query.get("agg")
    chosen = list(AGGREGATIONS) if given is None else given.lower().split(",")
    unknown = [each for each in chosen if each not in AGGREGATIONS]
    if unknown:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"unknown aggregation '{unknown[0]}'",
            f"hint: use {', '.join(AGGREGATIONS)}",
        )
    return chosen


GET: Final[Mapping[str, object]] = {"get": str}
GET_AND_AGG: Final[Mapping[str, object]] = {"get": str, "agg": str}

_VERTEX = "/jobs/:jobid/vertices/:vertexid"

ROUTES = (
    Route(
        "GET",
        f"{_VERTEX}/backpressure",
        _back_pressure,
        "busy, idle and back-pressured shares of the subtasks of a vertex",
        response=BackPressure,
    ),
    Route(
        "GET",
        f"{_VERTEX}/watermarks",
        _watermarks,
        "the watermark of each subtask",
        response=list[MetricInfo],
    ),
    Route(
        "GET",
        f"{_VERTEX}/metrics",
        _metrics,
        "the metric names of all subtasks; values with `?get=0.busyTimeMsPerSecond,...`",
        query=GET,
        response=list[MetricInfo],
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/metrics",
        _of_subtasks,
        "metrics aggregated over all subtasks: `?get=numRecordsIn&agg=min,max,sum,avg,skew&subtasks=0,2-4`",
        query={**GET_AND_AGG, "subtasks": str},
        response=list[AggregatedMetric],
    ),
    Route(
        "GET",
        f"{_VERTEX}/subtasks/:subtaskindex/metrics",
        _of_subtask,
        "the metric names of one subtask; values with `?get=busyTimeMsPerSecond,...`",
        query=GET,
        response=list[MetricInfo],
    ),
    Route(
        "GET",
        f"{_VERTEX}/jm-operator-metrics",
        _of_coordinators,
        "metrics of operator coordinators: always empty",
        query=GET,
        response=list[MetricInfo],
    ),
)
