"""`penstock logs` against a real server in this process."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading

import pytest

from penstock.cli import main
from penstock.common.job_status import JobStatus
from penstock.logs.lines import LogLine
from penstock.logs.log_buffer import log_book
from penstock.logs.scope import LogScope
from penstock.rest import processes
from penstock.rest.routing.routes import Services
from penstock.rest.server.rest_server import RestServer
from tests.builders.rest_fakes import TOKEN, FakeController
from tests.builders.waiting import wait_until

_numbers = iter(range(10**6))


class Job:
    """A job that logs what a test says."""

    def __init__(self):
        self.id = f"{next(_numbers):032x}"
        self.controller = FakeController("clicks", self.id)

    def log(self, message, level="INFO", vertex="Map", subtask=0):
        scope = LogScope(self.id, "clicks", "v2", vertex, subtask, 2, 0)
        log_book().add(LogLine(1_700_000_000_000, level, "of.the.user", message, scope))


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    job, services = Job(), Services()
    services.jobs.publish(job.controller)
    server = RestServer(services, TOKEN)
    server.start()
    processes.write(processes.describe_this_process(server.client_address, TOKEN, "job.py"))
    yield job
    server.close()


def messages(out):
    return [line.rpartition(" - ")[2] for line in out.splitlines()]


def test_the_lines_of_a_job_say_what_they_are_about(job, capsys):
    job.log("one click", subtask=1)
    assert main(["logs", "clicks"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(f"[job {job.id}, vertex v2 Map, subtask 2/2, attempt 0] - one click")


def test_only_lines_that_are_wanted_are_shown(job, capsys):
    job.log("early")
    job.log("of the sink", vertex="Sink")
    job.log("bad", "ERROR", subtask=1)
    for arguments, expected in (
        (["--level", "warning"], ["bad"]),
        (["--vertex", "Sink"], ["of the sink"]),
        (["--subtask", "1"], ["bad"]),
        (["-n", "2"], ["of the sink", "bad"]),
        (["--taskmanager", "jobmanager"], []),
    ):
        assert main(["logs", job.id, *arguments]) == 0
        assert messages(capsys.readouterr().out) == expected


def test_json_is_one_object_a_line(job, capsys):
    job.log("one")
    job.log("two\nlines")
    assert main(["logs", "clicks", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["message"] for line in lines] == ["one", "two\nlines"]
    assert {line["job_id"] for line in lines} == {job.id}


def test_new_lines_are_followed_until_the_job_has_ended(job, capsys, monkeypatch):
    job.log("before")
    looks, entries = itertools.count(1), log_book().entries
    looked = [0]

    def counted(*arguments, **options):
        looked[0] = next(looks)
        return entries(*arguments, **options)

    monkeypatch.setattr(log_book(), "entries", counted)

    def go_on():
        for number in range(5):
            before = looked[0]
            wait_until(lambda before=before: looked[0] > before)
            job.log(f"line {number}")
        job.controller.status = JobStatus.FINISHED
        job.log("the last")

    thread = threading.Thread(target=go_on)
    thread.start()
    assert main(["logs", "clicks", "-f"]) == 0
    thread.join()
    expected = ["before", *(f"line {number}" for number in range(5)), "the last"]
    assert messages(capsys.readouterr().out) == expected


def test_who_has_seen_enough_may_close_the_pipe(job):
    for number in range(5000):
        job.log(f"line {number}")
    command = [sys.executable, "-m", "penstock", "logs", "clicks", "-n", "5000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().endswith("line 0\n")
    process.stdout.close()
    assert (process.stderr.read(), process.wait(60)) == ("", 0)


def test_a_number_of_lines_that_is_none_is_refused(job, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["logs", "clicks", "-n", "many"])
    assert refused.value.code == 2
    assert "'many' is not a number" in capsys.readouterr().err
