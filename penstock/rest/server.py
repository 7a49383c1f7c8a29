"""The HTTP server: reads requests, checks who may ask, writes JSON."""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.rest.messages import HttpError, Request, Response, error_response
from penstock.rest.processes import is_loopback
from penstock.rest.resources import ROUTES
from penstock.rest.routes import Route, Services, dispatch

MAX_BODY_BYTES = 1 << 20
MAX_CONNECTIONS = 32  # each has a thread
ARRIVAL_S = 10.0  # in which all of a request must have come, or the first byte of the next one on a connection

_log = logging.getLogger(__name__)


class RestServer(ThreadingHTTPServer):
    """A server that listens on the first of some ports that is free; port 0 is any.

    Requests that change something need the token; if the address is not loopback, all do. A loopback server answers
    others only under its own names, so that a web page cannot reach it by a name that it makes point here. Who comes
    when all connections are taken is sent away at once; requests that do not arrive in time give theirs up.
    """

    daemon_threads = True

    def __init__(
        self,
        services: Services,
        token: str,
        *,
        bind_address: str = "127.0.0.1",
        ports: Sequence[int] = (0,),
        address: str | None = None,
        routes: Sequence[Route] = ROUTES,
        max_connections: int = MAX_CONNECTIONS,
        arrival_s: float = ARRIVAL_S,
    ) -> None:
        self.services = services
        self.token = token
        self.routes = tuple(routes)
        self.arrival_s = arrival_s
        self._free_connections = threading.BoundedSemaphore(max_connections)
        self._in_flight = 0
        self._became_idle = threading.Condition()
        self.protects_reads = not is_loopback(bind_address)
        self.names = {"localhost", address or bind_address}
        self.address_family = socket.AF_INET6 if ":" in bind_address else socket.AF_INET
        for remaining in range(len(ports) - 1, -1, -1):
            try:
                super().__init__((bind_address, ports[-1 - remaining]), _Handler)
                break
            except OSError:
                if not remaining:
                    raise
        host = address or {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind_address, bind_address)  # noqa: S104
        port = self.server_address[1]
        self.client_address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def server_bind(self) -> None:
        """Bind without asking for the host's full name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, unless there are as many as there may be."""
        if not self._free_connections.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.settimeout(0)
                request.send(_NO_CONNECTION_LEFT)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread was started
            self._free_connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_connections.release()

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Count a request until its response was sent."""
        with self._became_idle:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._became_idle:
                self._in_flight -= 1
                self._became_idle.notify_all()

    def wait_until_idle(self, patience_s: float) -> bool:
        """Wait until all requests under way were answered, but not longer than that."""
        with self._became_idle:
            return self._became_idle.wait_for(lambda: not self._in_flight, patience_s)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note that a connection broke."""
        _log.debug("connection of %s broke", client_address, exc_info=True)

    def answer(self, request: Request) -> Response:
        """Return the response to a request that was admitted."""
        try:
            return dispatch(self.routes, self.services, request)
        except HttpError as error:
            return error_response(error)
        except Exception as error:  # noqa: BLE001 - one request must not end the server
            _log.exception("request %s %s failed", request.method, request.path)
            return error_response(
                HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
            )

    def admit(self, method: str, token: str | None, host: str | None) -> None:
        """Raise an HttpError if a client may not ask; what it may not ask is not read. The arguments are from headers."""
        if token is not None and hmac.compare_digest(token.encode(), self.token.encode()):
            return
        if token is not None or self.protects_reads or method != "GET":
            raise HttpError(
                HTTPStatus.UNAUTHORIZED,
                "the token is wrong" if token is not None else "the request needs a token",
                "hint: send the header 'Authorization: Bearer <token>'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        name = urlsplit(f"//{host or ''}").hostname or "localhost"
        if name not in self.names and not is_loopback(name):
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                f"this server is not called '{name}'",
                "hint: set rest.address to the name that clients use",
            )


_TOO_MANY = b'{"errors": ["too many clients are connected"]}'
_NO_CONNECTION_LEFT = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=UTF-8\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
    % (len(_TOO_MANY), _TOO_MANY)
)


class _Arriving(io.RawIOBase):
    """Reads from a socket until a moment, however little comes at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: RestServer
    protocol_version = "HTTP/1.1"
    server_version = "penstock"
    sys_version = ""
    timeout = 60

    def setup(self) -> None:
        super().setup()
        self._arriving = _Arriving(self.connection)
        self.rfile = io.BufferedReader(self._arriving)

    def handle_one_request(self) -> None:
        self._arriving.deadline = time.monotonic() + self.server.arrival_s
        super().handle_one_request()

    def _serve(self) -> None:
        with self.server.serving():
            try:
                self.server.admit(self.command, self._token(), self.headers.get("Host"))
                response = self.server.answer(self._request())
            except HttpError as error:  # the rest of the body, if any, was not read
                self.close_connection = True
                response = error_response(error)
            self._send(response)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve  # noqa: N815 - http.server's names

    def do_HEAD(self) -> None:
        self.close_connection = True
        self._serve()

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        return Request(self.command, parts.path, dict(parse_qsl(parts.query)), self._body())

    def _token(self) -> str | None:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None

    def _body(self) -> dict[str, Any]:
        if "Transfer-Encoding" in self.headers:
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length")
        length = self.headers.get("Content-Length", "0")
        if not length.isascii() or not length.isdigit():
            raise HttpError(HTTPStatus.BAD_REQUEST, f"Content-Length '{length}' is not a number")
        if int(length) > MAX_BODY_BYTES:
            raise HttpError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is over {MAX_BODY_BYTES} bytes"
            )
        try:
            text = self.rfile.read(int(length))
        except TimeoutError as error:
            raise HttpError(
                HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time"
            ) from error
        if not text.strip():
            return {}
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return body

    def _send(self, response: Response) -> None:
        content = json.dumps(response.content, default=str).encode()
        self.connection.settimeout(self.timeout)
        self.send_response(response.status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        for name, value in response.headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()
        if response.sent is not None:
            response.sent()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Tell what http.server finds wrong as JSON too."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(error_response(HttpError(status, message or status.phrase)))

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug("%s: %s", self.address_string(), format % args)
