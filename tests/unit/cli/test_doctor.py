"""`penstock doctor` against a real server in this process."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.cli import main
from penstock.jobmanager.diagnosis.findings import Diagnosis
from penstock.rest import processes
from penstock.rest.routing.routes import Services
from penstock.rest.server.rest_server import RestServer
from penstock.rest.services.diagnoses import FRESH_MS, Diagnoses
from tests.builders.rest_fakes import NOW, TOKEN, FakeController

JOB = "ab" + "1" * 30


@pytest.fixture
def controller(tmp_path, monkeypatch):
    """A job that was started again four times, and whose process can be found."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")
    controller = FakeController("clicks", JOB)
    controller.restarts = 4
    view = controller.view
    controller.view = lambda: replace(view(), restarts=controller.restarts)
    services = Services(now_ms=lambda: NOW)
    services.jobs.publish(controller)
    server = RestServer(services, TOKEN)
    server.start()
    processes.write(processes.describe_this_process(server.client_address, TOKEN, "job.py"))
    yield controller
    server.close()


def test_findings_are_shown_with_a_fix(controller, capsys):
    assert main(["doctor", "clicks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"job 'clicks' ({JOB})"
    assert lines[2] == "CRITICAL  the job was restarted 4 times"
    assert lines[4].startswith("          -> see the exceptions of the job")
    assert any(line.startswith("not checked: ") for line in lines)


def test_json_has_all_of_it(controller, capsys):
    assert main(["doctor", JOB[:8], "--json"]) == 0
    diagnosis = json.loads(capsys.readouterr().out)
    assert diagnosis["health"] == "critical"
    assert diagnosis["headline"] == "the job was restarted 4 times"
    assert diagnosis["findings"][0]["figures"] == {"restarts": 4}


@pytest.mark.parametrize(
    ("restarts", "severity", "code"),
    [(4, "critical", 1), (4, "info", 1), (1, "warning", 0), (1, "info", 1), (0, "info", 0)],
    ids=str,
)
def test_the_exit_code_tells_what_is_asked_for(controller, restarts, severity, code):
    controller.restarts = restarts
    assert main(["doctor", "clicks", "--fail-on", severity]) == code


def test_a_healthy_job_is_reported_as_such(controller, capsys):
    controller.restarts = 0
    assert main(["doctor", "clicks"]) == 0
    assert "no problems found" in capsys.readouterr().out


def test_a_job_that_is_not_there_is_an_error(controller, capsys):
    assert main(["doctor", "nothing"]) == 1
    assert "unknown job 'nothing'" in capsys.readouterr().err


def test_a_diagnosis_is_made_once_for_all_who_ask_within_some_seconds():
    made = []
    controller = FakeController("clicks", JOB)
    controller.diagnose = lambda now_ms: (made.append(now_ms), Diagnosis(()))[1]
    kept = Diagnoses()
    for now in (NOW, NOW + 10, NOW + FRESH_MS):
        assert kept.get(controller, now).timestamp == NOW
    assert kept.get(controller, NOW + FRESH_MS + 1).health == "ok"
    assert made == [NOW, NOW + FRESH_MS + 1]
