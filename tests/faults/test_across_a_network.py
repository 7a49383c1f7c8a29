"""Jobs on a standalone cluster whose master, workers and driver are hosts of their own, in network namespaces: hosts die, links are cut."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from crossing_run import FAILED, TIMEOUT_S, Run
from network import Host, network, why_no_namespaces
from standalone_cluster import StandaloneCluster

REASON = why_no_namespaces()

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(3 * TIMEOUT_S),
    pytest.mark.skipif(REASON is not None and "CI" not in os.environ, reason=str(REASON)),
]

Start = Callable[..., Run]


@dataclass(frozen=True)
class Site:
    """The hosts and what runs on them."""

    cluster: StandaloneCluster
    master: Host
    driver: Host
    workers: tuple[Host, Host]


@contextmanager
def site(directory: Path, *, delay_ms: float = 0) -> Iterator[Site]:
    """Start a master and two workers."""
    with ExitStack() as stack:
        master, driver, *workers = stack.enter_context(network(4, delay_ms=delay_ms))
        cluster = StandaloneCluster(directory, master, workers)
        yield Site(stack.enter_context(cluster), master, driver, (workers[0], workers[1]))


def kill_executor(at: Site, run: Run) -> None:
    at.cluster.executors()[0].kill()
    run.until(lambda: FAILED in run.said())


def kill_worker(at: Site, run: Run) -> None:
    at.cluster.kill_worker(1)
    run.until(lambda: FAILED in run.said())
    at.cluster.start_worker(1)


def cut(at: Site, run: Run) -> None:
    at.workers[1].plug(into=False)
    run.until(lambda: FAILED in run.said())  # before it is back, and by itself it is not back
    at.workers[1].plug(into=True)


def cut_one_way(at: Site, run: Run) -> None:
    """What the worker sends is lost, what it is sent arrives."""
    others = [at.master, at.driver, at.workers[0]]
    at.workers[1].reach(others, well=False)
    run.until(lambda: FAILED in run.said())
    at.workers[1].reach(others, well=True)


@pytest.mark.parametrize("strike", [kill_executor, kill_worker, cut, cut_one_way])
def test_a_pipelined_job_survives(
    tmp_path: Path, start: Start, strike: Callable[[Site, Run], None]
) -> None:
    with site(tmp_path / "cluster") as at:
        run = start(at.cluster, at.driver, held=True)
        run.wait_for_checkpoints(2)
        before = [worker.bytes_crossed() for worker in at.workers]
        run.wait_for_checkpoints(2)
        after = [worker.bytes_crossed() for worker in at.workers]
        assert all(late > early for early, late in zip(before, after, strict=True))
        assert run.listening() == [worker.address for worker in at.workers]
        strike(at, run)
        run.wait_for_checkpoints(2)
        run.release()
        run.finish()


@pytest.mark.parametrize("strike", ["executor", "worker", "cut"])
def test_a_job_in_epochs_survives(tmp_path: Path, start: Start, strike: str) -> None:
    """Spark tries the tasks of an epoch again, so the job need not fail."""
    with site(tmp_path / "cluster") as at:
        run = start(at.cluster, at.driver, "epochs", held=True)
        run.wait_for_checkpoints(2)
        if strike == "executor":
            at.cluster.executors()[0].kill()
        elif strike == "worker":
            at.cluster.kill_worker(1)
            at.cluster.start_worker(1)
        else:
            at.workers[1].plug(into=False)
        run.wait_for_checkpoints(3)
        if strike == "cut":
            at.workers[1].plug(into=True)
        run.release()
        run.finish()


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_another_driver_goes_on_after_the_first_was_killed(
    tmp_path: Path, start: Start, mode: str
) -> None:
    settings = {
        "high-availability.type": "storage",
        "high-availability.storageDir": str(tmp_path / "ha"),
        "high-availability.cluster-id": "crossing",
        "spark.cores.max": "2",
    }
    storage = str(tmp_path / "storage")
    with site(tmp_path / "cluster") as at:
        first = start(at.cluster, at.driver, mode, settings, held=True, storage=storage)
        first.wait_for_checkpoints(3)
        first.kill()
        second = start(at.cluster, at.driver, mode, settings, held=True, storage=storage)
        second.wait_for_checkpoints(2)
        second.release()
        second.finish()


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_a_job_runs_over_slow_links(tmp_path: Path, start: Start, mode: str) -> None:
    with site(tmp_path / "cluster", delay_ms=20) as at:
        start(at.cluster, at.driver, mode).finish()
