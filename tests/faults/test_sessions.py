"""A session of three jobs on Spark, one of which fails for ever: on one machine, and on a standalone cluster.

The cluster's master and workers are real ones, from the pip package.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fault_harness import ROOT
from standalone_cluster import Host, StandaloneCluster

TIMEOUT_S = 240.0
GOOD = ("flowing", "stepping")

PROGRAM = """
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink
from penstock.common.serialization import Encoder
import helper

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda i: i, rate_limiter_strategy=RateLimiterStrategy.per_second(50))
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
lines = numbers.map(helper.mark)
lines.print()
sink = FileSink.for_row_format("{output}", Encoder.simple_string_encoder()).build()
lines.sink_to(sink)
env.execute("{name}")
"""
HELPER = """
TEXT = "{name}"

def mark(number):
    import extra  # only tasks have it
    return f"{{TEXT}} {{extra.NAME}} {{number}}."
"""
FOR_EVER = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "100 ms",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "execution.checkpointing.interval": "300 ms",
}

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


class Session:
    """A session that was started by the command line, and what commands say of it."""

    def __init__(self, directory: Path, master: str) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PENSTOCK_HOME": str(directory / "home"),
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        options = ["spark.driver.host=127.0.0.1", "spark.executor.memory=512m"]
        given = [part for option in options for part in ("-D", option)]
        started = self.penstock("session", "start", "-m", master, "--json", *given)
        self.log = Path(json.loads(started)["log"])
        self.pid = json.loads(started)["pid"]

    def penstock(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            env=self.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.said()}"
        return done.stdout

    def send(self, name: str, helper: str, mode: str) -> None:
        """Send a program with modules that are called as those of the others are."""
        folder = self.directory / name
        folder.mkdir()
        (folder / "helper.py").write_text(helper.format(name=name))
        (folder / "job.py").write_text(PROGRAM.format(name=name, output=folder / "out"))
        extra = folder / "tasks" / "extra.py"
        extra.parent.mkdir()
        extra.write_text(f"NAME = 'of {name}'")
        settings = {**FOR_EVER, "penstock.execution.mode": mode, "parallelism.default": "1"}
        options = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
        self.penstock(
            "run", "--session", "-d", "--py-files", str(extra), *options, str(folder / "job.py")
        )

    def status(self) -> dict:
        return json.loads(self.penstock("session", "status", "--json"))

    def restarts(self, name: str) -> int:
        reported = self.penstock("job", name)
        return next(
            int(line.split()[1]) for line in reported.splitlines() if line.startswith("restarts")
        )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def last(self, name: str) -> int:
        """The last number that a job has put out."""
        start = f"{name} of {name} "
        numbers = [
            line[len(start) : -1] for line in self.said().splitlines() if line.startswith(start)
        ]
        return int(numbers[-1]) if numbers else -1

    def lines(self, name: str) -> list[str]:
        """The lines in the files that a job has published, in order."""
        files = (self.directory / name / "out").rglob("*")
        lines = [
            line
            for path in files
            if path.is_file() and not path.name.startswith((".", "_"))
            for line in path.read_text().splitlines()
        ]
        return sorted(lines, key=lambda line: int(line.rstrip(".").split()[-1]))

    def until(self, condition, what: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < end, f"{what} did not happen\n{self.said()[-5000:]}"
            time.sleep(0.1)

    def goes_on(self, name: str) -> None:
        before = self.last(name)
        self.until(lambda: self.last(name) > before + 20, f"more of {name}")


@pytest.fixture
def session(tmp_path):
    """Starts a session on a master, and sees to its end."""
    started = []

    def start(master: str) -> Session:
        started.append(Session(tmp_path, master))
        return started[-1]

    yield start
    for each in started:
        if Path(f"/proc/{each.pid}").exists():
            os.kill(each.pid, signal.SIGKILL)


def share(session: Session) -> None:
    """Send three jobs, and see two of them go on while one fails."""
    session.send("flowing", HELPER, "pipelined")
    session.send("failing", "def mark(number):\n    raise LookupError('again')\n", "epochs")
    session.send("stepping", HELPER, "epochs")
    for name in GOOD:
        session.goes_on(name)
    session.until(lambda: session.restarts("failing") >= 3, "three failures")
    slots = session.status()["session"]["slots"]
    assert (slots["total"], list(slots["held"].values())) == (3, [1])
    assert len(slots["sharing"]) == 2


def end(session: Session) -> None:
    """Stop the session, and see that no record of the good jobs was lost or doubled."""
    for name in GOOD:
        session.until(lambda name=name: len(session.lines(name)) > 50, f"files of {name}")
    states = {job["name"]: job["state"] for job in session.status()["jobs"]}
    assert {states[name] for name in GOOD} == {"RUNNING"}
    session.penstock("session", "stop")
    session.until(lambda: not Path(f"/proc/{session.pid}").exists(), "the end")
    for name in GOOD:
        found = session.lines(name)
        assert found == [f"{name} of {name} {n}." for n in range(len(found))]


def test_three_jobs_share_a_session_and_one_fails_for_ever(session):
    running = session("local[3]")
    share(running)
    end(running)


def test_a_session_on_a_standalone_cluster_survives_the_death_of_an_executor(session, tmp_path):
    workers = [Host("127.0.0.1")] * 3
    with StandaloneCluster(tmp_path / "cluster", Host("127.0.0.1"), workers) as cluster:
        running = session(cluster.url)
        share(running)
        cluster.executors()[0].send_signal(signal.SIGKILL)
        for name in GOOD:
            running.goes_on(name)
        end(running)
        running.until(lambda: not cluster.executors(), "the end of the executors")
