"""A session from its start to its end, by commands, with jobs of other processes: nothing is faked but Spark, whose place threads take."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.reach import find_jobs
from penstock.rest.client.rest_client import RestClient
from penstock.rest.client.session_client import sessions
from tests.builders.waiting import wait_until

TIMEOUT_S = 240.0

ENDLESS = """
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, RateLimiterStrategy
import {module}

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda i: i, rate_limiter_strategy=RateLimiterStrategy.per_second(100))
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.map({module}.{function}).map(lambda n: n).print()
env.execute("{name}")
"""
SHORT = """
from penstock.datastream import StreamExecutionEnvironment
import helper

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(helper.mark).print()
result = env.execute("{name}")
print("ended after", result.get_net_runtime() >= 0)
"""


def penstock(*arguments: str, code: int = 0, cwd: Path | None = None) -> str:
    """Run a command to its end and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=cwd,
    )  # fmt: skip
    assert done.returncode == code, f"{done.returncode}: {done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PENSTOCK_HOME", str(home))
        yield home


@pytest.fixture(scope="module")
def session(home):
    started = json.loads(
        penstock(
            "session", "start", "--no-spark", "--json",
            "-D", "taskmanager.numberOfTaskSlots=3", "-D", "penstock.execution.mode=pipelined",
        )
    )  # fmt: skip
    yield started
    if sessions():
        os.kill(started["pid"], signal.SIGKILL)


def program(directory: Path, text: str, helper: str = "", **names: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "helper.py").write_text(helper)
    script = directory / "job.py"
    script.write_text(text.format(**names))
    return script


def log_of(session) -> str:
    return Path(session["log"]).read_text()


@pytest.mark.ci
def test_a_session_is_there_when_its_start_returns(session):
    reported = penstock("session", "status")

    assert session["address"] in reported
    assert "3 of 3 free" in reported
    assert "no jobs" in reported


@pytest.mark.ci
def test_a_job_runs_in_the_session_and_its_client_waits_for_it(session, tmp_path):
    helper = "def mark(n):\n    return f'first {n}'\n"
    script = program(tmp_path, SHORT, helper, name="short")

    said = penstock("run", "--session", "-D", "penstock.progress.checkpoints=true", str(script))
    assert "ended after True" in said
    assert "first 3" in log_of(session)
    place = (
        "starts in the process of the session in pipelined mode (set by penstock.execution.mode)"
    )
    assert place in said
    assert "job 'short': checkpoint 1 completed in" in said
    assert "job 'short' finished after" in said


def test_modules_of_the_same_name_do_not_meet(session, tmp_path):
    for number in ("one", "two"):
        helper = f"TEXT = '{number}'\ndef mark(n):\n    return f'{{TEXT}} has {{n}}'\n"
        penstock("run", "--session", str(program(tmp_path / number, SHORT, helper, name=number)))

    assert "one has 1" in log_of(session)
    assert "two has 1" in log_of(session)


def test_a_job_that_fails_tells_its_client_why(session, tmp_path):
    helper = "def mark(n):\n    raise LookupError('no such thing')\n"
    script = program(tmp_path, SHORT, helper, name="failing")

    reported = penstock("run", "--session", "-D", "restart-strategy.type=none", str(script), code=1)

    assert "LookupError: no such thing" in reported


def test_of_three_jobs_one_fails_for_ever_and_the_others_go_on(session, tmp_path):
    bad = "def mark(n):\n    raise LookupError('again')\n"
    good = "def mark(n):\n    return f'{TEXT} {n}'\n"
    for_ever = ["-D", "restart-strategy.type=fixed-delay", "-D", "restart-strategy.fixed-delay.delay=20ms",
                "-D", "restart-strategy.fixed-delay.attempts=1000000", "-D", "parallelism.default=1"]  # fmt: skip
    for name, helper in (("bad", bad), ("left", good), ("right", good)):
        text = ENDLESS.replace("{module}", "helper").replace("{function}", "mark")
        script = program(tmp_path / name, text, f"TEXT = '{name}'\n{helper}", name=name)
        assert "was sent to" in penstock("run", "--session", "-d", *for_ever, str(script))

    client = RestClient(session["address"], sessions()[0].token)
    jobs = {job.name: job for job in find_jobs() if job.runs}
    assert set(jobs) == {"bad", "left", "right"}
    wait_until(
        lambda: client.get(f"/jobs/{jobs['bad'].id}")["penstock"]["restarts"] > 5, "five restarts"
    )
    for name in ("left", "right"):
        wait_until(lambda name=name: f"{name} 50\n" in log_of(session), f"record 50 of {name}")
    states = {job.name: job.state for job in find_jobs() if job.runs}
    assert states["left"] == states["right"] == "RUNNING"
    for name in ("left", "right"):
        assert client.get(f"/jobs/{jobs[name].id}")["penstock"]["restarts"] == 0

    status = json.loads(penstock("session", "status", "--json"))
    assert status["session"]["slots"]["free"] == 0
    assert sorted(status["session"]["slots"]["held"].values()) == [1, 1, 1]

    script = program(tmp_path / "fourth", SHORT, "mark = str", name="fourth")
    reported = penstock("run", "--session", "-D", "slot.request.timeout=200ms", str(script), code=1)
    assert "needs 1 slot to run in pipelined mode, but only 0 of Spark's 3 are free" in reported
    reported = penstock("run", "--session", "-p", "4", str(script), code=1)
    assert "needs 4 slots to run in pipelined mode, but Spark has 3" in reported

    waiting = subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", "--session", str(script)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(
        lambda: client.get("/penstock/session")["slots"]["waiting"] == 1, "the fourth job waits"
    )
    penstock("cancel", "bad")
    assert "ended after True" in waiting.communicate(timeout=TIMEOUT_S)[0]


@pytest.mark.ci
def test_a_session_that_is_stopped_cancels_its_jobs_and_is_gone(session):
    assert "has stopped" in penstock("session", "stop")

    wait_until(lambda: not Path(f"/proc/{session['pid']}").exists(), "the end of the process")
    assert "no session is running on this machine" in penstock("session", "status", code=1)
    assert sessions() == []


def test_a_session_that_cannot_start_says_why(home):
    reported = penstock(
        "session", "start", "--no-spark", "-D", "rest.bind-address=192.0.2.1", code=1
    )

    assert "cannot listen for clients" in reported


def test_a_detached_program_goes_on_without_the_command(home, tmp_path):
    text = ENDLESS.replace("{module}", "helper").replace("{function}", "mark")
    script = program(tmp_path, text, "mark = int", name="alone")

    reported = json.loads(
        penstock("run", "--no-spark", "--detached", "--json", "-p", "1", str(script))
    )

    assert [job["name"] for job in reported["jobs"]] == ["alone"]
    assert [job.name for job in find_jobs() if job.runs] == ["alone"]
    penstock("cancel", "alone")
    wait_until(lambda: not find_jobs(), "the end of the process")


def test_a_detached_program_that_fails_at_once_says_why(home, tmp_path):
    script = tmp_path / "job.py"
    script.write_text("raise SystemExit('not today')")

    assert "not today" in penstock("run", "--no-spark", "-d", str(script), code=1)
