"""Exactly once for every stateful operator, disturbed and undisturbed.

A job fails between any two steps of its checkpoint protocol, at several epochs, and every time it starts again from its
last checkpoint.
"""

from __future__ import annotations

from functools import cache

import pytest
from zoo_runs import (
    NONE,
    WAYS,
    Results,
    differences,
    each_in_turn,
    environment,
    follow_turns,
    run,
)

import zoo  # isort: skip - zoo_runs puts the programs' folder on the path
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.runtime.task.epochs import subtask_cache
from penstock.runtime.task.shared import subtask
from penstock.testing.faults import MOMENTS, StepFault, moments, protocol_faults
from tests.builders.modes import EPOCHS, MODES

# A restart with RocksDB opens some databases: fewer of them.
CHECKPOINTS = {"hashmap": (2, 5, 8), "rocksdb": (5,)}


def faults_of(backend: str, mode: str) -> list[StepFault]:
    """Strike at each moment of some checkpoints, give or take one."""
    return [
        StepFault(moment, checkpoint + number % 3 - 1)
        for number, moment in enumerate(moments(mode))
        for checkpoint in CHECKPOINTS[backend]
    ]


def run_with_faults(name: str, backend: str, mode: str = EPOCHS) -> tuple[Results, JobMaster]:
    """Run a program that may be restarted once for each fault."""
    return run(name, environment(backend, mode, attempts=len(faults_of(backend, mode))))


@pytest.fixture(autouse=True)
def _turn_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    follow_turns(monkeypatch)


@cache
def output_of(name: str) -> Results:
    results, master = run_with_faults(name, "hashmap")
    assert results.total() > 0
    assert master.restarts == 0
    return results


@pytest.fixture
def undisturbed(name: str) -> Results:
    """The output of a run in epochs that nothing happens to."""
    return output_of(name)


@pytest.mark.parametrize(("name", "way"), each_in_turn(zoo.PROGRAMS, WAYS))
def test_faults_between_any_two_steps_lose_and_repeat_nothing(
    name: str, way: tuple[str, str], undisturbed: Results
) -> None:
    backend, mode = way
    with protocol_faults(*faults_of(backend, mode)) as faults:
        found, master = run_with_faults(name, backend, mode)
    assert differences(undisturbed, found) == NONE
    # Whether there are files to delete depends on the program.
    assert {fault.moment for fault in faults.waiting} <= set(MOMENTS[-2:])
    assert master.restarts == len(faults.struck)


@pytest.mark.parametrize("name", zoo.PROGRAMS)
def test_epochs_may_each_run_in_a_process_of_their_own(
    name: str, undisturbed: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing stays in memory: every epoch begins with what the checkpoint before it holds.
    monkeypatch.setattr(subtask_cache, "put", lambda job, each, *_: each.close())
    found, _ = run_with_faults(name, "hashmap")
    assert differences(undisturbed, found) == NONE


def lose_keyed_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashMapKeyedStateBackend, "restore", lambda *_: None)


def lose_operator_state(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = subtask.restore_local
    monkeypatch.setattr(subtask, "restore_local", lambda *args: {**restore(*args), "operators": {}})


def lose_enumerators(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = SourceCoordinator.restore
    monkeypatch.setattr(SourceCoordinator, "restore", lambda self, known, **_: restore(self, None))


LOSE = {
    "keyed": lose_keyed_state,
    "operator": lose_operator_state,
    "source": lose_enumerators,
}


@pytest.mark.parametrize(("name", "mode"), each_in_turn(zoo.PROGRAMS, {m: m for m in MODES}))
def test_the_programs_would_notice_if_their_state_were_not_restored(
    name: str, mode: str, undisturbed: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    LOSE[zoo.PROGRAMS[name].keeps](monkeypatch)
    # Not every checkpoint finds records that wait for an answer: in pipelined mode, and on a machine that is busy.
    numbers = range(3, 13)
    with protocol_faults(*(StepFault("after write_manifest", n) for n in numbers)) as faults:
        found, _ = run_with_faults(name, "hashmap", mode)
    assert faults.struck
    assert differences(undisturbed, found) != NONE
