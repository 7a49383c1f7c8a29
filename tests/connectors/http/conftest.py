"""An HTTP server that is a process, so that it can be killed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools.servers.process import ServerProcess

PROGRAM = """
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        while os.path.exists(sys.argv[3]) and os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        with open(sys.argv[2], "ab", 0) as file:
            file.write(body + b"\\n")
        self.send_response(204)
        self.end_headers()

    def log_message(self, format, *args):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class HttpProgram(ServerProcess):
    """Writes every body to a file before it answers. Those that come after the first one wait for as long as there is a file `hold`."""

    name = "http"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def file(self) -> Path:
        return self.directory / "bodies"

    @property
    def hold(self) -> Path:
        return self.directory / "hold"

    def command(self):
        return [sys.executable, "-c", PROGRAM, str(self.port), str(self.file), str(self.hold)]

    def taken(self) -> list[int]:
        """Return all numbers that it got; each body is a list of them."""
        if not self.file.exists():
            return []
        whole, _, _ = self.file.read_bytes().rpartition(b"\n")
        return [n for line in whole.splitlines() if line.endswith(b"]") for n in json.loads(line)]


@pytest.fixture
def program():
    with HttpProgram() as server:
        yield server
