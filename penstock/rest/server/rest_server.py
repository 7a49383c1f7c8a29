"""The HTTP server of a process. It listens from the start, and is loaded when the first client connects.

Few jobs ever get a request, and loading the server takes longer than a small job. So a thread only waits for a connection first.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
from collections.abc import Sequence

from penstock.rest.processes import is_loopback
from penstock.rest.routing.routes import Route, Services
from penstock.rest.security.access import SecuritySettings
from penstock.rest.security.audit import Audit
from penstock.rest.server.in_flight_requests import InFlightRequests
from penstock.rest.server.limits import RequestLimits

_BACKLOG = 1024
_log = logging.getLogger(__name__)


class RestServer:
    """A server that listens on the first free port of a list; port 0 is any free port."""

    def __init__(
        self,
        services: Services,
        token: str,
        *,
        bind_address: str = "127.0.0.1",
        ports: Sequence[int] = (0,),
        address: str | None = None,
        routes: Sequence[Route] | None = None,
        limits: RequestLimits | None = None,
        security: SecuritySettings | None = None,
    ) -> None:
        self.services = services
        #: None until the first client connects: they load slowly.
        self._routes = routes
        self._limits = limits or RequestLimits()
        security = security or SecuritySettings()
        #: Errors in these settings are raised here, before a client connects.
        self.access = security.access(
            token,
            open_to_readers=is_loopback(bind_address),
            names={"localhost", address or bind_address},
        )
        self._tls = None if security.tls is None else security.tls.context()
        self._audit = Audit(security.audit_file)
        self._in_flight_requests = InFlightRequests()
        #: Listens from here until `close`, also while no thread accepts connections.
        self.socket = _listen(bind_address, ports)
        #: The address that it is bound to: the port is never 0.
        self.server_address = self.socket.getsockname()
        host = address or {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind_address, bind_address)  # noqa: S104
        port = self.server_address[1]
        #: What clients connect to: `rest.address`, or the bound address if that is not a wildcard.
        self.client_address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.scheme = "http" if self._tls is None else "https"
        #: What is written to `_end` ends the thread, which waits for `_ending`.
        self._ending, self._end = socket.socketpair()
        #: None before `start`.
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Serve clients in a thread."""
        self._thread = threading.Thread(target=self._run, name="penstock-rest", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            if self._wait_for_client():
                self._serve()
        except Exception:  # noqa: BLE001 - the jobs continue
            if self.socket.fileno() != -1:
                _log.exception("the REST server has failed")
        finally:
            self.socket.close()

    def _wait_for_client(self) -> bool:
        """Return True when a client connects, and False when the server is closed first."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.register(self._ending, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select()]
        return self._ending not in ready

    def _serve(self) -> None:
        import asyncio

        from penstock.rest.server.application import create_application
        from penstock.rest.server.serving import serve

        if self._routes is None:
            from penstock.rest.resources import ROUTES

            self._routes = ROUTES
        application = create_application(
            self.services,
            self.access,
            self._routes,
            self._limits,
            self._in_flight_requests,
            self._audit,
        )
        asyncio.run(serve(application, self._limits, self.socket, self._ending, self._tls))

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until no requests are in flight, for at most `timeout_s`; return whether there are none."""
        return self._in_flight_requests.wait_until_none(timeout_s)

    def close(self) -> None:
        """Stop serving and release the port."""
        with contextlib.suppress(OSError):
            self._end.send(b"x")
        if self._thread is None:
            self.socket.close()
        else:
            self._thread.join(5)
        self._ending.close()
        self._end.close()


def _listen(bind_address: str, ports: Sequence[int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in bind_address else socket.AF_INET
    for port in ports[:-1]:
        with contextlib.suppress(OSError):
            return _listen_on(family, bind_address, port)
    return _listen_on(family, bind_address, ports[-1])


def _listen_on(family: socket.AddressFamily, bind_address: str, port: int) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((bind_address, port))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
