"""`web.*` options, and options that a client sends with a program."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.rest.server.endpoint import Binding, Endpoint
from penstock.rest.services.web_settings import WebSettings

FORM = {"Content-Type": "multipart/form-data; boundary=B"}
BODY = b'--B\r\nContent-Disposition: form-data; name="jarfile"; filename="job.py"\r\n\r\nx = 1\r\n--B--\r\n'
OPTIONS = {
    "web.cancel.enable": "false",
    "web.submit.enable": "false",
    "web.rescale.enable": "false",
    "web.refresh-interval": "7 s",
}


@pytest.fixture
def session(services):
    services.session = object()  # programs are looked at before a session is asked


def test_an_endpoint_has_what_the_options_say():
    endpoint = Endpoint()
    assert endpoint.services.web == WebSettings(True, True, True, 3000)
    endpoint.ensure_started(Binding.from_configuration(Configuration.from_dict(OPTIONS)))
    try:
        assert endpoint.services.web == WebSettings(False, False, False, 7000)
    finally:
        endpoint.close(0.0)


def test_pages_learn_what_they_may_do(services, session, ask):
    _, config = ask("GET", "/config")
    given = {key: config["features"][key] for key in ("web-submit", "web-cancel", "web-rescale")}
    assert given == {"web-submit": True, "web-cancel": True, "web-rescale": True}
    services.web = WebSettings(submit=False, cancel=False, rescale=False, refresh_ms=7000)
    _, config = ask("GET", "/config")
    given = {key: config["features"][key] for key in ("web-submit", "web-cancel", "web-rescale")}
    assert given == {"web-submit": False, "web-cancel": False, "web-rescale": False}
    assert config["refresh-interval"] == 7000


def test_a_session_takes_no_programs_if_submitting_is_off(services, session, ask):
    status, answer = ask("POST", "/jars/upload", BODY, **FORM)
    assert status == 200
    program = answer["filename"].rpartition("/")[2]
    services.web = WebSettings(submit=False)
    for method, path in (("POST", "/jars/upload"), ("POST", f"/jars/{program}/run")):
        status, answer = ask(method, path, BODY if path.endswith("upload") else {}, **FORM)
        assert status == 404
        assert "web.submit.enable is false" in " ".join(answer["errors"])
    assert ask("GET", "/jars")[1]["files"] == []


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("taskmanager.memory.proces.size", "1 gb", "did you mean taskmanager.memory.process.size"),
        ("taskmanager.memory.process.size", "banana", "a memory size"),
        ("security.kerberos.login.keytab", "/x", "spark.kerberos.keytab"),
    ],
)
def test_options_of_a_program_are_checked_before_it_starts(session, ask, key, value, says):
    _, answer = ask("POST", "/jars/upload", BODY, **FORM)
    program = answer["filename"].rpartition("/")[2]
    status, answer = ask("POST", f"/jars/{program}/run", {"flinkConfiguration": {key: value}})
    assert status == 400
    assert f"option '{key}'" in answer["errors"][0]
    assert says in " ".join(answer["errors"])
