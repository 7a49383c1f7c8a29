"""Fixtures of the fault suite. `PENSTOCK_FAULT_SEED` chooses other moments to strike at."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from crossing_run import Run
from fault_harness import LedgerRun, NewRun
from fault_log import KillLog
from network import Host
from standalone_cluster import StandaloneCluster

from tests.builders.modes import WAYS, Way

DEFAULT_SEED = "7"
HERE = Path(__file__).parent

_log = KillLog()
_left_out: list[str] = []


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _left_out.extend(item.name for item in items if item.path.parent == HERE)


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """A way to run the job."""
    return request.param


@pytest.fixture(scope="session")
def seed() -> str:
    return os.environ.get("PENSTOCK_FAULT_SEED", DEFAULT_SEED)


@pytest.fixture
def rng(seed: str, request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that depend on the seed and the test's name only."""
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture(scope="session")
def kill_log() -> KillLog:
    return _log


@pytest.fixture
def whole_suite(request: pytest.FixtureRequest) -> bool:
    """Whether all tests of the suite run in this process, not a part that was selected."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return False
    modules = {item.path for item in request.session.items}
    return not _left_out and set(HERE.glob("test_*.py")) <= modules


@pytest.fixture
def new_run(tmp_path: Path, kill_log: KillLog) -> Iterator[NewRun]:
    """Create runs; whatever they leave running is ended with the test."""
    runs: list[LedgerRun] = []

    def create(kind: type[LedgerRun] = LedgerRun, **settings: Any) -> LedgerRun:
        runs.append(kind(tmp_path / "run", kill_log, **settings))
        return runs[-1]

    yield create
    for run in runs:
        run.leftovers(timeout_s=0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _log.faults:
        terminalreporter.section("faults on Spark")
        for line in _log.table():
            terminalreporter.write_line(line)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts `jobs/crossing.py` with its driver at a host, on a cluster."""
    runs: list[Run] = []

    def started(
        cluster: StandaloneCluster,
        driver: Host,
        mode: str = "pipelined",
        settings: Mapping[str, str] = {},
        **more: Any,
    ) -> Run:
        addresses = {
            "spark.master": cluster.url,
            "spark.driver.host": driver.address,
            "spark.driver.bindAddress": driver.address,
        }
        directory = tmp_path / f"run{len(runs)}"
        runs.append(Run(directory, {**addresses, **settings}, mode, before=driver.prefix, **more))
        return runs[-1]

    yield started
    for run in runs:
        run.kill()
