"""Handles an admitted request: reads it within its limits, and calls the handler of its route in a thread."""

from __future__ import annotations

import asyncio
import logging
import time
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import ClientDisconnect
from starlette.requests import Request as IncomingRequest
from starlette.responses import Response as OutgoingResponse
from starlette.types import Scope

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Route, Services, call
from penstock.rest.security.access import Principal
from penstock.rest.server.admission import closing
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.middleware import IN_FLIGHT, SENT
from penstock.rest.server.responses import encoded, outgoing
from penstock.rest.server.throttling import RequestThrottle

_log = logging.getLogger(__name__)


class RequestHandling:
    """Handles the requests of a server. It belongs to the thread of the event loop; handlers run in threads of their own."""

    def __init__(
        self, services: Services, limits: RequestLimits, throttle: RequestThrottle
    ) -> None:
        self._services = services
        self._limits = limits
        self._throttle = throttle
        self._threads = anyio.CapacityLimiter(limits.threads)

    async def respond(
        self, incoming: IncomingRequest, route: Route, client: Principal
    ) -> OutgoingResponse:
        """Return the response to a request."""
        try:
            request = await self._read(incoming, route, client)
            self._check_leader(incoming, route)
            answer = await self._in_thread(route, request)
        except (HttpError, ClientDisconnect):
            raise
        except Exception as error:
            _log.exception("request %s %s failed", incoming.method, raw_path(incoming.scope))
            raise HttpError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"
            ) from error
        state = incoming.scope["state"]
        if answer.stream is not None:
            state[IN_FLIGHT].leave()  # a stream may last as long as the client stays connected
        state[SENT] = answer.sent
        return outgoing(answer)

    async def _read(self, incoming: IncomingRequest, route: Route, client: Principal) -> Request:
        raw = await self._body(incoming, route)
        return Request(
            route.method,
            unquote(raw_path(incoming.scope)),
            dict(parse_qsl(incoming.url.query, keep_blank_values=True)),
            {} if route.takes_bytes or route.method == "GET" else parse_body(raw),
            parameters=incoming.path_params,
            headers=dict(incoming.headers),
            raw=raw if route.takes_bytes else b"",
            who=client.name,
        )

    async def _body(self, incoming: IncomingRequest, route: Route) -> bytes:
        """Read the body, within its limits of size and time."""
        length = incoming.headers.get("content-length", "0")
        if length.isdigit() and int(length) > route.max_body_bytes:
            raise _too_large(route)
        started, received = asyncio.get_running_loop().time(), bytearray()
        try:
            async with asyncio.timeout(self._limits.arrival_s) as arriving:
                async for part in incoming.stream():
                    received += part
                    if len(received) > route.max_body_bytes:
                        raise _too_large(route)
                    allowed_s = self._limits.arrival_s + len(received) / self._limits.bytes_per_s
                    arriving.reschedule(started + allowed_s)
        except TimeoutError as error:
            raise closing(
                HttpError(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time")
            ) from error
        return bytes(received)

    def _check_leader(self, incoming: IncomingRequest, route: Route) -> None:
        """Redirect a client to the leader if that is another process."""
        leader = None if route.answered_by_standbys else self._services.elsewhere()
        if leader is None:
            return
        if not leader:
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "no JobManager is the leader at the moment",
                headers={"Retry-After": "1"},
            )
        query = incoming.url.query
        path = raw_path(incoming.scope)
        location = f"{incoming.url.scheme}://{leader}{path}{'?' if query else ''}{query}"
        raise HttpError(
            HTTPStatus.TEMPORARY_REDIRECT,
            f"the leader is the JobManager at {leader}",
            headers={"Location": location},
        )

    async def _in_thread(self, route: Route, request: Request) -> Response:
        def work() -> Response:
            started = time.thread_time()
            try:
                return encoded(call(route, self._services, request))
            finally:
                self._throttle.budget.take(time.thread_time() - started)

        # Neither a client that disconnects nor the shutdown of the server waits for the thread.
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)


def raw_path(scope: Scope) -> str:
    """Return the path as the client sent it."""
    path: bytes = scope["raw_path"]
    return path.decode("ascii", "replace")


def parse_body(text: bytes) -> dict[str, object]:
    """Return the JSON object in a body; an empty body is an empty object."""
    if not text.strip():
        return {}
    try:
        body = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
    return body


def _too_large(route: Route) -> HttpError:
    return closing(
        HttpError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body is larger than {route.max_body_bytes} bytes",
        )
    )
