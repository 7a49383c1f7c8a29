"""The programs of the page on further connectors run, against real servers in place of those that it names."""

from __future__ import annotations

import re
from pathlib import Path

import redis

from penstock.testing import MiniCluster
from tests.builders.feeding import feeding, sends
from tests.builders.http_server import http_server
from tests.connectors.conftest import serving
from tools.servers.redis import RedisServer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "more-connectors.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(number, **replaced):
    """Run a program of the page, with other addresses."""
    program = PROGRAMS[number]
    for given, real in replaced.values():
        assert given in program
        program = program.replace(given, real)
    with MiniCluster():
        exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})


def printed(capsys):
    return sorted(line.partition("> ")[2] or line for line in capsys.readouterr().out.splitlines())


def test_the_page_has_no_other_programs():
    assert len(PROGRAMS) == 6


def test_the_socket_program_runs(capsys):
    with feeding(sends(b"a\nb\n")) as (host, port):
        run(0, address=('"localhost", 9999', f'"{host}", {port}'))
    assert printed(capsys) == ["A", "B"]


def test_the_http_program_runs():
    with http_server() as server:
        run(1, address=("http://localhost:8080", server.url))
    assert sum(got.method == "PUT" for got in server.requests) == 100
    lines = b"".join(got.body for got in server.requests if got.method == "POST")
    assert lines.count(b"\n") == 100


def test_the_redis_programs_run(capsys):
    with serving(RedisServer) as server, redis.Redis.from_url(server.url()) as client:
        address = ("redis://localhost:6379/0", server.url())
        run(3, address=address)
        assert client.get("sold:tea") == b"5"
        assert client.llen("sales") == 3
        assert client.get("last:milk") == b"1"
        client.hset("user:ann", "city", "Linz")
        capsys.readouterr()
        run(4, address=address)
    assert "Linz" in capsys.readouterr().out


def test_the_s3_program_runs_with_any_file_system(tmp_path):
    run(5, address=("s3://bucket/out?region=eu-west-1", str(tmp_path)))
    found = [line for file in tmp_path.rglob("part-*") for line in file.read_text().split()]
    assert sorted(found) == ["a", "b"]
