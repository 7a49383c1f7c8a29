"""An HTTP server whose answers a test decides, and which remembers what it got."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Reply = tuple[int, dict[str, str], bytes]


@dataclass
class Got:
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HttpServer:
    """Requests in the order in which they came, and how many were there at a time."""

    url: str
    answer: Callable[[Got], Reply]
    requests: list[Got] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.requests]


def accept(_: Got) -> Reply:
    return 200, {}, b"ok"


@contextlib.contextmanager
def http_server(answer: Callable[[Got], Reply] = accept, port: int = 0) -> Iterator[HttpServer]:
    """Serve on a port of the loopback address, a free one unless it is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # an answer in two packets would wait 40 ms for its acknowledgement

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            got = Got(self.command, self.path, dict(self.headers), body)
            with state.lock:
                state.requests.append(got)
                state.at_once += 1
                state.most_at_once = max(state.most_at_once, state.at_once)
            try:
                status, headers, content = state.answer(got)
            finally:
                with state.lock:
                    state.at_once -= 1
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_PUT(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    state = HttpServer(f"http://127.0.0.1:{server.server_address[1]}", answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
