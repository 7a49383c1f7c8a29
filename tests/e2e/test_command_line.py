"""A job of another process, from its start to its end, by commands: files, HTTP, controller and savepoints are real."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from penstock.cli import main
from penstock.cli.reach import find_jobs

TIMEOUT_S = 240.0

PROGRAM = """
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.functions import SinkFunction

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda i: i % 5, rate_limiter_strategy=RateLimiterStrategy.per_second(200))
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counts = numbers.map(lambda n: (n, 1)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
counts.uid("counts").print()
env.execute("numbers")
print("the end")
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    script = tmp_path / "job.py"
    script.write_text(PROGRAM)
    children = []

    def start(*options):
        command = [sys.executable, "-m", "penstock", "run", "--no-spark", "-p", "2"]
        settings = {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
        }
        for key, value in settings.items():
            command += ["-D", f"{key}={value}"]
        child = Child([*command, *options, str(script)], tmp_path / f"child-{len(children)}")
        children.append(child)
        # A job does not wait for being published: on a busy machine its first output may come before.
        child.wait_until(child.counts, "no count was put out")
        child.wait_until(child.is_reachable, "no command reaches the job")
        return child

    yield start
    for child in children:
        child.process.kill()
        child.process.wait()


class Child:
    """A process that writes to files: a pipe without a reader is full after a while, and then the job stands still."""

    def __init__(self, command, files):
        files.mkdir()
        self.files = files
        with self.path("out").open("wb") as output, self.path("err").open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=errors, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
        self.pid = self.process.pid

    def path(self, name):
        return self.files / name

    def counts(self):
        """The counts in the lines that are complete, in the order of output."""
        lines = self.path("out").read_text().split("\n")[:-1]
        return [int(line.split(", ")[1].rstrip(")")) for line in lines if ", " in line]

    def is_reachable(self):
        return any(job.runs and job.place.startswith(f"pid {self.pid} ") for job in find_jobs())

    def wait_until(self, holds, what):
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            assert self.process.poll() is None, self.path("err").read_text()
            assert time.monotonic() < deadline, what
            time.sleep(0.02)

    def end(self):
        """Wait for its end; return the exit code and what it wrote."""
        code = self.process.wait(TIMEOUT_S)
        return code, self.path("out").read_text(), self.path("err").read_text()


def say(capsys, *arguments):
    code = main(arguments)
    output = capsys.readouterr()
    assert (code, output.err) == (0, ""), arguments
    return output.out


def parallelism(capsys):
    shown = say(capsys, "job", "numbers")
    table = shown.split("\n\n")[1].splitlines()[1:]
    return {line.split("  ")[-1].strip(): int(line.split()[1]) for line in table}


def test_a_job_is_listed_saved_rescaled_stopped_and_goes_on(start, capsys, tmp_path):
    child = start()
    (line,) = say(capsys, "list").splitlines()[1:]
    assert line.endswith("numbers")
    assert f"pid {child.pid} at 127.0.0.1:" in line

    savepoint = say(capsys, "savepoint", "numbers").strip()
    assert savepoint.startswith(str(tmp_path / "savepoints"))
    assert os.listdir(savepoint)

    assert parallelism(capsys) == {"numbers": 2, "counts": 2}
    assert "3" in say(capsys, "rescale", line.split()[0][:8], "--vertex", "counts=3")
    assert parallelism(capsys) == {"numbers": 2, "counts": 3}
    say(capsys, "rescale", "numbers", "1")
    assert parallelism(capsys) == {"numbers": 1, "counts": 3}

    last = say(capsys, "stop", "-p", str(tmp_path / "elsewhere"), "numbers").strip()
    assert last.startswith(str(tmp_path / "elsewhere"))
    code, output, error = child.end()
    assert (code, error) == (0, "")
    assert output.endswith("the end\n")
    assert say(capsys, "list") == "no running jobs\n"

    before = child.counts()
    child = start("-s", last, "--claim-mode", "NO_CLAIM")
    assert child.counts()[0] > max(before) - 5  # the counts went on

    assert "is CANCELED" in say(capsys, "cancel", "numbers")
    assert child.end()[0] == 1
    assert list((tmp_path / "home" / "processes").iterdir()) == []

    say(capsys, "savepoint", "--dispose", last)
    assert not os.path.exists(last)


def test_what_cannot_be_is_refused_and_the_job_goes_on(start, capsys):
    child = start()
    assert main(["rescale", "numbers", "--vertex", "missing=3"]) == 1
    assert "no vertex 'missing'" in capsys.readouterr().err
    assert main(["rescale", "numbers", "100000"]) == 1
    assert "parallelism" in capsys.readouterr().err
    assert child.process.poll() is None
    assert "is CANCELED" in say(capsys, "cancel", "numbers")


def test_the_state_of_a_running_job_is_shown_and_its_last_epoch_replayed(start, capsys, tmp_path):
    child = start("-D", "execution.checkpointing.num-retained=1000")

    def keys():
        shown = say(capsys, "state", "show", "numbers", "counts", "reduced")
        return sorted(line.split()[0] for line in shown.splitlines()[1:])

    child.wait_until(
        lambda: list((tmp_path / "checkpoints").glob("*/chk-*/_metadata")), "no checkpoint"
    )
    child.wait_until(lambda: keys() == ["0", "1", "2", "3", "4"], "not all keys are in the state")
    assert "uid counts" in say(capsys, "state", "ls", "numbers")
    assert "checkpoint 1" in say(capsys, "replay", "numbers", "--checkpoint", "1", "--verify")
    assert "is CANCELED" in say(capsys, "cancel", "numbers")
