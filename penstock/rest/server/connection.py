"""Connections of the server: timeouts of their requests, and responses to invalid HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from penstock.rest.server.admission import PEER
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.middleware import ABORT


def _canned(status: HTTPStatus, error: str, *headers: str) -> bytes:
    content = json.dumps({"errors": [error]})
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json; charset=UTF-8",
        "Connection: close",
        *headers,
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join([*lines, "", content]).encode()


_TOO_MANY = _canned(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections", "Retry-After: 1")
_AT_ONCE = struct.pack("ii", 1, 0)


class Connection(H11Protocol):
    """One connection.

    A connection beyond the limit is rejected at once. It is closed if a request does not arrive in time, or if the client does
    not read its response for too long.
    """

    limits = RequestLimits()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.write(_TOO_MANY)
            transport.close()
            return
        peer = _common_name(transport.get_extra_info("ssl_object"))
        self.app_state = {**self.app_state, PEER: peer, ABORT: self._abort}
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Process data from the client."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._expect_request()
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()  # pipelined: the next request has arrived already

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection."""
        self._cancel_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Report invalid HTTP, as JSON like other errors."""
        with contextlib.suppress(h11.LocalProtocolError):
            self.conn.send(h11.ConnectionClosed())
        self.transport.write(_canned(HTTPStatus.BAD_REQUEST, msg))
        self.transport.close()

    def _expect_request(self) -> None:
        self._cancel_timer()
        self._unsent = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(
            self.limits.sending_s if self._unsent else self.limits.arrival_s, self._on_timeout
        )

    def _on_timeout(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if not unsent:
            self.transport.abort()
        elif unsent < self._unsent:  # slow, but the client is reading
            self._expect_request()
        else:
            self._abort()

    def _abort(self) -> None:
        """Abort the connection; data in the system's buffers is discarded."""
        connection = self.transport.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _common_name(ssl_object: ssl.SSLObject | None) -> str | None:
    """Return the common name in the client's certificate, or None if it has none."""
    certificate: Any = None if ssl_object is None else ssl_object.getpeercert()
    if not certificate:
        return None
    names = [
        value for part in certificate["subject"] for name, value in part if name == "commonName"
    ]
    return names[0] if names else ""
