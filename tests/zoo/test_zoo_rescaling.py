"""Rescaling without a restart: the output is that of a run that nothing happens to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from zoo_runs import (
    LAST,
    NONE,
    WAYS,
    differences,
    each_in_turn,
    environment,
    follow_turns,
    run,
    stop_at,
    undisturbed,
)

import zoo  # isort: skip - zoo_runs puts the programs' folder on the path
from penstock.jobmanager.job_master.job_master import JobMaster

STEPS = {2: 3, 4: 1, 6: 7, 8: 2}  # turn -> parallelism from the next one on

# What they put out depends on which records meet in a subtask, and so on the parallelism: in Flink too.
BY_SUBTASK = {
    "checkpointed_function",
    "full_window_partition_aggregate",
    "hybrid_source",  # it ends by itself
    "watermarks_within_the_program",
}
PROGRAMS = [name for name in zoo.PROGRAMS if name not in BY_SUBTASK]


@pytest.fixture(autouse=True)
def _turn_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    follow_turns(monkeypatch, deadlines=False)


@pytest.mark.parametrize(("name", "way"), each_in_turn(PROGRAMS, WAYS, backwards=True))
def test_a_job_that_is_rescaled_between_checkpoints_puts_out_the_same(
    name: str, way: tuple[str, str], tmp_path: Path
) -> None:
    backend, mode = way
    answers: list[Any] = []
    stop, _ = stop_at(LAST, tmp_path, drain=True)

    def rescale(master: JobMaster, turn: int) -> None:
        if turn in STEPS:
            answers.append(master.request_rescale(STEPS[turn]))
        stop(master, turn)

    found, master = run(name, environment(backend, mode), rescale)
    assert differences(undisturbed(name), found) == NONE
    assert master.restarts == 0
    assert [max(answer.result(0).values()) for answer in answers] == list(STEPS.values())
