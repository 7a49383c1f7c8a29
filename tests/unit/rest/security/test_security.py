"""TLS, client certificates, tokens in files, roles, and the audit: against a real server."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import sys
from http import HTTPStatus

import pytest

from penstock.common.job_status import JobStatus
from penstock.errors import ConfigurationError, JobRequestError
from penstock.options.configuration import Configuration
from penstock.rest import processes, publish
from penstock.rest.client.rest_client import RestClient
from penstock.rest.messages import HttpError
from penstock.rest.resources import ROUTES
from penstock.rest.routing.routes import Role
from penstock.rest.security.access import SecuritySettings
from penstock.rest.server.limits import RequestLimits
from tests.builders.rest_certificates import Authority
from tests.builders.rest_fakes import TOKEN

ID = "a" * 32
JOB = f"/jobs/{ID}"
SSL = "security.ssl.rest."


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch):
    for name in ("PENSTOCK_TLS_CA", "PENSTOCK_TLS_CERTIFICATE", "PENSTOCK_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def settings(options):
    return SecuritySettings.from_configuration(Configuration.from_dict(options))


@pytest.fixture
def start_with(start_server):
    def start(options, **more):
        return start_server(security=settings(options), **more)

    return start


def url(server):
    return f"https://{server.client_address}"


def mutual(authority, **more):
    return {
        f"{SSL}enabled": "true",
        f"{SSL}authentication-enabled": "true",
        f"{SSL}keystore": authority.sign("server"),
        f"{SSL}truststore": authority.path,
        **more,
    }


def test_a_server_speaks_tls_to_who_trusts_its_certificate(start_with, controller, authority):
    server = start_with({f"{SSL}enabled": "true", f"{SSL}keystore": authority.sign("server")})
    trusting = RestClient(url(server), trusted=authority.path)
    assert trusting.get("/jobs")["jobs"][0]["id"] == ID
    with pytest.raises(JobRequestError, match=r"TLS connection to .* failed") as raised:
        RestClient(url(server)).get("/jobs")
    assert "PENSTOCK_TLS_CA" in raised.value.hint


def test_requests_without_tls_get_no_answer_where_it_is_on(start_with, controller, authority):
    server = start_with({f"{SSL}enabled": "true", f"{SSL}keystore": authority.sign("server")})
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"RUNNING" not in connection.makefile("rb").read()


def test_a_key_may_have_a_password(start_with, controller, authority):
    options = {f"{SSL}enabled": "true", f"{SSL}keystore": authority.sign("server", "a secret")}
    server = start_with({**options, f"{SSL}key-password": "a secret"})
    assert RestClient(url(server), trusted=authority.path).get("/jobs")["jobs"]
    with pytest.raises(ConfigurationError, match="cannot read a certificate"):
        start_with(options)


def test_a_client_without_a_certificate_is_not_let_in(start_with, controller, authority):
    server = start_with(mutual(authority))
    with pytest.raises(JobRequestError) as raised:
        RestClient(url(server), TOKEN, trusted=authority.path).get("/jobs")
    assert "PENSTOCK_TLS_CERTIFICATE" in raised.value.hint


def test_a_client_that_does_not_speak_tls_is_told_to(start_with, controller, authority):
    server = start_with({f"{SSL}enabled": "true", f"{SSL}keystore": authority.sign("server")})
    with pytest.raises(JobRequestError, match="closed the connection without an answer") as raised:
        RestClient(url(server).removeprefix("https://"), TOKEN).get("/jobs")
    assert "write https:// before its address" in raised.value.hint


@pytest.mark.parametrize("where", ["loopback", "elsewhere"])
def test_mutual_tls_requires_a_certificate_or_a_token(authority, where):
    """The handshake refuses such clients already; a proxy that ends TLS in front of the server must not change that."""
    access = settings(mutual(authority)).access(
        TOKEN, open_to_readers=where == "loopback", names={"localhost"}
    )
    with pytest.raises(HttpError) as refused:
        access.admit({"host": "localhost"}, None, Role.READ)
    assert refused.value.status == HTTPStatus.UNAUTHORIZED
    assert access.admit({"host": "localhost"}, "alice", Role.READ).name == "certificate 'alice'"
    assert access.admit({"authorization": f"Bearer {TOKEN}"}, None, Role.READ).role is Role.WRITE


def test_with_tls_that_asks_for_no_certificate_this_machine_reads_as_without_tls(authority):
    options = {f"{SSL}enabled": "true", f"{SSL}keystore": authority.sign("server")}
    access = settings(options).access(TOKEN, open_to_readers=True, names={"localhost"})
    assert access.admit({"host": "localhost"}, None, Role.READ).name == "anonymous"


def test_a_client_whose_certificate_another_has_signed_is_not_let_in(
    start_with, controller, authority, tmp_path, monkeypatch
):
    server = start_with(mutual(authority))
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("PENSTOCK_TLS_CERTIFICATE", Authority(tmp_path / "other").sign("alice"))
    with pytest.raises(JobRequestError):
        RestClient(url(server), trusted=authority.path).get("/jobs")


@pytest.mark.parametrize(
    ("name", "writers", "may_write"),
    [
        ("alice", None, True),
        ("alice", "alice, bob", True),
        ("carol", "alice,bob", False),
        ("alice", "", False),
        ("alice", " , ", False),
    ],
    ids=["all may write", "named", "not named", "empty list", "list without names"],
)
def test_a_certificate_is_as_good_as_a_token(
    start_with, controller, authority, monkeypatch, name, writers, may_write
):
    more = {} if writers is None else {"penstock.rest.writers": writers}
    server = start_with(mutual(authority, **more), bind_address="127.0.0.1")
    monkeypatch.setenv("PENSTOCK_TLS_CERTIFICATE", authority.sign(name))
    client = RestClient(url(server), trusted=authority.path)
    assert client.get(f"{JOB}/status") == {"status": "RUNNING"}
    if may_write:
        assert client.request("PATCH", JOB) == {}
    else:
        with pytest.raises(JobRequestError, match=f"certificate '{name}' may only read"):
            client.request("PATCH", JOB)
    assert controller.calls == ([("cancel",)] if may_write else [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({f"{SSL}enabled": "true"}, "is not set"),
        ({f"{SSL}authentication-enabled": "true"}, "TLS is disabled"),
        (
            {
                f"{SSL}enabled": "true",
                f"{SSL}keystore": "k",
                f"{SSL}authentication-enabled": "true",
            },
            "is not set",
        ),
    ],
    ids=["no certificate", "tls off", "no authorities"],
)
def test_settings_that_would_be_no_protection_are_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        settings(options)


def test_what_is_not_a_certificate_is_refused_when_the_server_starts(start_with, tmp_path):
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing")
    for path in (wrong, tmp_path / "missing.pem"):
        with pytest.raises(ConfigurationError, match="cannot read a certificate"):
            start_with({f"{SSL}enabled": "true", f"{SSL}keystore": str(path)})


def test_a_wrong_certificate_never_leads_to_a_server_without_tls(
    publisher, make_controller, caplog
):
    options = {f"{SSL}enabled": "true", f"{SSL}keystore": "missing.pem"}
    publish.publish(make_controller(), Configuration.from_dict(options))
    publisher.settle()
    assert publisher.endpoint.server is None
    assert processes.read_all() == []
    assert "missing.pem" in caplog.text


def test_the_command_line_reaches_a_process_that_speaks_tls(
    publisher, make_controller, authority, capsys
):
    from penstock.cli.main import main

    options = {f"{SSL}enabled": "true", f"{SSL}keystore": authority.sign("server")}
    controller = make_controller()
    publish.publish(controller, Configuration.from_dict(options))
    publisher.settle()
    (record,) = processes.read_all()
    assert record.address.startswith("https://127.0.0.1:")
    assert publisher.endpoint.page_address().startswith(f"{record.address}/#token=")
    for command in (["list"], ["list", "-m", record.address]):
        assert main(command) == 0
        assert "clicks" in capsys.readouterr().out
    assert main(["cancel", str(controller.get_job_id())]) == 0


def test_a_token_file_is_made_for_its_owner_alone_and_kept(start_with, make_client, tmp_path):
    path = tmp_path / "token"
    options = {"penstock.rest.token-file": str(path)}
    first = start_with(options).access.write_token
    assert path.read_text() == f"{first}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert start_with(options).access.write_token == first


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("a-good-token-of-many-letters", 0o644, "is readable by other users"),
        ("a-good-token-of-many-letters", 0o660, "is readable by other users"),
        ("short", 0o600, "cannot read a token"),
        ("", 0o600, "cannot read a token"),
        ("with spaces in it, which no header has", 0o600, "cannot read a token"),
    ],
)
def test_a_token_file_that_protects_nothing_is_refused(
    start_with, tmp_path, content, mode, message
):
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=message):
        start_with({"penstock.rest.token-file": str(path)})


def test_a_token_file_that_cannot_be_made_is_refused(start_with, tmp_path):
    with pytest.raises(ConfigurationError, match="cannot read a token"):
        start_with({"penstock.rest.token-file": str(tmp_path / "missing" / "token")})


@pytest.fixture
def two_roles(start_with, make_client, tmp_path, controller):
    files = {name: str(tmp_path / name) for name in ("write", "read")}
    options = {
        "penstock.rest.token-file": files["write"],
        "penstock.rest.read-token-file": files["read"],
    }
    server = start_with(options, bind_address="0.0.0.0")
    ask = make_client(server)
    ask.tokens = {"write": server.access.write_token, "read": server.access.read_token}
    return ask


def test_who_may_read_may_not_change_anything(two_roles, controller):
    status, content = two_roles("PATCH", f"/v1{JOB}", token=two_roles.tokens["read"])
    assert (status, content["errors"][0]) == (403, "the read token may only read")
    assert controller.calls == []
    assert two_roles("GET", f"/v1{JOB}", token=two_roles.tokens["read"])[0] == 200
    assert two_roles("PATCH", f"/v1{JOB}", token=two_roles.tokens["write"])[0] == 202


PATHS = {
    f"{route.method} {route.path}": route
    for route in ROUTES
    if route.needs is Role.WRITE or route.method != "GET"
}


@pytest.mark.parametrize("name", PATHS)
def test_every_route_that_changes_something_or_opens_pickles_needs_the_write_role(
    two_roles, controller, name
):
    route = PATHS[name]
    assert route.needs is Role.WRITE
    path = "/".join("x" if part.startswith((":", "*")) else part for part in route.path.split("/"))
    assert two_roles(route.method, path, {}, token=two_roles.tokens["read"])[0] == 403
    assert two_roles(route.method, path, {}, token=None)[0] == 401
    assert controller.calls == []


OPEN = [route.path for route in ROUTES if route.needs is Role.OPEN]


def test_only_the_files_of_the_page_are_for_everybody():
    """And who leads, for probes of a load balancer."""
    assert OPEN == ["/", "/web/*file", "/penstock/leading"]


def test_who_may_not_ask_does_not_learn_which_paths_there_are(two_roles):
    for path in ("/v1/jobs", "/v1/nothing", f"/v1{JOB}/nothing", "/v1/jobs/../jobs"):
        assert two_roles("GET", path, token=None)[0] == 401


def test_there_is_a_line_for_each_request_that_wants_to_change_something(
    start_with, make_client, controller, tmp_path, caplog
):
    path = tmp_path / "audit.jsonl"
    files = {"penstock.rest.read-token-file": str(tmp_path / "read")}
    server = start_with({"penstock.rest.audit-file": str(path), **files})
    ask, reader = make_client(server), server.access.read_token
    with caplog.at_level(logging.INFO, "penstock.audit"):
        ask("GET", f"/v1{JOB}")
        ask("PATCH", f"/v1{JOB}?mode=cancel", token=None)
        ask("PATCH", f"/v1{JOB}?mode=cancel")
        ask("POST", f"/v1{JOB}/savepoints", b"{")
        ask("DELETE", "/v1/nothing")
        ask("PATCH", f"/v1{JOB}?mode=cancel", token=reader)
        ask("GET", f"/v1{JOB}/yarn-cancel", token=reader)
        ask("GET", f"/v1{JOB}/yarn-cancel", token=None)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(each["method"], each["path"], each["status"], each["who"]) for each in entries] == [
        ("PATCH", f"/v1{JOB}", 401, "anonymous"),
        ("PATCH", f"/v1{JOB}", 202, "the write token"),
        ("POST", f"/v1{JOB}/savepoints", 400, "the write token"),
        ("DELETE", "/v1/nothing", 404, "the write token"),
        ("PATCH", f"/v1{JOB}", 403, "the read token"),
        ("GET", f"/v1{JOB}/yarn-cancel", 403, "the read token"),
        ("GET", f"/v1{JOB}/yarn-cancel", 401, "anonymous"),
    ]
    assert entries[1]["query"] == "mode=cancel"
    assert entries[1]["from"] == "127.0.0.1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    reported = [record.getMessage() for record in caplog.records if record.name == "penstock.audit"]
    assert len(reported) == 7
    assert "status=202" in reported[1]
    assert TOKEN not in path.read_text() + caplog.text


def test_an_audit_that_cannot_be_written_is_refused_when_the_server_starts(start_with, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        start_with({"penstock.rest.audit-file": str(tmp_path / "missing" / "audit")})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_the_server_does_not_keep_connections_that_do_not_finish_their_handshake(
    start_server, authority
):
    options = {f"{SSL}enabled": "true", f"{SSL}keystore": authority.sign("server")}
    server = start_server(RequestLimits(arrival_s=0.2), security=settings(options))
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        assert connection.recv(1) == b""


def test_an_ended_job_may_not_be_cancelled_by_who_may_read(two_roles, controller):
    controller.status = JobStatus.FINISHED
    assert two_roles("PATCH", f"/v1{JOB}", token=two_roles.tokens["read"])[0] == 403


def test_the_file_of_a_process_is_for_its_owner_alone(publisher, make_controller):
    publish.publish(make_controller(), Configuration())
    publisher.settle()
    (file,) = processes.directory().iterdir()
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
