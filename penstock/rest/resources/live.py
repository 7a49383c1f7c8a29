"""`/penstock/live`: server-sent events with the content of resources, each sent when it changes.

A client gives the paths that it shows, `?paths=["/jobs/overview", ...]`, and gets their GET responses, about once a second. Streams
must not slow the jobs down: if they would use more than a small share of a processor, updates are sent less often.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta

from penstock.jobmanager.job_view import JobView
from penstock.rest.messages import Errors, HttpError, Request, Response
from penstock.rest.routing.router import ApiRoute, find_route, in_order
from penstock.rest.routing.routes import Role, Route, Services, call
from penstock.rest.services.published_jobs import Controller, PublishedJobs

MOST_PATHS: Final = 80  # a page shows a few; the page of a large job, a few for each vertex
MOST_STREAMS: Final = 64
_INTERVAL_S: Final = 1.0
_SIGN_OF_LIFE_S: Final = 5.0
_SHARE: Final = 0.05  # of a processor, for all streams together


@dataclass(frozen=True, slots=True)
class WatchedResource:
    """One watched resource: its path as the client wrote it, and its route and request, or the error."""

    path: str
    route: Route | None = None
    request: Request | None = None
    refusal: HttpError | None = None


class PollingBudget:
    """The update interval of the streams of a process: together they use at most a given share of a processor."""

    def __init__(self, share: float = _SHARE, interval_s: float = _INTERVAL_S) -> None:
        self._share = share
        self._interval_s = interval_s
        self._costs: dict[int, float] = {}  # by stream: the processor time of its last update
        self._lock = threading.Lock()

    def begin(self, stream: int) -> bool:
        """Add a stream; return False if there are too many."""
        with self._lock:
            if len(self._costs) >= MOST_STREAMS:
                return False
            self._costs[stream] = 0.0
            return True

    def note(self, stream: int, cost_s: float) -> None:
        """Record the processor time of a stream's update."""
        with self._lock:
            if stream in self._costs:
                self._costs[stream] = cost_s

    def end(self, stream: int) -> None:
        """Remove a stream."""
        with self._lock:
            self._costs.pop(stream, None)

    def interval_s(self) -> float:
        """Return the time between two updates of a stream."""
        with self._lock:
            return max(self._interval_s, sum(self._costs.values()) / self._share)


_pace = PollingBudget()
_numbers = itertools.count()


class JobsAtOneMoment(PublishedJobs):
    """The jobs during one update: several resources get the same view of a job."""

    def __init__(self, jobs: PublishedJobs) -> None:
        super().__init__()
        self._jobs = jobs
        self._known: dict[str, JobView] = {}
        self._all: list[JobView] | None = None

    def views(self) -> list[JobView]:
        """Return the views of all jobs."""
        if self._all is None:
            self._all = self._jobs.views()
        return self._all

    def view(self, job_id: str) -> JobView:
        """Return the view of one job."""
        if job_id not in self._known:
            self._known[job_id] = self._jobs.view(job_id)
        return self._known[job_id]

    def running(self, job_id: str) -> Controller:
        """Return the controller of a job."""
        return self._jobs.running(job_id)


def _live(services: Services, request: Request) -> Response:
    watched = [_find(path) for path in _paths(request.query.get("paths", ""))]
    stream = next(_numbers)
    if not _pace.begin(stream):
        raise HttpError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"the limit of {MOST_STREAMS} live streams is reached",
            headers={"Retry-After": "10"},
        )
    return Response(
        stream=_events(services, watched, stream),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _paths(text: str) -> list[str]:
    try:
        paths = msgspec.json.decode(text, type=list[str])
    except ValueError:
        raise _bad_paths() from None
    if not paths:
        raise _bad_paths()
    if len(paths) > MOST_PATHS:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"at most {MOST_PATHS} paths can be watched")
    return list(dict.fromkeys(paths))


def _bad_paths() -> HttpError:
    return HttpError(
        HTTPStatus.BAD_REQUEST,
        "'paths' must be a JSON list of paths",
        'hint: write ?paths=["/jobs/overview"], URL-encoded',
    )


def _find(path: str) -> WatchedResource:
    """Return the watched resource of a path; only JSON resources that need no more than the read role can be watched."""
    try:
        parts = urlsplit(path)
        route, parameters = find_route(_routes(), "GET", parts.path)
        if route.needs != Role.READ or route.media_type != "application/json":
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{parts.path} cannot be watched")
    except ValueError:
        return WatchedResource(
            path, refusal=HttpError(HTTPStatus.BAD_REQUEST, f"invalid path '{path}'")
        )
    except HttpError as error:
        return WatchedResource(path, refusal=error)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return WatchedResource(path, route, Request("GET", parts.path, query, parameters=parameters))


@functools.cache
def _routes() -> list[ApiRoute]:
    from penstock.rest import resources  # it imports this module

    return [ApiRoute(route) for route in in_order(resources.ROUTES)]


async def _events(
    services: Services, watched: list[WatchedResource], stream: int
) -> AsyncIterator[bytes]:
    sent: dict[str, bytes] = {}
    spoken = time.monotonic()
    try:
        while services.elsewhere() is None:  # otherwise the client must connect to the leader
            news, cost_s = await asyncio.to_thread(_look, services, watched, sent)
            _pace.note(stream, cost_s)
            if news or time.monotonic() - spoken >= _SIGN_OF_LIFE_S:
                spoken = time.monotonic()
                yield news or b": alive\n\n"
            await asyncio.sleep(_pace.interval_s())
    finally:
        _pace.end(stream)


def _look(
    services: Services, watched: list[WatchedResource], sent: dict[str, bytes]
) -> tuple[bytes, float]:
    """Return the events of resources that changed since the last update, and the processor time of the update."""
    started = time.thread_time()
    now = replace(services, jobs=JobsAtOneMoment(services.jobs))
    news = []
    for each in watched:
        content = _answer(now, each)
        if sent.get(each.path) != content:
            sent[each.path] = content
            news.append(b"data: " + content + b"\n\n")
    return b"".join(news), time.thread_time() - started


def _answer(services: Services, watched: WatchedResource) -> bytes:
    try:
        if watched.refusal is not None:
            raise watched.refusal
        assert watched.route is not None
        assert watched.request is not None
        response = call(watched.route, services, watched.request)
        status, content = response.status, response.content
    except HttpError as error:
        status, content = error.status, Errors(list(error.errors))
    except Exception as error:  # noqa: BLE001 - the failure of one resource must not end the others
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        content = Errors([f"{type(error).__name__}: {error}"])
    event = {"path": watched.path, "status": int(status), "content": content}
    return msgspec.json.encode(event, enc_hook=str)


ROUTES = (
    Route(
        "GET",
        "/penstock/live",
        _live,
        'the content of resources, each when it has changed, as server-sent events: `?paths=["/jobs/overview"]`',
        query={"paths": Annotated[str, Meta(description="a JSON list of paths")]},
        media_type="text/event-stream",
    ),
)
