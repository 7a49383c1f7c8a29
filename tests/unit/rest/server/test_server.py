"""Which clients may send which requests, and invalid requests."""

from __future__ import annotations

import http.client
import socket
import threading

import pytest

from penstock.rest.routing.routes import MAX_BODY_BYTES, Services
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.rest_server import RestServer
from tests.builders.rest_fakes import TOKEN

JOB = f"/v1/jobs/{'a' * 32}"


@pytest.mark.parametrize(
    ("method", "token", "status"),
    [
        ("GET", None, 200),
        ("GET", TOKEN, 200),
        ("GET", "wrong", 401),
        ("PATCH", None, 401),
        ("PATCH", "wrong", 401),
        ("PATCH", "", 401),
        ("PATCH", TOKEN, 202),
    ],
)
def test_on_loopback_only_changes_need_the_token(ask, controller, method, token, status):
    got, content = ask(method, JOB, token=token)
    assert got == status
    assert controller.calls == ([("cancel",)] if status == 202 else [])
    if status == 401:
        assert "token" in content["errors"][0]
        assert ask.headers["WWW-Authenticate"] == "Bearer"


def test_another_scheme_than_bearer_is_not_a_token(ask, controller):
    assert ask("PATCH", JOB, token=None, Authorization=f"Basic {TOKEN}")[0] == 401


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("wrong", 401), (TOKEN, 200)])
def test_elsewhere_reads_need_the_token_too(start_server, make_client, controller, token, status):
    ask = make_client(start_server(bind_address="0.0.0.0"))
    assert ask("GET", JOB, token=token)[0] == status
    assert ask.server.client_address.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("host", "token", "status"),
    [
        ("localhost:1", None, 200),
        ("127.0.0.1", None, 200),
        ("[::1]:80", None, 200),
        ("proxy.example:8081", None, 200),
        ("evil.example:1", None, 403),
        ("127.evil.example:1", None, 403),
        ("evil.example:1", TOKEN, 200),
    ],
)
def test_a_name_that_a_web_page_made_point_here_is_refused(
    start_server, make_client, controller, host, token, status
):
    ask = make_client(start_server(address="proxy.example"))
    assert ask("GET", JOB, token=token, Host=host)[0] == status


def test_a_body_that_is_too_large_is_refused_unread(ask, controller):
    headers = {"Content-Length": str(MAX_BODY_BYTES + 1)}
    assert ask("POST", f"{JOB}/stop", b"", **headers)[0] == 413
    assert ask.headers["Connection"] == "close"


def test_the_body_of_who_may_not_ask_is_not_waited_for(start_server, controller):
    server = start_server()
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(
            f"POST {JOB}/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n".encode()
        )
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in answer.lower()
    assert controller.calls == []


UNFINISHED = [
    pytest.param(b"", b"", id="nothing"),
    pytest.param(b"GET /v1/jo", b"", id="a beginning"),
    pytest.param(b"GET /v1/jobs HTTP/1.1\r\nAccept: a", b"", id="headers"),
    pytest.param(
        f"POST {JOB}/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
        + b"Content-Length: 10\r\n\r\n{",
        b"HTTP/1.1 408 Request Timeout",
        id="a body",
    ),
]


@pytest.mark.parametrize(("sent", "answer"), UNFINISHED)
def test_a_request_that_does_not_arrive_in_time_is_given_up(start_server, controller, sent, answer):
    server = start_server(RequestLimits(arrival_s=0.1), begin=False)
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(sent)
        server.start()  # only now its time begins, so all that was sent is there in time
        assert connection.makefile("rb").read().partition(b"\r\n")[0] == answer
    assert controller.calls == []


def drip(connection):
    pause = threading.Event()
    while True:
        connection.sendall(b"x")
        pause.wait(0.01)


def test_a_request_that_drips_is_given_up_too(start_server):
    server = start_server(RequestLimits(arrival_s=0.1))
    with (
        socket.create_connection(server.server_address[:2], timeout=60) as connection,
        pytest.raises(OSError, match=r"Broken pipe|reset"),
    ):
        drip(connection)


def test_who_comes_when_all_connections_are_taken_is_sent_away(
    start_server, make_client, controller
):
    server = start_server(RequestLimits(connections=3))
    slow = [socket.create_connection(server.server_address[:2], timeout=60) for _ in range(3)]
    ask = make_client(server)
    assert ask("GET", JOB) == (503, {"errors": ["too many connections"]})
    assert ask.headers["Retry-After"] == "1"
    for connection in slow:
        connection.close()
    while ask("GET", JOB)[0] == 503:
        """The server is about to see that they have left."""
    assert ask("GET", JOB)[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": "ten"}, 400),
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": "9" * 100}, 400),
        ({"Transfer-Encoding": "deflate"}, 400),
    ],
    ids=str,
)
def test_a_body_of_unknown_length_is_refused(ask, controller, headers, status):
    assert ask("POST", f"{JOB}/stop", b"", **headers)[0] == status
    assert controller.calls == []


def test_one_connection_serves_many_requests(start_server, controller):
    server = start_server()
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=60)
    connection.connect()
    own = connection.sock
    for _ in range(2):
        connection.request("GET", f"{JOB}/status")
        assert connection.getresponse().read() == b'{"status":"RUNNING"}'
        assert connection.sock is own
    connection.close()


def test_what_is_not_http_is_answered_in_json(start_server):
    server = start_server()
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(b"good morning to you all\r\n\r\n")
        answer = connection.makefile("rb").read()
    assert b'{"errors": [' in answer


def test_head_has_no_content(ask, controller):
    assert ask("HEAD", JOB) == (200, None)
    assert int(ask.headers["Content-Length"]) > 100


def test_the_first_free_port_of_several_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            RestServer(Services(), TOKEN, ports=(port,))
        server = RestServer(Services(), TOKEN, ports=(port, 0))
        assert server.server_address[1] not in {0, port}
        server.close()


def test_the_end_of_a_process_can_wait_for_requests_under_way(
    start_server, make_client, controller
):
    server = start_server()
    entered, may_answer = threading.Event(), threading.Event()
    view = controller.view

    def view_slowly():
        entered.set()
        assert may_answer.wait(60)
        return view()

    controller.view = view_slowly
    assert server.wait_until_idle(60)
    client = threading.Thread(target=make_client(server), args=("GET", JOB))
    client.start()
    assert entered.wait(60)
    assert not server.wait_until_idle(0.01)
    may_answer.set()
    assert server.wait_until_idle(60)
    client.join()


def test_ipv6_works(start_server, make_client, controller):
    try:
        server = start_server(bind_address="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert server.client_address == f"[::1]:{server.server_address[1]}"
    assert make_client(server)("GET", JOB, token=None)[0] == 200
