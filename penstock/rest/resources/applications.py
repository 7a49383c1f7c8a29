"""`/applications`: programs with their jobs. A program of Penstock is one job, so each job is its own application."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from msgspec import Struct, field

from penstock.common.job_status import JobStatus
from penstock.jobmanager.job_view import JobView
from penstock.rest.flink_json.jobs import JobOverview
from penstock.rest.flink_json.parts import Empty, Id, Span
from penstock.rest.messages import Request, Response
from penstock.rest.resources.job_manager import ROUTES as _JOB_MANAGER
from penstock.rest.routing.routes import Role, Route, Services

_STATES: Final = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")
# Job states that applications do not have
_AS_APPLICATION: Final = {
    "INITIALIZING": "CREATED",
    "CANCELLING": "CANCELING",
    "RESTARTING": "RUNNING",
    "RECONCILING": "RUNNING",
    "SUSPENDED": "RUNNING",
}


def _state(status: str) -> str:
    return _AS_APPLICATION.get(status, status)


class ApplicationOverview(Struct, frozen=True, kw_only=True):
    """A program in the list of programs."""

    id: Id
    name: str
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    status: str
    #: The number of its jobs by state.
    jobs: dict[str, int]

    @classmethod
    def of(cls, job: JobView, now: int) -> ApplicationOverview:
        """Return the program of a job."""
        span = Span.of(job.start_ms, job.end_ms, now)
        return cls(
            id=job.id,
            name=job.name,
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            status=_state(job.status.name),
            jobs={job.status.name: 1},
        )


class Applications(Struct, frozen=True):
    """All programs."""

    applications: list[ApplicationOverview]


class ApplicationDetails(Struct, frozen=True, kw_only=True):
    """A program with its job."""

    id: Id
    name: str
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    status: str
    timestamps: dict[str, int]
    jobs: list[JobOverview]

    @classmethod
    def of(cls, job: JobView, now: int) -> ApplicationDetails:
        """Return the program of a job."""
        span = Span.of(job.start_ms, job.end_ms, now)
        times = {_state(name): time for name, time in job.status_times.items()}
        return cls(
            id=job.id,
            name=job.name,
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            status=_state(job.status.name),
            timestamps={state: times.get(state, 0) for state in _STATES},
            jobs=[JobOverview.of(job, now)],
        )


class ApplicationException(Struct, frozen=True, kw_only=True):
    """The failure that a program ended with."""

    exception_name: str = field(name="exceptionName")
    stacktrace: str
    timestamp: int | None
    job_id: Id = field(name="jobId")


class ApplicationExceptionHistory(Struct, frozen=True):
    """The failures of a program."""

    entries: list[ApplicationException]


class ApplicationExceptions(Struct, frozen=True):
    """`/applications/<id>/exceptions`."""

    history: ApplicationExceptionHistory = field(name="exceptionHistory")


def _find(services: Services, request: Request) -> JobView:
    return services.jobs.view(request.parameters["applicationid"])


def _overview(services: Services, _request: Request) -> Response:
    now = services.now_ms()
    return Response(
        Applications([ApplicationOverview.of(job, now) for job in services.jobs.views()])
    )


def _details(services: Services, request: Request) -> Response:
    return Response(ApplicationDetails.of(_find(services, request), services.now_ms()))


def _exceptions(services: Services, request: Request) -> Response:
    job = _find(services, request)
    entries = []
    if job.status is JobStatus.FAILED and job.failure:
        entries.append(
            ApplicationException(
                exception_name=job.failure.strip().splitlines()[-1].split(":")[0],
                stacktrace=job.failure,
                timestamp=job.end_ms,
                job_id=job.id,
            )
        )
    return Response(ApplicationExceptions(ApplicationExceptionHistory(entries)))


def _config(services: Services, request: Request) -> Response:
    _find(services, request)
    (route,) = (each for each in _JOB_MANAGER if each.path == "/jobmanager/config")
    return route.handler(services, request)


def _cancel(services: Services, request: Request) -> Response:
    job = services.jobs.view(request.parameters.get("applicationid") or request.parameters["jobid"])
    if job.status is not JobStatus.CANCELED:
        services.jobs.running(job.id).cancel()
    return Response(Empty(), HTTPStatus.OK if request.method == "GET" else HTTPStatus.ACCEPTED)


_ONE = "/applications/:applicationid"

ROUTES = (
    Route(
        "GET",
        "/applications/overview",
        _overview,
        "all programs, each with the state of its job",
        response=Applications,
    ),
    Route("GET", _ONE, _details, "one program, with its job", response=ApplicationDetails),
    Route(
        "GET",
        f"{_ONE}/exceptions",
        _exceptions,
        "the failures of a program",
        response=ApplicationExceptions,
    ),
    Route(
        "GET", f"{_ONE}/jobmanager/config", _config, "the options of the JobManager that runs it"
    ),
    Route("POST", f"{_ONE}/cancel", _cancel, "cancel a program's job", response=Empty),
    Route(
        "GET",
        "/jobs/:jobid/yarn-cancel",
        _cancel,
        "cancel a job, as Flink's web page does",
        role=Role.WRITE,
        response=Empty,
    ),
)
