"""The lines of a job in a session: what the session keeps, and what its clients print."""

from __future__ import annotations

from penstock.client.remote_progress import RemoteProgress
from penstock.jobmanager.metrics.progress_lines import ProgressRecorder


def answer(recorder, query, start_ms=5):
    """What a session answers to a query."""
    asked = dict(part.split("=") for part in query.split("&"))
    known = int(asked["line"]) if int(asked["start_ms"]) == start_ms else 0
    lines = recorder.lines().since(known)
    return {"lines": list(lines.lines), "first_line": lines.first, "start_ms": start_ms}


def test_each_line_is_printed_once():
    said = []
    client, recorder = RemoteProgress(said.append), ProgressRecorder(echo=lambda _: None)
    recorder.say("starts")
    first = answer(recorder, client.query())
    recorder.say("ends")
    second = answer(recorder, client.query())
    client.show(second)  # of another thread, which asked later and is answered first
    client.show(first)
    client.show(answer(recorder, client.query()))
    assert said == ["starts", "ends"]


def test_lines_that_are_not_kept_are_counted():
    said = []
    client, recorder = RemoteProgress(said.append), ProgressRecorder(2, echo=lambda _: None)
    for number in range(5):
        recorder.say(f"line {number}")
    client.show(answer(recorder, client.query()))
    assert said == ["... 3 lines about the progress are not kept", "line 3", "line 4"]


def test_a_job_that_another_jobmanager_resumes_begins_again():
    said = []
    client = RemoteProgress(said.append)
    old, new = (ProgressRecorder(echo=lambda _: None) for _ in range(2))
    for line in ("starts", "checkpoint 1", "checkpoint 2"):
        old.say(line)
    client.show(answer(old, client.query(), start_ms=5))
    new.say("starts again")
    client.show(answer(new, client.query(), start_ms=9))
    new.say("ends")
    client.show(answer(new, client.query(), start_ms=9))
    assert said[3:] == ["starts again", "ends"]


def test_lines_are_in_the_log_of_the_session_too(capsys):
    ProgressRecorder().say("starts")
    assert capsys.readouterr().err == "starts\n"
