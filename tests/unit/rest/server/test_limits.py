"""Clients that ask for too much, wrongly, slowly or all at once: the server says so, and goes on."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import threading

import pytest

from penstock.rest.messages import Response
from penstock.rest.routing.routes import MAX_BODY_BYTES, Route
from penstock.rest.server.limits import RequestLimits
from tests.builders.rest_fakes import TOKEN

ID = "a" * 32
JOB = f"/v1/jobs/{ID}"


async def ask_all_at_once(address, count):
    """Open so many connections, send a request on each when all are open, and return the first lines of the answers.

    A connection that the server closes before it reads the request has an empty answer. The system may reset such a connection.
    """

    async def answer(reader):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""

    opened = await asyncio.gather(*(asyncio.open_connection(*address) for _ in range(count)))
    for _, writer in opened:
        writer.write(f"GET {JOB} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answers = await asyncio.gather(*(answer(reader) for reader, _ in opened))
    for _, writer in opened:
        writer.close()
    return [answer.split(b"\r\n", 1)[0] for answer in answers]


def test_a_thousand_requests_at_once_are_all_answered(start_server, controller):
    server = start_server(RequestLimits(connections=1500, processor_share=1.0, arrival_s=600))
    before = threading.active_count()
    answers = asyncio.run(ask_all_at_once(server.server_address[:2], 1000))
    assert set(answers) == {b"HTTP/1.1 200 OK"}
    assert threading.active_count() - before <= RequestLimits().threads + 1


def test_a_thousand_at_once_are_told_to_come_again_where_there_is_room_for_less(
    start_server, make_client, controller
):
    server = start_server(RequestLimits(connections=100, processor_share=1.0, arrival_s=600))
    answers = asyncio.run(ask_all_at_once(server.server_address[:2], 1000))
    assert set(answers) <= {b"HTTP/1.1 200 OK", b"HTTP/1.1 503 Service Unavailable", b""}
    assert answers.count(b"HTTP/1.1 200 OK") >= 100
    assert make_client(server)("GET", JOB)[0] == 200


def test_connections_leave_files_for_the_job():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256));"
        "from penstock.rest.server.limits import RequestLimits; print(RequestLimits().connections)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) == 128


OUTSIDE = [
    "/web/../../pyproject.toml",
    "/web/..%2f..%2f..%2fetc%2fpasswd",
    "/web/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/web//etc/passwd",
    "/web/%2fetc%2fpasswd",
    "/web/..\\..\\etc\\passwd",
    "/web/index.html%00.js",
    "/v1/jobs/..%2f..%2fetc",
    f"{JOB}/vertices/..%2f..%2fetc%2fpasswd",
    f"{JOB}/checkpoints/details/..%2f1",
    "/v1/taskmanagers/local/logs/..%2f..%2fetc%2fpasswd",
    "/v1/jobmanager/logs/..%2f..%2f..%2fetc%2fpasswd",
    "/v1/jobmanager/logs/%2fetc%2fpasswd",
    "/../../etc/passwd",
    "//etc/passwd",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_leads_to_no_file_of_the_machine(start_server, controller, path):
    server = start_server()
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        connection.sendall(f"{request}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        answer = connection.makefile("rb").read()
    assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 "))
    assert b"root:" not in answer
    assert b"[project]" not in answer


MALFORMED = [
    pytest.param(b"{", id="cut off"),
    pytest.param(b'{"drain": NaN}', id="nan"),
    pytest.param(b'{"drain": Infinity}', id="infinity"),
    pytest.param(b'{"targetDirectory": "\xff"}', id="no utf-8"),
    pytest.param(b'{"targetDirectory": "\\ud800"}', id="half a character"),
    pytest.param(b'{"targetDirectory": "a\\u0000b"}', id="nul"),
    pytest.param(b"[" * 100_000, id="deep"),
    pytest.param(b'{"a":' * 100_000, id="deep objects"),
    pytest.param(b'{"drain": ' + b"9" * 5000 + b"}", id="a long number"),
    pytest.param(b"\x1f\x8b\x08\x00", id="compressed"),
    pytest.param(b"null", id="null"),
    pytest.param(b"1 2", id="two"),
]


@pytest.mark.parametrize("body", MALFORMED)
def test_a_body_that_is_wrong_is_refused_with_a_reason(ask, controller, body):
    status, content = ask("POST", f"{JOB}/stop", body)
    assert status == 400
    assert content["errors"][0]
    assert controller.calls == []


def test_a_body_of_chunks_that_grows_too_large_is_cut_off(start_server, controller):
    server = start_server()
    head = f"POST {JOB}/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        answer = b""
        try:
            for _ in range(MAX_BODY_BYTES // 0x10000 + 2):
                connection.sendall(chunk)
            answer = connection.makefile("rb").read()
        except ConnectionError:  # it has closed the connection, and sent the reason before that
            pass
    assert not answer or answer.startswith(b"HTTP/1.1 413 ")
    assert controller.calls == []


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="path"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 50_000 + b"\r\n", id="headers"
        ),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 5 + b"\r\n\r\n", id="tls"),
        pytest.param(b"GET http://[ HTTP/1.1\r\nHost: [\r\n\r\n", id="host"),
        pytest.param(b"GET /%ff%fe?%ff=%fe HTTP/1.1\r\nHost: x\r\n\r\n", id="bytes"),
    ],
)
def test_a_head_that_is_wrong_is_refused_and_the_next_client_is_served(
    start_server, make_client, controller, head
):
    server = start_server()
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        try:
            connection.sendall(head)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.makefile("rb").read()
        except OSError:
            answer = b""
    assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert make_client(server)("GET", JOB)[0] == 200


def test_a_version_of_http_that_is_not_known_is_refused(start_server):
    server = start_server()
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(b"GET / HTTP/9.9\r\n\r\n")
        assert connection.makefile("rb").read().startswith(b"HTTP/1.1 505 ")


def large(_services, _request):
    return Response({"large": "x" * 50_000_000})


def test_a_client_that_does_not_read_is_given_up(start_server, make_client):
    server = start_server(
        RequestLimits(sending_s=0.3, arrival_s=600, processor_share=1.0),
        routes=[
            Route("GET", "/large", large, ""),
            Route("GET", "/ok", lambda *_: Response({}), ""),
        ],
    )
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert make_client(server)("GET", "/ok") == (200, {})
        hung_up = select.poll()
        hung_up.register(connection, 0)  # errors are reported in any case
        assert hung_up.poll(60_000)
        assert server.wait_until_idle(60)


def test_a_large_answer_arrives_in_full(start_server):
    server = start_server(routes=[Route("GET", "/large", large, "")])
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = 0
        while part := connection.recv(8 << 20):
            received += len(part)
    assert received > 50_000_000


def test_what_is_not_a_number_is_null(start_server, make_client):
    content = {"a": float("nan"), "b": float("inf"), "c": 1.5}
    ask = make_client(start_server(routes=[Route("GET", "/x", lambda *_: Response(content), "")]))
    assert ask("GET", "/x") == (200, {"a": None, "b": None, "c": 1.5})


def test_a_job_without_viewers_does_not_load_the_server(tmp_path):
    """Measured: the server's modules take 100 ms of a processor and more, which a small job has not."""
    code = """
import json, sys, threading, time
from penstock.options.configuration import Configuration
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.rest import publish, processes
class Controller:
    def get_job_id(self): return JobID("a" * 32)
    def get_job_status(self): return JobStatus.RUNNING
publish.publish(Controller(), Configuration())
while not processes.read_all(): pass
loaded = [m for m in ("uvicorn", "starlette", "anyio", "penstock.rest.resources", "http.server", "email") if m in sys.modules]
print(json.dumps(loaded))
"""
    environment = {**os.environ, "PENSTOCK_HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert json.loads(ran.stdout) == []
