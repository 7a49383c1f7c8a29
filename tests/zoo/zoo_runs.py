"""Runs programs of `faults/jobs/zoo.py` in this process: with a clock that follows their turns, and something done between."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "faults" / "jobs"))

import zoo  # isort: skip
from zoo_inputs import MODE, TURN, next_turn, splits_of  # isort: skip
from penstock.checkpoint import shared_files
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.runtime.state.rocksdb import backend as rocksdb
from penstock.runtime.task.epochs import epoch_mode, epoch_slot
from penstock.runtime.task.pipelined import pipelined_mode
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from tests.builders.environments import configured, restarts
from tests.builders.modes import EPOCHS, MODES, PIPELINED, runs_in

Results = Counter[str]
Between = Callable[[JobMaster, int], Any]
LAST = 8  # epoch before which endless programs are asked to stop; there is no epoch without a cause
QUIET = 3  # checkpoints without anything in flight
UNALIGNED = "execution.checkpointing.unaligned.enabled"
NONE: dict[str, list[str]] = {"lost": [], "surplus": []}
#: State backend and mode, by name
WAYS = {
    f"{mode}-{backend}": (backend, mode) for mode in MODES for backend in ("hashmap", "rocksdb")
}


def each_in_turn(names: Iterable[str], ways: Mapping[str, Any], *, backwards: bool = False) -> Any:
    """Return the parameters of a test that runs each program in each way.

    `make test` runs each program in one way, the ways in turn; the rest is `full`. A test that takes the ways `backwards` runs a
    program in another mode and another backend than one that does not.
    """
    order = [*reversed(ways)] if backwards else [*ways]
    numbers = {name: number for number, name in enumerate(zoo.PROGRAMS)}
    return [
        pytest.param(
            name,
            ways[way],
            id=f"{name}-{way}",
            marks=[] if way == order[numbers[name] % len(order)] else pytest.mark.full,
        )
        for name in names
        for way in ways
    ]


class TurnClock:
    """A wall clock that shows the number of the turn: a turn that is run again has the same time."""

    def __init__(self) -> None:
        self.show(1)

    def show(self, turn: int) -> None:
        self.now = turn * zoo.CLOCK_MS

    def __call__(self) -> int:
        return self.now


CLOCK = TurnClock()


def follow_turns(monkeypatch: pytest.MonkeyPatch, *, deadlines: bool = True) -> None:
    """Let all clocks of tasks follow the turns; without `deadlines` sources read what their readers give."""
    for mode in (epoch_mode, pipelined_mode):
        monkeypatch.setattr(mode, "wall_clock", CLOCK)
    put_off_files(monkeypatch)
    if not deadlines:
        read = epoch_slot.read_source
        monkeypatch.setattr(
            epoch_slot, "read_source", lambda subtask, assigned, _: read(subtask, assigned, None)
        )


def put_off_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let databases write the files of their snapshots in small parts, over several epochs, as large ones do."""
    monkeypatch.setattr(rocksdb, "_MUCH", 0)
    monkeypatch.setattr(shared_files, "_AT_ONCE", 0)
    monkeypatch.setattr(shared_files, "_TIMES_THE_CHANGES", 0)
    monkeypatch.setattr(shared_files, "_PART", 700)
    monkeypatch.setattr(shared_files, "_MOST_CHANGES", 3)


def environment(
    backend: str,
    mode: str,
    *,
    attempts: int = 0,
    parallelism: int = zoo.PARALLELISM,
    **more: str,
) -> StreamExecutionEnvironment:
    """Return an environment whose state goes to files, in the backend asked for."""
    options = {
        "execution.checkpointing.interval": "1 ms",
        "penstock.state.inline-threshold": "1 b",
        "state.backend.type": backend,
        **runs_in(mode),
        **restarts(attempts),
        **more,
    }
    return configured(options, parallelism)


class Conductor:
    """Lets the clock, the sources and the requests to the job follow its turns.

    Epochs: a turn begins with its epoch. Records that flow: with the checkpoint that has the turn before it.
    """

    def __init__(
        self, cluster: MiniCluster, between: Between | None, *, unaligned: bool = False
    ) -> None:
        self._cluster = cluster
        self._unaligned = unaligned
        self._waited = 0  # checkpoints since all of the turn was processed
        self._between = between
        self._turn = 0  # how many of them a checkpoint has

    def on_epoch(self, moment: str, _: int) -> None:
        if moment == "before run_pipe":
            manifest = self._cluster.masters[0].manifest
            found = next_turn(splits_of(manifest)) if manifest is not None else 0
            self._turn = self._turn + 1 if found is None else found
            CLOCK.show(self._turn + 1)
            self._act(self._turn + 1)

    def on_checkpoint(self, moment: str, _: int) -> None:
        if moment != "after write_manifest":
            return
        manifest = self._cluster.masters[0].store.latest()
        assert manifest is not None
        if manifest.has_in_flight_data:
            return  # not all of the turn is processed
        turn = next_turn(splits_of(manifest))
        if turn is not None and turn != self._turn:
            if self._unaligned and self._waited < QUIET:
                self._waited += (
                    1  # watermarks are in no checkpoint: a barrier may have overtaken one
                )
                return
            self._waited = 0
            self._turn = turn
            CLOCK.show(turn + 1)
            TURN.advance(turn)
            self._act(turn)

    def _act(self, turn: int) -> None:
        if self._between is not None:
            self._between(self._cluster.masters[0], turn)


def run(
    name: str,
    env: StreamExecutionEnvironment,
    between: Between | None = None,
    *,
    batches: int = LAST,
) -> tuple[Results, JobMaster]:
    """Run a program to its end; return the output, and who ran it.

    With `between`, which is called at each turn, its sources have no end: the job must be stopped. In pipelined mode, they give so
    many batches and wait for that.
    """
    endless = between is not None
    options = env.get_configuration().to_dict()
    pipelined = options.get(MODE) == PIPELINED
    with MiniCluster() as cluster:
        stream = zoo.PROGRAMS[name].build(zoo.Inputs(env, endless=endless))
        conductor = Conductor(cluster, between, unaligned=options.get(UNALIGNED) == "true")
        hook = conductor.on_checkpoint if pipelined else conductor.on_epoch
        CLOCK.show(1)
        with (
            TURN.driven_by_tests(pipelined=pipelined, batches=batches if endless else None),
            watched_steps(hook),
            stream.execute_and_collect() as found,
        ):
            return Counter(map(repr, found)), cluster.masters[0]


def stop_at(last: int, target: Path, *, drain: bool) -> tuple[Any, list[Any]]:
    """Return what stops a job with a savepoint, and where its answer will be."""
    answers: list[Any] = []

    def act(master: JobMaster, turn: int) -> None:
        if turn == last:
            answers.append(master.request_savepoint(str(target), stops=True, drains=drain))

    return act, answers


@cache
def undisturbed(name: str) -> Results:
    """Return the output of a program that nothing happens to until it is asked to stop in its `LAST` epoch."""
    with tempfile.TemporaryDirectory() as target:
        act, _ = stop_at(LAST, Path(target), drain=True)
        return run(name, environment("hashmap", EPOCHS), act)[0]


def differences(expected: Results, found: Results) -> dict[str, list[str]]:
    """Return what is missing and what is there too often, some of each."""
    lost, surplus = expected - found, found - expected
    return {"lost": sorted(lost.elements())[:10], "surplus": sorted(surplus.elements())[:10]}
