"""Sending jobs to a session over REST, and ending it."""

from __future__ import annotations

import pytest

from penstock.errors import ArgumentError, JobRequestError
from penstock.jobmanager.dispatcher.submission import Submission
from penstock.jobmanager.job_view import Lazy
from penstock.jobmanager.metrics.progress_lines import ProgressLines
from penstock.rest.routing.routes import Services
from tests.builders.rest_fakes import NOW

JOB = Submission("a" * 32, "a", b"").to_json()


class FakeSession:
    """Remembers what it was asked for."""

    def __init__(self):
        self.submitted = []
        self.ended = []
        self.refusal = None

    def submit(self, submission):
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append(submission)
        return "b" * 32

    def ignored_options(self, submission):
        return list(submission.configuration)

    def describe(self):
        return {"phase": "leading"}

    def shut_down(self, *, keeps_jobs):
        self.ended.append(keeps_jobs)


@pytest.fixture
def session():
    return FakeSession()


@pytest.fixture
def services(session):
    return Services(now_ms=lambda: NOW, session=session)


def test_a_job_is_handed_over_as_it_came(ask, session):
    job = Submission("a" * 32, "a", b"\0", {"web.submit.enable": "true"}, {"0/lib.py": b"x"}, 5)
    answer = {"jobid": "b" * 32, "ignored-options": ["web.submit.enable"]}
    assert ask("POST", "/v1/penstock/jobs", job.to_json()) == (202, answer)
    assert session.submitted == [job]


def test_jobs_are_taken_and_sessions_ended_only_with_the_token(ask, session):
    assert ask("POST", "/penstock/jobs", {"name": "a"}, token=None)[0] == 401
    assert ask("DELETE", "/cluster", token="wrong")[0] == 401
    assert ask("GET", "/penstock/session", token=None) == (200, {"phase": "leading"})
    assert session.submitted == session.ended == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "field 'name' must be a string that is not empty"),
        ({"program": 3}, "field 'program' must be a string in base64"),
        ({"job_id": "x"}, "'x' is not a job id"),
        ({"user": "me"}, "unknown field 'user'"),
    ],
)
def test_an_invalid_submission_is_refused(ask, session, changes, message):
    status, content = ask("POST", "/penstock/jobs", {**JOB, **changes})
    assert (status, content["errors"][0]) == (400, message)
    assert session.submitted == []


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(ArgumentError("it cannot be read"), 400), (JobRequestError("it is already running"), 409)],
)
def test_a_rejection_is_returned_with_its_reason(ask, session, refusal, status):
    session.refusal = refusal
    answered, content = ask("POST", "/penstock/jobs", JOB)
    assert (answered, content["errors"]) == (status, [refusal.message])


@pytest.mark.parametrize(
    ("query", "keeps"), [("", False), ("?jobs=cancel", False), ("?jobs=keep", True)]
)
def test_a_session_is_ended_with_its_jobs_or_without(ask, session, query, keeps):
    assert ask("DELETE", f"/cluster{query}")[0] == 202
    assert session.ended == [keeps]


def test_another_way_to_end_is_refused(ask, session):
    assert ask("DELETE", "/cluster?jobs=sell")[0] == 400
    assert session.ended == []


def test_the_result_of_a_job_is_returned(ask, controller):
    controller.more = {"error": Lazy.of("it broke"), "totals": Lazy.of({"Map.seen": 3})}
    status, content = ask("GET", f"/penstock/jobs/{controller.get_job_id()}/result")
    assert status == 200
    assert content["status"] == "RUNNING"
    assert "error" not in content


def test_the_result_has_the_lines_that_the_client_does_not_know(ask, controller):
    controller.more = {"progress": Lazy.of(ProgressLines(3, ("three", "four", "five")))}
    path = f"/penstock/jobs/{controller.get_job_id()}/result"

    def lines(query):
        content = ask("GET", path + query)[1]
        return content["first_line"], content["lines"]

    run = ask("GET", path)[1]["start_ms"]
    assert lines("") == (3, ["three", "four", "five"])
    assert lines(f"?line=4&start_ms={run}") == (4, ["four", "five"])
    assert lines(f"?line=6&start_ms={run}") == (6, [])
    assert lines(f"?line=4&start_ms={run - 1}") == (3, ["three", "four", "five"])
    assert ask("GET", f"{path}?line=-1")[0] == 400


def test_a_program_of_its_own_takes_no_jobs(ask, services):
    services.session = None
    status, content = ask("POST", "/penstock/jobs", {})
    assert status == 404
    assert "not a session" in content["errors"][0]
