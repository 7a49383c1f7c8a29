"""Runs programs of `faults/jobs/zoo.py` in this process: with a clock that follows the epochs, and something done between."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "faults" / "jobs"))

import zoo  # isort: skip
from penstock.checkpoint import shared_files
from penstock.datastream import StreamExecutionEnvironment, _execution
from penstock.jobmanager.job_master import JobMaster
from penstock.runtime.state.rocksdb import backend as rocksdb
from penstock.runtime.task import subtask
from penstock.testing.mini_cluster import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.steps import before_each_epoch

Results = Counter[str]
LAST = 8  # epoch before which endless programs are asked to stop; there is no epoch without a cause
NONE: dict[str, list[str]] = {"lost": [], "surplus": []}


class EpochClock:
    """A wall clock that shows the number of the epoch: an epoch that is run again has the same time."""

    def __init__(self) -> None:
        self.now = 0

    def on_step(self, moment: str, epoch: int) -> None:
        if moment == "before run_pipe":
            self.now = epoch * zoo.CLOCK_MS

    def __call__(self) -> int:
        return self.now


def follow_epochs(monkeypatch: pytest.MonkeyPatch, *, deadlines: bool = True) -> None:
    """Let all clocks of tasks follow the epochs; without `deadlines` sources read what their readers give."""
    clock = EpochClock()
    monkeypatch.setattr(subtask, "wall_clock", clock)
    monkeypatch.setattr(_execution, "_step_hooks", (clock.on_step,))
    put_off_files(monkeypatch)
    if not deadlines:
        read = subtask.Subtask.read_source
        monkeypatch.setattr(
            subtask.Subtask, "read_source", lambda self, assigned, _: read(self, assigned, None)
        )


def put_off_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let databases write the files of their snapshots in small parts, over several epochs, as large ones do."""
    monkeypatch.setattr(rocksdb, "_MUCH", 0)
    monkeypatch.setattr(shared_files, "_AT_ONCE", 0)
    monkeypatch.setattr(shared_files, "_TIMES_THE_CHANGES", 0)
    monkeypatch.setattr(shared_files, "_PART", 700)
    monkeypatch.setattr(shared_files, "_MOST_CHANGES", 3)


def environment(
    backend: str, *, attempts: int = 0, parallelism: int = zoo.PARALLELISM, **more: str
) -> StreamExecutionEnvironment:
    """Return an environment whose state goes to files, in the backend asked for."""
    options = {
        "execution.checkpointing.interval": "1 ms",
        "penstock.state.inline-threshold": "1 b",
        "state.backend.type": backend,
        **restarts(attempts),
        **more,
    }
    return configured(options, parallelism)


def run(
    name: str,
    env: StreamExecutionEnvironment,
    between: Callable[[JobMaster, int], Any] | None = None,
) -> tuple[Results, JobMaster]:
    """Run a program to its end; return the output, and who ran it.

    With `between`, which is called before each epoch, its sources have no end: somebody must stop the job.
    """
    with MiniCluster() as cluster:
        stream = zoo.PROGRAMS[name].build(zoo.Inputs(env, endless=between is not None))

        def act(epoch: int) -> None:
            if between is not None:
                between(cluster.masters[0], epoch)

        with before_each_epoch(act), stream.execute_and_collect() as found:
            return Counter(map(repr, found)), cluster.masters[0]


def stop_at(last: int, target: Path, *, drain: bool) -> tuple[Any, list[Any]]:
    """Return what stops a job with a savepoint, and where its answer will be."""
    answers: list[Any] = []

    def act(master: JobMaster, epoch: int) -> None:
        if epoch == last:
            answers.append(master.request_savepoint(str(target), stops=True, drains=drain))

    return act, answers


@cache
def undisturbed(name: str) -> Results:
    """Return the output of a program that nothing happens to until it is asked to stop in its `LAST` epoch."""
    with tempfile.TemporaryDirectory() as target:
        act, _ = stop_at(LAST, Path(target), drain=True)
        return run(name, environment("hashmap"), act)[0]


def differences(expected: Results, found: Results) -> dict[str, list[str]]:
    """Return what is missing and what is there too often, some of each."""
    lost, surplus = expected - found, found - expected
    return {"lost": sorted(lost.elements())[:10], "surplus": sorted(surplus.elements())[:10]}
