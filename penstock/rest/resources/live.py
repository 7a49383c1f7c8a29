"""`/penstock/live`: server-sent events with what some resources hold, each when it has changed.

A client names the paths that it shows, `?paths=["/jobs/overview", ...]`, and gets them as GET would answer them, about once a
second. Looking must not slow the jobs down: who asks for more than a small share of a processor gets news less often.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.published_jobs import Controller, PublishedJobs
from penstock.rest.routes import Role, Route, RouteTable, Services, call

MOST_PATHS: Final = 80  # a page shows a few; one of a large job, a few for each vertex
MOST_STREAMS: Final = 64
_INTERVAL_S: Final = 1.0
_SIGN_OF_LIFE_S: Final = 5.0
_SHARE: Final = 0.05  # of a processor, for all streams together


@dataclass(frozen=True, slots=True)
class Watched:
    """One resource that a client watches: its path as the client calls it, and how it is asked for, or why it cannot be."""

    path: str
    route: Route | None = None
    request: Request | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    refusal: HttpError | None = None


class Pace:
    """How often the streams of a process may look: together they take a share of a processor, and no more."""

    def __init__(self, share: float = _SHARE, interval_s: float = _INTERVAL_S) -> None:
        self._share = share
        self._interval_s = interval_s
        self._costs: dict[int, float] = {}  # by stream: the processor time of its last look
        self._lock = threading.Lock()

    def begin(self, stream: int) -> bool:
        """Let a stream in; not if there are too many."""
        with self._lock:
            if len(self._costs) >= MOST_STREAMS:
                return False
            self._costs[stream] = 0.0
            return True

    def note(self, stream: int, cost_s: float) -> None:
        """Note what a look of a stream has taken."""
        with self._lock:
            if stream in self._costs:
                self._costs[stream] = cost_s

    def end(self, stream: int) -> None:
        """Forget a stream."""
        with self._lock:
            self._costs.pop(stream, None)

    def interval_s(self) -> float:
        """Return how long a stream waits between two looks."""
        with self._lock:
            return max(self._interval_s, sum(self._costs.values()) / self._share)


_pace = Pace()
_numbers = itertools.count()


class OneLook(PublishedJobs):
    """The jobs as they are at one moment: what several resources ask for is described once."""

    def __init__(self, jobs: PublishedJobs) -> None:
        super().__init__()
        self._jobs = jobs
        self._known: dict[str, dict[str, Any]] = {}
        self._all: list[dict[str, Any]] | None = None

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the descriptions of all jobs."""
        if self._all is None:
            self._all = self._jobs.descriptions()
        return self._all

    def describe(self, job_id: str) -> dict[str, Any]:
        """Return the description of one job."""
        if job_id not in self._known:
            self._known[job_id] = self._jobs.describe(job_id)
        return self._known[job_id]

    def running(self, job_id: str) -> Controller:
        """Return what runs a job."""
        return self._jobs.running(job_id)


def _live(services: Services, request: Request) -> Response:
    watched = [_find(path) for path in _paths(request.query.get("paths", ""))]
    stream = next(_numbers)
    if not _pace.begin(stream):
        raise HttpError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{MOST_STREAMS} pages are being kept up to date, which is as many as may be",
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
        raise HttpError(HTTPStatus.BAD_REQUEST, f"more than {MOST_PATHS} paths cannot be watched")
    return list(dict.fromkeys(paths))


def _bad_paths() -> HttpError:
    return HttpError(
        HTTPStatus.BAD_REQUEST,
        "'paths' must be a JSON list of paths",
        'hint: write ?paths=["/jobs/overview"], encoded for an address',
    )


def _find(path: str) -> Watched:
    """Return how to ask for a path; only what everybody who reads may have, as JSON, can be watched."""
    try:
        parts = urlsplit(path)
        route, parameters = _table().find("GET", parts.path)
        if route.needs != Role.READ or route.media_type != "application/json":
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{parts.path} cannot be watched")
    except ValueError:
        return Watched(path, refusal=HttpError(HTTPStatus.BAD_REQUEST, f"'{path}' is no path"))
    except HttpError as error:
        return Watched(path, refusal=error)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Watched(path, route, Request("GET", parts.path, query), parameters)


@functools.cache
def _table() -> RouteTable:
    from penstock.rest import resources  # which has the routes of this module, too

    return RouteTable(resources.ROUTES)


async def _events(services: Services, watched: list[Watched], stream: int) -> AsyncIterator[bytes]:
    sent: dict[str, bytes] = {}
    spoken = time.monotonic()
    try:
        while services.elsewhere() is None:  # else the client must ask the process that leads
            news, cost_s = await asyncio.to_thread(_look, services, watched, sent)
            _pace.note(stream, cost_s)
            if news or time.monotonic() - spoken >= _SIGN_OF_LIFE_S:
                spoken = time.monotonic()
                yield news or b": alive\n\n"
            await asyncio.sleep(_pace.interval_s())
    finally:
        _pace.end(stream)


def _look(
    services: Services, watched: list[Watched], sent: dict[str, bytes]
) -> tuple[bytes, float]:
    """Return the events of what has changed since the last look, and the processor time that it took."""
    started = time.thread_time()
    now = replace(services, jobs=OneLook(services.jobs))
    news = []
    for each in watched:
        content = _answer(now, each)
        if sent.get(each.path) != content:
            sent[each.path] = content
            news.append(b"data: " + content + b"\n\n")
    return b"".join(news), time.thread_time() - started


def _answer(services: Services, watched: Watched) -> bytes:
    try:
        if watched.refusal is not None:
            raise watched.refusal
        assert watched.route is not None
        assert watched.request is not None
        response = call(watched.route, services, watched.request, watched.parameters)
        status, content = response.status, response.content
    except HttpError as error:
        status, content = error.status, {"errors": list(error.errors)}
    except Exception as error:  # noqa: BLE001 - what one resource cannot tell must not end the others
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        content = {"errors": [f"{type(error).__name__}: {error}"]}
    event = {"path": watched.path, "status": int(status), "content": content}
    return msgspec.json.encode(event, enc_hook=str)


ROUTES = (
    Route(
        "GET",
        "/penstock/live",
        _live,
        'what resources hold, each when it has changed, as server-sent events: `?paths=["/jobs/overview"]`',
        query={"paths": {"type": "string", "description": "a JSON list of paths"}},
        media_type="text/event-stream",
    ),
)
