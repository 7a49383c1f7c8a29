"""How to run uploaded programs: the options that requests become, and requests that are refused."""

from __future__ import annotations

import pytest

from penstock.rest.resources import programs
from penstock.rest.routing.routes import Services
from tests.unit.rest.resources.test_session import FakeSession


@pytest.fixture
def services():
    return Services(session=FakeSession())


@pytest.fixture
def run(ask, services, monkeypatch):
    """Send a request to run a program; return its status, its content, and the options and arguments that it became."""
    program = services.programs.add("job.py", b"pass")
    started = []
    monkeypatch.setattr(
        programs, "run_program", lambda _, *given: started.append(given) or "b" * 32
    )

    def send(body):
        status, content = ask("POST", f"/jars/{program.id}/run", body)
        return status, content, *started

    return send


@pytest.mark.parametrize(
    ("body", "options", "arguments"),
    [
        ({}, [], []),
        ({"parallelism": None, "programArgs": None, "savepointPath": None}, [], []),
        ({"entryClass": "Main", "parallelism": 3}, ["-p", "3"], []),
        ({"programArgs": "--text 'a b'"}, [], ["--text", "a b"]),
        ({"programArgs": "ignored", "programArgsList": ["a b"]}, [], ["a b"]),
        (
            {"savepointPath": "/s", "allowNonRestoredState": True, "claimMode": "CLAIM"},
            ["--from=/s", "-n", "--claim-mode=CLAIM"],
            [],
        ),
        (
            {"flinkConfiguration": {"execution.checkpointing.interval": "5 s"}},
            ["-D", "execution.checkpointing.interval=5 s"],
            [],
        ),
    ],
)
def test_a_request_becomes_options_and_arguments(run, body, options, arguments):
    assert run(body) == (200, {"jobid": "b" * 32}, (options, arguments))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"parallelism": 0}, "field 'parallelism' must be a positive integer"),
        ({"parallelism": True}, "field 'parallelism' must be a positive integer"),
        ({"claimMode": "LEGACY"}, "field 'claimMode' must be CLAIM or NO_CLAIM"),
        ({"programArgsList": "a"}, "field 'programArgsList' must be a list"),
        ({"programArgsList": ["a", 1]}, "field 'programArgsList.1' must be a string"),
        ({"programArgs": "'"}, "field 'programArgs' must be arguments in shell syntax"),
        ({"programArgs": "\0"}, "field 'programArgs' must be a string without NUL characters"),
        ({"flinkConfiguration": {"a": 1}}, "field 'flinkConfiguration.a' must be a string"),
        ({"jobId": "a"}, "unknown field 'jobId'"),
    ],
)
def test_a_wrong_request_runs_nothing(run, body, message):
    status, content, *started = run(body)
    assert (status, started) == (400, [])
    assert content["errors"][0].startswith(message)
