"""Savepoints of every stateful operator: a job that is stopped, moved and started otherwise puts out the same."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from zoo_runs import (
    LAST,
    NONE,
    differences,
    each_in_turn,
    environment,
    follow_turns,
    run,
    stop_at,
    undisturbed,
)

import zoo  # isort: skip - zoo_runs puts the programs' folder on the path
from tests.builders.modes import EPOCHS, PIPELINED

# What they put out depends on which records meet in a subtask, and so on the parallelism: in Flink too.
BY_SUBTASK = {
    "checkpointed_function",
    "full_window_partition_aggregate",
    "watermarks_within_the_program",
}
ENDS_BY_ITSELF = {"hybrid_source"}
PROGRAMS = [name for name in zoo.PROGRAMS if name not in ENDS_BY_ITSELF]

# (parallelism, backend, turn at which the job is asked to stop)
STAGES = {
    "hashmap-first": [(1, "hashmap", 2), (7, "rocksdb", 4), (3, "hashmap", LAST)],
    "rocksdb-first": [(1, "rocksdb", 2), (7, "hashmap", 4), (3, "rocksdb", LAST)],
}
# A savepoint of one mode starts the other.
IN_MODES = {
    "epochs": [EPOCHS, EPOCHS, EPOCHS],
    "epochs, pipelined, epochs": [EPOCHS, PIPELINED, EPOCHS],
    "pipelined": [PIPELINED, PIPELINED, PIPELINED],
}


@pytest.fixture(autouse=True)
def _turn_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    follow_turns(monkeypatch, deadlines=False)


WAYS = {
    f"{first}-{modes}": (STAGES[first], IN_MODES[modes]) for first in STAGES for modes in IN_MODES
}


@pytest.mark.parametrize(("name", "way"), each_in_turn(PROGRAMS, WAYS))
def test_a_job_that_goes_on_from_savepoints_puts_out_the_same(
    name: str, way: tuple[list[tuple[int, str, int]], list[str]], tmp_path: Path
) -> None:
    stages, modes = way
    if name in BY_SUBTASK:
        stages = [(zoo.PARALLELISM, backend, turn) for _, backend, turn in stages]
    found: Counter[str] = Counter()
    start: dict[str, str] = {}
    for number, (parallelism, backend, last) in enumerate(stages):
        written = tmp_path / f"written-{number}"
        act, answers = stop_at(last, written, drain=number == len(stages) - 1)
        env = environment(backend, modes[number], parallelism=parallelism, **start)
        output, master = run(name, env, act, batches=last)
        found += output
        assert master.restarts == 0
        moved = tmp_path / f"elsewhere-{number}"
        shutil.move(answers[0].result(0), moved)
        start = {"execution.state-recovery.path": str(moved)}
    assert differences(undisturbed(name), found) == NONE
