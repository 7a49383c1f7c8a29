"""Fixtures of the fault suite. `PENSTOCK_FAULT_SEED` chooses other moments to strike at."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_harness import Expected, KillLog, LedgerRun, NewRun, computed, judge

DEFAULT_SEED = "7"


@pytest.fixture(scope="session")
def seed() -> str:
    return os.environ.get("PENSTOCK_FAULT_SEED", DEFAULT_SEED)


@pytest.fixture
def rng(seed: str, request: pytest.FixtureRequest) -> random.Random:
    """Random numbers that depend on the seed and the test's name only."""
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture(scope="session")
def kill_log() -> KillLog:
    return KillLog()


@pytest.fixture
def new_run(tmp_path: Path, kill_log: KillLog) -> Iterator[NewRun]:
    """Create runs; whatever they leave running is ended with the test."""
    runs: list[LedgerRun] = []

    def create(**settings: Any) -> LedgerRun:
        runs.append(LedgerRun(tmp_path / "run", kill_log, **settings))
        return runs[-1]

    yield create
    for run in runs:
        run.leftovers(patience_s=0)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, kill_log: KillLog, seed: str) -> Expected:
    """The output of a run that nothing happens to; it is what plain Python computes."""
    run = LedgerRun(tmp_path_factory.mktemp("undisturbed"), kill_log)
    run.start()
    assert run.wait() == 0, run.story()
    judge(run, computed(), seed)
    return {sink: run.lines(sink) for sink in computed()}
