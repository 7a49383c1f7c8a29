"""The state diagrams show what the pure cores do, and exploring one finds all of its transitions."""

from __future__ import annotations

import pytest

from tests.builders.loading import load_tool

machines = load_tool("state_machines")
load_tool("state_drawing")
generator = load_tool("gen_state_diagrams")


@pytest.fixture(scope="module")
def diagrams():
    return generator.diagrams()


def test_the_pictures_show_what_the_cores_do_today(diagrams) -> None:
    pictures = generator.pictures(diagrams)
    stored = {path.name: path.read_text() for path in generator.IMAGES.glob("*.svg")}
    assert stored == pictures, "run: python tools/gen_state_diagrams.py"


def test_the_tables_show_what_the_cores_do_today(diagrams) -> None:
    page = generator.PAGE.read_text()
    assert generator.render(page, diagrams) == page, "run: python tools/gen_state_diagrams.py"


def test_every_phase_can_be_reached(diagrams) -> None:
    phases = {
        "job": {phase.name for phase in generator.JobPhase},
        "checkpoints-epochs": {phase.name for phase in generator.CoordinatorPhase},
        "checkpoints-pipelined": {phase.name for phase in generator.CoordinatorPhase},
        "stage": {phase.name for phase in generator.StagePhase},
    }
    assert {name: set(diagrams[name].explored.states) for name in phases} == phases


class CoinLock:
    """Locked until a coin is paid; a third coin breaks it."""

    def __init__(self) -> None:
        self.coins = 0
        self.locked = True

    def pay(self) -> list[object]:
        if self.coins == 3:
            raise ValueError("broken")
        self.coins += 1
        self.locked = False
        return [self]

    def push(self) -> list[object]:
        self.locked = True
        return []


def test_exploring_finds_the_transitions_of_all_reachable_states() -> None:
    machine = machines.Machine(
        create=CoinLock,
        events={"pay": CoinLock.pay, "push": CoinLock.push},
        state=lambda core: "LOCKED" if core.locked else "OPEN",
        fingerprint=lambda core: (core.locked, core.coins),
        condition=lambda core: "last coin" if core.coins == 2 else "",
        rejects=(ValueError,),
    )
    step = machines.Transition
    assert set(machines.explore(machine).transitions) == {
        step("LOCKED", "pay", "OPEN", ("CoinLock",)),
        step("OPEN", "pay", "OPEN", ("CoinLock",)),
        step("OPEN", "push", "LOCKED"),
    }


def test_a_core_without_an_end_is_reported() -> None:
    machine = machines.Machine(
        create=CoinLock,
        events={"grow": lambda core: setattr(core, "coins", core.coins + 1)},
        state=lambda core: "LOCKED",
        fingerprint=lambda core: core.coins,
    )
    with pytest.raises(RuntimeError, match="does not come to an end"):
        machines.explore(machine)
