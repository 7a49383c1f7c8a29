"""Server processes: they start, answer, are killed and come back on the same data, and leave nothing."""

from __future__ import annotations

import sys
import urllib.request

import pytest

from tools.servers.process import ServerProcess, accepts


class Files(ServerProcess):
    name = "files"
    start_timeout_s = 20.0

    def prepare(self):
        (self.directory / "greeting").write_text("hello")

    def command(self):
        return [sys.executable, "-m", "http.server", str(self.port), "--bind", "127.0.0.1"]


class Broken(Files):
    def command(self):
        return [sys.executable, "-c", "raise SystemExit('no disk')"]


def ask(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/greeting", timeout=60) as answer:
        return answer.read()


def test_a_server_answers_is_killed_and_comes_back_on_its_data():
    with Files() as server:
        assert ask(server) == b"hello"
        server.kill()
        assert not server.running
        assert not accepts(server.port)
        (server.directory / "greeting").write_text("again")
        server.start()
        assert ask(server) == b"again"
    assert not server.directory.exists()
    assert not accepts(server.port)


def test_a_server_that_does_not_come_up_says_what_it_printed():
    with pytest.raises(RuntimeError, match="no disk"):
        Broken().start()
