"""`/jobmanager`: the process that runs jobs: its options, environment, logs, metrics and thread dump."""

from __future__ import annotations

import platform
import sys
from http import HTTPStatus

from msgspec import Struct

from penstock.logs.log_buffer import JOBMANAGER
from penstock.rest.flink_json.metric_lists import listed
from penstock.rest.flink_json.metric_values import MetricInfo
from penstock.rest.flink_json.taskmanagers import LogList, LogUrl, ThreadDumpInfo
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.request_targets import find_job
from penstock.rest.routing.routes import Route, Services
from penstock.rest.services.configuration import job_manager_configuration
from penstock.rest.services.log_files import log_list, log_text
from penstock.rest.services.taskmanagers import TaskManagers, describe_threads, process_metrics
from penstock.runtime.inspection.stacks import dump_threads

_LOG, _OUT = "jobmanager.log", "jobmanager.out"


class ConfigurationEntry(Struct, frozen=True):
    """An option."""

    key: str
    value: str


class PythonVersion(Struct, frozen=True):
    """Python, which takes the place of Flink's JVM: the JobManager runs in it."""

    version: str
    arch: str
    options: list[str]


class ProcessEnvironment(Struct, frozen=True):
    """The environment of the JobManager: Python, and its import path."""

    jvm: PythonVersion
    classpath: list[str]


def _config(_services: Services, _request: Request) -> Response:
    options = job_manager_configuration()
    return Response([ConfigurationEntry(key, value) for key, value in sorted(options.items())])


def _environment(_services: Services, _request: Request) -> Response:
    return Response(
        ProcessEnvironment(
            PythonVersion(
                f"{platform.python_implementation()} {platform.python_version()}",
                platform.machine(),
                [argument for argument in sys.orig_argv[1:] if argument.startswith("-")],
            ),
            [path for path in sys.path if path],
        )
    )


def _metrics(services: Services, request: Request) -> Response:
    known = TaskManagers.now(services.jobs).all
    slots = sum(each.executor.slots for each in known)
    busy = sum(each.executor.busy_slots for each in known)
    return Response(
        listed(
            {
                **process_metrics(),
                "numRegisteredTaskManagers": len(known),
                "numRunningJobs": len(services.jobs.controllers()),
                "taskSlotsTotal": slots,
                "taskSlotsAvailable": max(slots - busy, 0),
            },
            request,
        )
    )


def _threads(_services: Services, _request: Request) -> Response:
    return Response(ThreadDumpInfo(describe_threads(dump_threads())))


def _logs(_services: Services, _request: Request) -> Response:
    return Response(log_list(JOBMANAGER, _LOG, _OUT))


def _log(_services: Services, _request: Request) -> Response:
    return log_text(JOBMANAGER)


def _out(_services: Services, _request: Request) -> Response:
    return log_text(JOBMANAGER, printed=True)


def _file(_services: Services, request: Request) -> Response:
    name = request.parameters["file"]
    if name not in {_LOG, _OUT}:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            f"unknown log '{name}' of the JobManager",
            f"hint: the logs are {_LOG} and {_OUT}",
        )
    return log_text(JOBMANAGER, printed=name == _OUT)


def _of_job(services: Services, request: Request) -> Response:
    find_job(services, request)
    return _config(services, request)


def _environment_of_job(services: Services, request: Request) -> Response:
    find_job(services, request)
    return _environment(services, request)


def _log_url(services: Services, request: Request) -> Response:
    find_job(services, request)
    return Response(LogUrl("#/job-manager/logs"))


_JOB = "/jobs/:jobid/jobmanager"
_TEXT = "text/plain"

ROUTES = (
    Route(
        "GET",
        "/jobmanager/config",
        _config,
        "the options of the JobManager, without secrets",
        response=list[ConfigurationEntry],
    ),
    Route(
        "GET",
        "/jobmanager/environment",
        _environment,
        "its Python version and import path",
        response=ProcessEnvironment,
    ),
    Route(
        "GET",
        "/jobmanager/metrics",
        _metrics,
        "its metrics: names, and values with `?get=...`",
        response=list[MetricInfo],
    ),
    Route("GET", "/jobmanager/thread-dump", _threads, "its thread dump", response=ThreadDumpInfo),
    Route("GET", "/jobmanager/logs", _logs, "its logs", response=LogList),
    Route("GET", "/jobmanager/logs/:file", _file, "one of its logs", media_type=_TEXT),
    Route("GET", "/jobmanager/log", _log, "the last lines of its log", media_type=_TEXT),
    Route(
        "GET", "/jobmanager/stdout", _out, "its standard output, if it is kept", media_type=_TEXT
    ),
    Route(
        "GET",
        f"{_JOB}/config",
        _of_job,
        "the options of the JobManager that runs the job",
        response=list[ConfigurationEntry],
    ),
    Route(
        "GET",
        f"{_JOB}/environment",
        _environment_of_job,
        "the Python environment of the JobManager that runs the job",
        response=ProcessEnvironment,
    ),
    Route(
        "GET", f"{_JOB}/log-url", _log_url, "the address of the JobManager's log", response=LogUrl
    ),
)
