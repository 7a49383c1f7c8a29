"""Every program of the zoo with unaligned checkpoints: faults lose and repeat nothing, records in flight neither."""

from __future__ import annotations

import pytest
from test_zoo_faults import output_of
from zoo_runs import NONE, differences, each_in_turn, environment, follow_turns, run

import zoo  # isort: skip - zoo_runs puts the programs' folder on the path
from penstock.testing.faults import StepFault, protocol_faults
from tests.builders.modes import PIPELINED

# Small buffers, so that there are some under way.
OPTIONS = {
    "execution.checkpointing.unaligned.enabled": "true",
    "taskmanager.memory.segment-size": "64 b",
    "taskmanager.network.memory.buffers-per-channel": "1",
    "taskmanager.network.memory.floating-buffers-per-gate": "0",
    "execution.buffer-timeout": "0 ms",
}
CHECKPOINTS = (2, 4, 5, 7)
TIMEOUTS = {"0 ms": "0 ms", "5 ms": "5 ms"}


@pytest.fixture(autouse=True)
def _turn_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    follow_turns(monkeypatch)


@pytest.mark.parametrize(("name", "timeout"), each_in_turn(zoo.PROGRAMS, TIMEOUTS))
def test_faults_lose_and_repeat_nothing_that_is_in_flight(name: str, timeout: str) -> None:
    faults = [StepFault("after write_manifest", number) for number in CHECKPOINTS]
    options = {**OPTIONS, "execution.checkpointing.aligned-checkpoint-timeout": timeout}
    with protocol_faults(*faults) as struck:
        found, master = run(name, environment("hashmap", PIPELINED, attempts=9, **options))
    assert struck.struck
    assert differences(output_of(name), found) == NONE
    assert master.restarts == len(struck.struck)
