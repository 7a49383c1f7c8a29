"""`penstock page`: the address of a job on the web page."""

from __future__ import annotations

import json
import webbrowser
from urllib.request import urlopen

import pytest

from penstock.cli import main
from penstock.rest import processes
from penstock.rest.client.rest_client import RestClient
from penstock.rest.routing.routes import Services
from penstock.rest.server.rest_server import RestServer
from tests.builders.rest_fakes import FakeController

JOB = "ab" + "1" * 30


@pytest.fixture
def address(tmp_path, monkeypatch):
    """Where a job is, whose process can be found."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    services = Services()
    services.jobs.publish(FakeController("clicks", JOB))
    server = RestServer(services, "a/b")
    server.start()
    processes.write(processes.describe_this_process(server.client_address, "a/b", "job.py"))
    yield server.client_address
    server.close()


def test_the_address_leads_to_the_job_and_logs_in(address, capsys):
    assert main(["page", "clicks"]) == 0
    reported = capsys.readouterr().out.strip()
    assert reported == f"http://{address}/#token=a%2Fb&/jobs/{JOB}"
    with urlopen(reported) as page:
        assert b"<title>Penstock</title>" in page.read()


def test_it_is_opened_if_that_is_asked_for(address, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert main(["page", JOB[:6], "--json", "--open"]) == 0
    assert opened == [json.loads(capsys.readouterr().out)["address"]]


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ("https://host:1", "https://host:1/#/x"),
        ("[::1]:8081", "http://[::1]:8081/#/x"),
        ("host:1", "http://host:1/#/x"),
    ],
)
def test_an_address_is_one_that_browsers_take(given, reported):
    assert RestClient(given).page_address("/x") == reported
