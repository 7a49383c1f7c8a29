"""Middleware of the application: the delivery of responses within their time, and the audit log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.requests import Request as IncomingRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.rest.security.audit import Audit
from penstock.rest.server.admission import CLIENT, WRITES
from penstock.rest.server.in_flight_requests import InFlightRequests
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.throttling import RequestThrottle

# Keys in the state of requests
ABORT: Final = "abort"  # the function that closes the connection, set by the connection
IN_FLIGHT: Final = "in_flight"  # the request among those that the shutdown waits for
SENT: Final = "sent"  # what is called when the whole response is sent

_log = logging.getLogger(__name__)


class _NotReadError(Exception):
    """The client does not read its response."""


class DeliveryMiddleware:
    """Counts requests in flight, gives up clients that do not read their responses, and charges the time of the event loop."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: RequestLimits,
        in_flight_requests: InFlightRequests,
        throttle: RequestThrottle,
    ) -> None:
        self._app = app
        self._limits = limits
        self._in_flight_requests = in_flight_requests
        self._throttle = throttle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back."""
        if scope["type"] != "http":
            return
        state = scope["state"]
        with self._in_flight_requests.one() as state[IN_FLIGHT]:
            try:
                await self._app(scope, receive, self._in_time(send))
            except ClientDisconnect:
                pass
            except _NotReadError:
                _log.debug("%s does not read its response", scope.get("client"))
                state[ABORT]()
            else:
                sent: Callable[[], None] | None = state.get(SENT)
                if sent is not None:
                    sent()
        self._throttle.note_loop_time()

    def _in_time(self, send: Send) -> Send:
        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._limits.sending_s):
                    await send(message)
            except TimeoutError as error:
                raise _NotReadError from error

        return send_in_time


class AuditMiddleware:
    """Notes in the audit log which requests wanted to change something, and with which status they were answered."""

    def __init__(self, app: ASGIApp, *, audit: Audit) -> None:
        self._app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note its response."""
        incoming = IncomingRequest(scope, receive)

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                state = scope["state"]
                # Flink's page cancels with a GET.
                if incoming.method not in ("GET", "HEAD") or state.get(WRITES):
                    self._audit.note(incoming, state.get(CLIENT), message["status"])
            await send(message)

        await self._app(scope, receive, send_noted)
