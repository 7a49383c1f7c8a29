"""Sends log lines from the process of a task to the JobManager, and receives them there: JSON, one object a line, over TCP.

Who logs never waits for it: what does not fit into the connection at once is kept, up to a bound, and then left out. How many
lines were left out is reported. Since there is no thread in between, what was logged before a process is killed has been sent.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.logs.lines import LogLine

_CONNECT_S: Final = 1.0
_PAUSE_S: Final = 10.0  # after a connection failed
_WAITING_BYTES: Final = 1_000_000
_LONGEST_LINE: Final = 262_144
_BURST: Final = 2_000  # lines
_PER_SECOND: Final = 500
_CONNECTIONS: Final = 1_000


@dataclass(frozen=True, slots=True)
class LogAddress:
    """Where lines go. Who has the token may send some."""

    host: str
    port: int
    token: str = field(repr=False)


class LineSender:
    """The sending end, of one process. One thread uses it at a time."""

    def __init__(self, address: LogAddress, about: Mapping[str, Any]) -> None:
        self.address = address
        self._about = dict(about)
        self._socket: socket.socket | None = None
        self._next_try = 0.0
        self._waiting = bytearray()
        self._allowance = float(_BURST)
        self._counted_at = time.monotonic()
        self._left_out = 0

    def send(self, line: LogLine) -> None:
        """Send a line, or leave it out."""
        if not self._has_allowance() or len(self._waiting) > _WAITING_BYTES:
            self._left_out += 1
            return
        if self._left_out:
            number, self._left_out = self._left_out, 0
            summary = LogLine(
                line.time_ms, "WARNING", "penstock.logs",
                f"{number} lines were omitted because there were too many", line.scope,
            )  # fmt: skip
            self._put(summary)
        self._put(line)
        self.flush()

    def _has_allowance(self) -> bool:
        now = time.monotonic()
        earned = (now - self._counted_at) * _PER_SECOND
        self._allowance, self._counted_at = min(_BURST, self._allowance + earned), now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True

    def _put(self, line: LogLine) -> None:
        self._waiting += json.dumps(line.to_json()).encode() + b"\n"

    def flush(self) -> None:
        """Send what can be sent now."""
        if self._waiting and (self._socket is not None or self._connect()):
            assert self._socket is not None
            try:
                sent = self._socket.send(self._waiting)
            except BlockingIOError:
                return
            except OSError:
                self.close()
            else:
                del self._waiting[:sent]

    def _connect(self) -> bool:
        if time.monotonic() < self._next_try:
            return False
        self._next_try = time.monotonic() + _PAUSE_S
        try:
            where = self.address.host, self.address.port
            connection = socket.create_connection(where, _CONNECT_S)
            hello = {**self._about, "token": self.address.token, "process": os.getpid()}
            connection.sendall(json.dumps(hello).encode() + b"\n")
            connection.setblocking(False)
        except OSError:
            return False
        self._socket = connection
        return True

    def close(self) -> None:
        """Let go of the connection."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None
            self._waiting.clear()  # part of a line may have been sent


class LineReceiver(socketserver.ThreadingTCPServer):
    """The receiver. `name_of` returns the TaskManager of a process from its description."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        host: str,
        listens_at: str,
        add: Callable[[LogLine], None],
        name_of: Callable[[Mapping[str, Any]], str],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in listens_at else socket.AF_INET
        super().__init__((listens_at, 0), _Connection)
        self.address = LogAddress(host, self.server_address[1], secrets.token_urlsafe(24))
        self.add = add
        self.name_of = name_of
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        threading.Thread(target=self.serve_forever, name="penstock-logs", daemon=True).start()

    def process_request(self, request: Any, client_address: object) -> None:
        """Serve a connection in a thread of its own, unless there are as many as there may be."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: object) -> None:
        """Serve a connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a broken connection: its process has ended."""

    def close(self) -> None:
        """Receive nothing more."""
        self.shutdown()
        self.server_close()


class _Connection(socketserver.StreamRequestHandler):
    server: LineReceiver
    timeout = 10  # until it has said who it is

    def handle(self) -> None:
        hello = self._read()
        token = str(hello.get("token", "")) if hello else ""
        if not hello or not hmac.compare_digest(token.encode(), self.server.address.token.encode()):
            return
        self.connection.settimeout(None)
        taskmanager = self.server.name_of(hello)
        process = int(hello.get("process") or 0)
        while (data := self._read()) is not None:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self.server.add(LogLine.from_json(data).at(taskmanager, process))

    def _read(self) -> dict[str, Any] | None:
        """Return the next object, None at the end."""
        line = self.rfile.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            return None
        with contextlib.suppress(ValueError):
            data = json.loads(line)
            if isinstance(data, dict):
                return data
        return {}
