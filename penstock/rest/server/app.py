"""The ASGI application: authorizes a request, reads it, handles it in a thread, and sends the response."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import anyio
import anyio.to_thread
import msgspec
from starlette import responses
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.requests import Request as IncomingRequest
from starlette.types import Message, Receive, Scope, Send

from penstock.rest.messages import HttpError, Request, Response, error_response
from penstock.rest.routing.routes import (
    Role,
    Route,
    RouteTable,
    Services,
    call,
)
from penstock.rest.security.access import Access, Principal
from penstock.rest.security.audit import Audit
from penstock.rest.server.in_flight_requests import InFlightRequests
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.throttling import RequestThrottle

# Keys in the state of requests, set by their connection
PEER = "peer"  # the common name in the client's certificate
ABORT = "abort"  # the function that closes the connection
_VERSIONS = {"1.0", "1.1"}
_JSON = "application/json; charset=UTF-8"
# The page runs only its own scripts, and no other page may embed it in a frame (clickjacking).
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}

_log = logging.getLogger(__name__)


class Application:
    """The application of one server."""

    def __init__(
        self,
        services: Services,
        access: Access,
        routes: Iterable[Route],
        limits: RequestLimits,
        in_flight_requests: InFlightRequests,
        audit: Audit,
        *,
        throttle: RequestThrottle | None = None,
    ) -> None:
        self._services = services
        self._access = access
        self._table = RouteTable(routes)
        self._limits = limits
        self._in_flight_requests = in_flight_requests
        self._audit = audit
        self._throttle = throttle or RequestThrottle(limits)
        self._threads = anyio.CapacityLimiter(limits.threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        incoming = IncomingRequest(scope, receive)
        with (
            self._in_flight_requests.one() as in_flight_request,
            contextlib.suppress(ClientDisconnect),
        ):
            answer = await self._answer(incoming)
            if answer.stream is not None:
                in_flight_request.leave()  # a stream may last as long as the client stays connected
            try:
                await _starlette(answer)(scope, receive, self._in_time(send))
            except TimeoutError:
                _log.debug("%s does not read its response", scope.get("client"))
                scope["state"][ABORT]()
                return
            if answer.sent is not None:
                answer.sent()
        self._throttle.note_loop_time()

    def _in_time(self, send: Send) -> Send:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._limits.sending_s):
                await send(message)

        return send_in_time

    async def _answer(self, incoming: IncomingRequest) -> Response:
        """Return the response to a request; errors become responses, too."""
        client: Principal | None = None
        changes = incoming.method not in ("GET", "HEAD")
        try:
            route, parameters, client = await self._admit(incoming)
            changes = changes or route.needs is Role.WRITE  # Flink's page cancels with a GET
            request = await self._read(incoming, route, client)
            self._check_leader(incoming, route)
            answer = await self._in_thread(route, request, parameters)
        except HttpError as error:
            answer = error_response(error)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - one request must not end the server
            _log.exception("request %s %s failed", incoming.method, incoming.url.path)
            answer = error_response(
                HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
            )
        if changes:
            self._audit.note(incoming, client, answer.status)
        return answer

    async def _admit(self, incoming: IncomingRequest) -> tuple[Route, dict[str, str], Principal]:
        """Find the route and authorize the client, before the body is read."""
        version = incoming.scope["http_version"]
        if version not in _VERSIONS:
            raise _closing(
                HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{version} is not supported")
            )
        method = "GET" if incoming.method == "HEAD" else incoming.method
        path = incoming.scope["raw_path"].decode("ascii", "replace")
        try:
            found, refusal = self._table.find(method, path), None
        except HttpError as error:
            found, refusal = None, error
        needs = Role.READ if found is None else found[0].needs
        peer = incoming.scope.get("state", {}).get(PEER)
        headers = dict(incoming.headers)
        try:
            client = self._access.admit(headers, peer, needs)
        except HttpError as error:
            await self._throttle.pass_through()
            raise _closing(error) from None
        if needs < Role.WRITE:  # write requests are not throttled by read requests
            await self._throttle.pass_through()
        if found is None:
            assert refusal is not None
            raise _closing(refusal)
        return *found, client

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
        path = incoming.scope["raw_path"].decode("ascii", "replace")
        location = f"{incoming.url.scheme}://{leader}{path}{'?' if query else ''}{query}"
        raise HttpError(
            HTTPStatus.TEMPORARY_REDIRECT,
            f"the leader is the JobManager at {leader}",
            headers={"Location": location},
        )

    async def _read(self, incoming: IncomingRequest, route: Route, client: Principal) -> Request:
        raw = await self._body(incoming, route)
        return Request(
            route.method,
            incoming.url.path,
            dict(parse_qsl(incoming.url.query, keep_blank_values=True)),
            {} if route.takes_bytes or route.method == "GET" else parse_body(raw),
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
            raise _closing(
                HttpError(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time")
            ) from error
        return bytes(received)

    async def _in_thread(
        self, route: Route, request: Request, parameters: Mapping[str, str]
    ) -> Response:
        def work() -> Response:
            started = time.thread_time()
            try:
                answer = call(route, self._services, request, parameters)
                return _encoded(answer)
            finally:
                self._throttle.budget.take(time.thread_time() - started)

        # Neither a client that disconnects nor the shutdown of the server waits for the thread.
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)


def parse_body(text: bytes) -> dict[str, Any]:
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


def _encoded(answer: Response) -> Response:
    """Return a response whose content is bytes."""
    if answer.stream is not None or answer.media_type is not None:
        return answer
    content = msgspec.json.encode(answer.content, enc_hook=str)
    return Response(content, answer.status, answer.headers, answer.sent, _JSON)


def _starlette(answer: Response) -> responses.Response:
    headers: MutableMapping[str, str] = {**_HEADERS, **answer.headers}
    if answer.stream is not None:
        chunks = (
            answer.stream
            if hasattr(answer.stream, "__aiter__")
            else iterate_in_threadpool(answer.stream)
        )
        return responses.StreamingResponse(chunks, answer.status, headers, answer.media_type)
    if answer.media_type is None:
        answer = _encoded(answer)
    return responses.Response(answer.content, answer.status, headers, answer.media_type)


def _too_large(route: Route) -> HttpError:
    return _closing(
        HttpError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body is larger than {route.max_body_bytes} bytes",
        )
    )


def _closing(error: HttpError) -> HttpError:
    """Return an error that closes the connection, because a body that may follow is not read."""
    error.headers["Connection"] = "close"
    return error
