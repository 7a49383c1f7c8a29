"""`/taskmanagers`: the processes that run tasks, with their logs, metrics and thread dumps."""

from __future__ import annotations

from http import HTTPStatus

from penstock.rest.flink_json.metric_lists import aggregated, listed
from penstock.rest.flink_json.metric_values import AggregatedMetric, MetricInfo
from penstock.rest.flink_json.taskmanagers import (
    LogList,
    LogUrl,
    TaskManagerDetails,
    TaskManagerList,
    ThreadDumpInfo,
)
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.log_files import log_list, log_text
from penstock.rest.services.taskmanagers import TaskManager, TaskManagers

_LOG, _OUT = "taskmanager.log", "taskmanager.out"


def _list(services: Services, _request: Request) -> Response:
    found = TaskManagers.now(services.jobs)
    return Response(TaskManagerList([each.info() for each in found.all]))


def _find(services: Services, request: Request) -> TaskManager:
    wanted = request.parameters["taskmanagerid"]
    found = TaskManagers.now(services.jobs)
    taskmanager = found.find(wanted)
    if taskmanager is None:
        known = ", ".join(each.id for each in found.all)
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown TaskManager {wanted}",
            f"hint: the TaskManagers are {known}"
            if known
            else "hint: Spark has no executors at the moment",
        )
    return taskmanager


def _details(services: Services, request: Request) -> Response:
    return Response(_find(services, request).details())


def _metrics(services: Services, request: Request) -> Response:
    return Response(listed(_find(services, request).metrics(), request))


def _all_metrics(services: Services, request: Request) -> Response:
    chosen = request.query.get("taskmanagers")
    names = None if chosen is None else set(chosen.split(","))
    every = TaskManagers.now(services.jobs).all
    return Response(
        aggregated([each.metrics() for each in every if names is None or each.id in names], request)
    )


def _threads(services: Services, request: Request) -> Response:
    return Response(ThreadDumpInfo(_find(services, request).threads()))


def _logs(services: Services, request: Request) -> Response:
    return Response(log_list(_find(services, request).id, _LOG, _OUT))


def _log(services: Services, request: Request) -> Response:
    return log_text(_find(services, request).id)


def _out(services: Services, request: Request) -> Response:
    return log_text(_find(services, request).id, printed=True)


def _file(services: Services, request: Request) -> Response:
    name = request.parameters["file"]
    if name not in {_LOG, _OUT}:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown log '{name}' of a TaskManager",
            f"hint: the logs are {_LOG} and {_OUT}",
        )
    return log_text(_find(services, request).id, printed=name == _OUT)


def _log_url(services: Services, request: Request) -> Response:
    find_job(services, request)
    return Response(LogUrl(f"#/task-manager/{_find(services, request).id}/logs"))


_ONE = "/taskmanagers/:taskmanagerid"
_TEXT = "text/plain"

ROUTES = (
    Route(
        "GET",
        "/taskmanagers",
        _list,
        "the TaskManagers: Spark's executors",
        response=TaskManagerList,
    ),
    Route(
        "GET",
        "/taskmanagers/metrics",
        _all_metrics,
        "their aggregated metrics: `?get=...&agg=max`",
        response=list[AggregatedMetric],
    ),
    Route(
        "GET",
        _ONE,
        _details,
        "one TaskManager, with the slots that jobs have allocated on it",
        response=TaskManagerDetails,
    ),
    Route(
        "GET",
        f"{_ONE}/metrics",
        _metrics,
        "its metrics: names, and values with `?get=...`",
        response=list[MetricInfo],
    ),
    Route("GET", f"{_ONE}/logs", _logs, "its logs", response=LogList),
    Route("GET", f"{_ONE}/logs/:file", _file, "one of its logs", media_type=_TEXT),
    Route("GET", f"{_ONE}/log", _log, "the last log lines of its tasks", media_type=_TEXT),
    Route("GET", f"{_ONE}/stdout", _out, "the standard output of its tasks", media_type=_TEXT),
    Route(
        "GET",
        f"{_ONE}/thread-dump",
        _threads,
        "the thread dump of its tasks",
        response=ThreadDumpInfo,
    ),
    Route(
        "GET",
        "/jobs/:jobid/taskmanagers/:taskmanagerid/log-url",
        _log_url,
        "the address of its log",
        response=LogUrl,
    ),
)
