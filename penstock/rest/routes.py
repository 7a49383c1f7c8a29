"""The table of routes, and how a request finds its handler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import unquote

from penstock.errors import PenstockError
from penstock.rest.messages import HttpError, Request, Response, as_http_error
from penstock.rest.operations import Operations
from penstock.rest.published_jobs import PublishedJobs

VERSION = "/v1"


def now_ms() -> int:
    """Return the wall clock's time."""
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class Services:
    """What handlers work with."""

    jobs: PublishedJobs = field(default_factory=PublishedJobs)
    operations: Operations = field(default_factory=Operations)
    now_ms: Callable[[], int] = now_ms


Handler = Callable[[Services, Request], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. Parts of the path that begin with ':' are parameters."""

    method: str
    path: str
    handler: Handler
    summary: str

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """Return the parameters if a path is this route's, else None."""
        expected = self.path.strip("/").split("/")
        if len(expected) != len(segments):
            return None
        parameters = {}
        for name, segment in zip(expected, segments, strict=True):
            if name.startswith(":"):
                parameters[name[1:]] = segment
            elif name != segment:
                return None
        return parameters


def dispatch(routes: Iterable[Route], services: Services, request: Request) -> Response:
    """Find the handler of a request and call it; raise an HttpError if there is none or it refuses."""
    path = request.path.removeprefix(VERSION) if request.path.startswith(f"{VERSION}/") else None
    segments = [unquote(part) for part in (path or request.path).strip("/").split("/")]
    allowed = []
    for route in routes:
        parameters = route.match(segments)
        if parameters is None:
            continue
        if route.method == request.method:
            try:
                return route.handler(services, replace(request, parameters=parameters))
            except PenstockError as error:
                raise as_http_error(error) from error
        allowed.append(route.method)
    if allowed:
        methods = ", ".join(sorted(allowed))
        raise HttpError(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"{request.method} is not possible for {request.path}, only {methods}",
            headers={"Allow": methods},
        )
    raise HttpError(HTTPStatus.NOT_FOUND, f"there is nothing at {request.path}")
