"""Routes: a method, a path, a handler, and what its requests and responses look like."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.rest.messages import Request, Response, as_http_error
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


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. Parts of the path that begin with ':' are parameters; a last one with '*' matches the rest of the path.

    Without `role`, GET requires READ and other methods require WRITE. A body is a JSON object, unless `takes_bytes`: then it is in
    `request.raw`. `query`, `body` and `response` are types, from which the OpenAPI document has its schemas.
    """

    method: str
    #: Without its version; unique together with `method`.
    path: str
    #: Called in a thread; it may block.
    handler: Handler
    #: For the OpenAPI document.
    summary: str
    #: None: `needs` follows from the method.
    role: Role | None = None
    #: Types of the parameters in the query, by name. Handlers check them; others are ignored.
    query: Mapping[str, object] = field(default_factory=dict)
    #: A Struct that forbids unknown fields, or a mapping. None: there is none, or it is not JSON.
    body: object = None
    #: None: not JSON, or it depends on the job.
    response: object = None
    takes_bytes: bool = False
    #: A longer body is refused before it is read, if the client says its length.
    max_body_bytes: int = MAX_BODY_BYTES
    #: Of a successful response; errors are always JSON.
    media_type: str = "application/json"
    #: Answered by standbys too, not redirected to the leader.
    answered_by_standbys: bool = False

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


def call(route: Route, services: Services, request: Request) -> Response:
    """Call the handler of a route; its errors become HttpErrors."""
    try:
        return route.handler(services, request)
    except PenstockError as error:
        raise as_http_error(error) from error
