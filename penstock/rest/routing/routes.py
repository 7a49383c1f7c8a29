"""The route table, and the lookup of a request's handler."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from penstock.errors import PenstockError
from penstock.rest.messages import VERSION, HttpError, Request, Response, as_http_error
from penstock.rest.services.diagnoses import Diagnoses
from penstock.rest.services.flame_graphs import FlameGraphs
from penstock.rest.services.operations import Operations
from penstock.rest.services.peers import Peers
from penstock.rest.services.programs import Programs
from penstock.rest.services.published_jobs import PublishedJobs
from penstock.rest.services.web_settings import WebSettings

if TYPE_CHECKING:
    from penstock.rest.services.job_session import JobSession

MAX_BODY_BYTES = 1 << 20


def now_ms() -> int:
    """Return the wall-clock time in milliseconds."""
    return int(time.time() * 1000)


@dataclass(slots=True)
class Services:
    """The services that handlers use.

    `elsewhere` returns None if this process is the leader, the address of the leader if it is another process, and an empty string
    if there is no leader at the moment.
    """

    jobs: PublishedJobs = field(default_factory=PublishedJobs)
    operations: Operations = field(default_factory=Operations)
    flame_graphs: FlameGraphs = field(default_factory=FlameGraphs)
    diagnoses: Diagnoses = field(default_factory=Diagnoses)
    programs: Programs = field(default_factory=Programs)
    session: JobSession | None = None  # if this process is a session
    peers: Peers = field(default_factory=Peers)
    web: WebSettings = field(default_factory=WebSettings)
    now_ms: Callable[[], int] = now_ms
    elsewhere: Callable[[], str | None] = lambda: None


Handler = Callable[[Services, Request], Response]


class Role(enum.IntEnum):
    """The permission that a route requires. A higher role includes the lower ones."""

    OPEN = 0  # no permission: the files of the web page, which contain no data
    READ = 1
    WRITE = 2


Schema = Mapping[str, Any]  # JSON Schema, as in OpenAPI 3.1


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. Parts of the path that begin with ':' are parameters; a last one with '*' matches the rest of the path.

    Without `role`, GET requires READ and other methods require WRITE. A body is a JSON object, unless `takes_bytes`: then it is in
    `request.raw`. `query`, `body` and `response` are schemas for the OpenAPI document.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    role: Role | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None
    response: Schema | None = None
    takes_bytes: bool = False
    max_body_bytes: int = MAX_BODY_BYTES
    media_type: str = "application/json"
    answered_by_standbys: bool = False  # answered by standbys too, not redirected to the leader

    @property
    def needs(self) -> Role:
        """The role that a client needs."""
        if self.role is not None:
            return self.role
        return Role.READ if self.method == "GET" else Role.WRITE

    @property
    def segments(self) -> list[str]:
        """The parts of the path."""
        return self.path.strip("/").split("/")

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """Return the parameters if the path matches, else None."""
        expected = self.segments
        parameters = {}
        if expected[-1].startswith("*"):
            rest = len(expected) - 1
            parameters[expected[-1][1:]] = "/".join(segments[rest:])
            expected, segments = expected[:rest], segments[:rest]
        if len(expected) != len(segments):
            return None
        for name, segment in zip(expected, segments, strict=True):
            if name.startswith(":"):
                if not segment:
                    return None
                parameters[name[1:]] = segment
            elif name != segment:
                return None
        return parameters


class RouteTable:
    """Finds the route of a request. If several match, the one with more literal parts from the left is used."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(sorted(routes, key=_specificity))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route and the parameters of a path as it was sent, with or without a version."""
        allowed = []
        segments = split(path)
        for route in self.routes:
            parameters = route.match(segments)
            if parameters is None:
                continue
            if route.method == method:
                return route, parameters
            allowed.append(route.method)
        if allowed:
            methods = ", ".join(sorted(set(allowed)))
            raise HttpError(
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"{method} is not allowed for {path}, only {methods}",
                headers={"Allow": methods},
            )
        raise HttpError(HTTPStatus.NOT_FOUND, f"unknown path {path}")


def split(path: str) -> list[str]:
    """Return the parts of a path as it was sent, without its version."""
    if path == VERSION or path.startswith(f"{VERSION}/"):
        path = path.removeprefix(VERSION)
    return [unquote(part) for part in path.strip("/").split("/")]


def _specificity(route: Route) -> list[int]:
    return [{":": 1, "*": 2}.get(part[:1], 0) for part in route.segments]


def call(
    route: Route, services: Services, request: Request, parameters: Mapping[str, str]
) -> Response:
    """Call the handler of a route; its errors become HttpErrors."""
    try:
        return route.handler(services, replace(request, parameters=parameters))
    except PenstockError as error:
        raise as_http_error(error) from error
