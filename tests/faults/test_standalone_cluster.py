"""Pipelined jobs on a real standalone cluster: on two addresses of this machine, and across a network of namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_harness import ROOT
from standalone_cluster import Host, StandaloneCluster, namespaces, why_no_namespaces

JOB = Path(__file__).parent / "jobs" / "crossing.py"
sys.path.insert(0, str(JOB.parent))

import crossing  # noqa: E402 - the job itself, for its expected output

RECORDS = 6000
TIMEOUT_S = 240
FAILED = "job failed, restart"

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


class Run:
    """The job's driver in a process of its own."""

    def __init__(
        self,
        directory: Path,
        cluster: StandaloneCluster,
        driver: Host,
        mode: str = "pipelined",
        *,
        held: bool = False,
    ) -> None:
        self.directory = directory
        directory.mkdir()
        self._log = directory / "driver.log"
        options = {"directory": str(directory), "master": cluster.url, "host": driver.address}
        options["mode"] = mode
        self._released = directory / "released"
        if held:
            options["released"] = str(self._released)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(JOB), json.dumps({**options, "records": RECORDS})],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"it took too long\n{self.said()}"
            assert self._process.poll() is None or condition(), self.said()
            time.sleep(0.02)

    def checkpoints(self) -> int:
        return max(
            (
                int(path.parent.name[4:])
                for path in self.directory.glob("checkpoints/*/chk-*/_metadata")
            ),
            default=0,
        )

    def wait_for_checkpoints(self, count: int) -> None:
        target = self.checkpoints() + count
        self.until(lambda: self.checkpoints() >= target)

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def lines(self) -> list[str]:
        return sorted(
            line
            for path in (self.directory / "counts").rglob("*")
            if path.is_file() and not path.name.startswith((".", "_"))
            for line in path.read_text().splitlines(keepends=True)
        )

    def listening(self) -> list[str]:
        """Where the processes of slots listen, over all attempts."""
        return sorted({path.read_text() for path in (self.directory / "slots").iterdir()})

    def release(self) -> None:
        """Let a source that was held back read all that is left."""
        self._released.touch()

    def finish(self) -> None:
        """Wait for the end, and judge the output."""
        assert self._process.wait(TIMEOUT_S) == 0, self.said()
        assert self.lines() == crossing.expected(RECORDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def started(cluster: StandaloneCluster, driver: Host, *mode: str, held: bool = False) -> Run:
        runs.append(Run(tmp_path / f"run{len(runs)}", cluster, driver, *mode, held=held))
        return runs[-1]

    yield started
    for run in runs:
        run.kill()


def test_a_pipelined_job_on_two_workers_survives_the_death_of_an_executor(tmp_path, start) -> None:
    """The workers have addresses of their own, and their slots listen there only."""
    here, there = Host("127.0.0.1"), Host("127.0.0.2")
    with StandaloneCluster(tmp_path / "cluster", here, [here, there]) as cluster:
        run = start(cluster, here)
        run.wait_for_checkpoints(3)
        assert run.listening() == [here.address, there.address]
        cluster.executors()[0].kill()
        run.until(lambda: FAILED in run.said())
        run.finish()
        assert run.listening() == [here.address, there.address]


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_a_job_goes_on_when_its_master_was_killed_and_started_again(tmp_path, start, mode) -> None:
    """The new master does not know the application, and ends its executors."""
    here = Host("127.0.0.1")
    with StandaloneCluster(tmp_path / "cluster", here, [here, here]) as cluster:
        run = start(cluster, here, mode, held=True)
        run.wait_for_checkpoints(2)
        cluster.kill_master()
        cluster.start_master()
        run.until(lambda: "does not know this application" in run.said())
        run.wait_for_checkpoints(1)
        run.release()
        run.finish()


def test_a_job_waits_while_there_is_neither_a_master_nor_an_executor(tmp_path, start) -> None:
    here = Host("127.0.0.1")
    with StandaloneCluster(tmp_path / "cluster", here, [here, here]) as cluster:
        run = start(cluster, here, held=True)
        run.wait_for_checkpoints(2)
        cluster.kill_master()
        for executor in cluster.executors():
            executor.kill()
        run.until(lambda: "does not answer: restart it" in run.said())
        cluster.start_master()
        run.wait_for_checkpoints(1)
        run.release()
        run.finish()
        assert run.said().count("does not answer: restart it") == 1


reason = why_no_namespaces()


@pytest.mark.skipif(reason is not None and "CI" not in os.environ, reason=str(reason))
def test_a_pipelined_job_across_a_network_survives_a_worker_that_is_cut_off(
    tmp_path, start
) -> None:
    """Each worker is in a network namespace. One loses its network until that is noticed."""
    with (
        namespaces(2) as (driver, workers),
        StandaloneCluster(tmp_path / "cluster", driver, workers) as cluster,
    ):
        run = start(cluster, driver)
        run.wait_for_checkpoints(2)
        before = [worker.bytes_crossed() for worker in workers]
        run.wait_for_checkpoints(2)
        after = [worker.bytes_crossed() for worker in workers]
        assert all(late > early for early, late in zip(before, after, strict=True))
        assert run.listening() == [worker.address for worker in workers]
        workers[1].plug(into=False)
        run.until(lambda: FAILED in run.said())  # before it is back, and by itself it is not back
        workers[1].plug(into=True)
        run.finish()
