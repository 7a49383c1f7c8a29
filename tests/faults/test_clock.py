"""A wall clock that jumps back by an hour and on again: nothing is lost, nothing is repeated, and the job goes on meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from fault_harness import LedgerRun, NewRun, judge

import clockwork  # isort: skip - fault_harness puts the jobs' folder on the path
from penstock.testing.clock_shift import clock_shift_environment
from tests.builders.modes import Way

PORTION = 200  # records of each split that are released at a time


class ClockworkRun(LedgerRun):
    """A run whose clock is an hour slow while the file `jump` is there."""

    script = Path(clockwork.__file__)
    job_id = clockwork.JOB_ID
    sinks = ("windows", "counts", "held")

    def begin(self) -> None:
        """Start a driver whose clock may jump."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.start(environment=clock_shift_environment(-3600, str(self.directory / "jump")))

    def jump(self, *, measured: bool = True) -> None:
        """Put the clock back, or on again."""
        switch = self.directory / "jump"
        if switch.exists():
            switch.unlink()
        else:
            switch.touch()
        self.strike("clock jumps", interrupts=measured)

    def jump_while_reading(self) -> None:
        """Let a reader put the clock back while it waits for records."""
        (self.directory / "jump-while-reading").touch()
        assert self.wait_until((self.directory / "jump").exists), self.story()
        self.strike("clock jumps")

    def nudge(self, number: int) -> None:
        """Let the silent split have a record, and wait for it to be in the output: it is not idle now."""
        (self.directory / f"nudge-{number}").touch()
        self.wait_for_output("counts", lambda line: line == f"quiet number {number + 1}\n")

    def wait_for_output(self, sink: str, is_it: Callable[[str], bool]) -> None:
        """Wait for a line, for some minutes: an hour is too long."""
        reached = self.wait_until(lambda: any(map(is_it, self.lines(sink))))
        assert reached, self.story()

    def goes_on(self) -> None:
        """See that what is read now arrives, that windows close, and that timers fire."""
        before = self.records
        self.release(before + PORTION)
        self.wait_for_output("windows", lambda line: int(line.split()[2]) > before * 100)
        self.wait_for_output("held", lambda line: int(line.rpartition("-")[2]) >= before)


def test_a_clock_that_jumps_back_and_on_again_loses_and_repeats_nothing(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(ClockworkRun, way=way, records=0)
    run.directory.mkdir(parents=True)
    run.release(PORTION)
    run.begin()
    run.goes_on()

    run.nudge(0)
    run.jump()  # between two epochs: there has just been one
    run.goes_on()
    assert run.kill("worker", rng.choice(run.workers())), run.story()
    run.goes_on()
    run.jump()
    run.goes_on()

    run.jump_while_reading()
    run.goes_on()
    run.jump()

    # A checkpoint of the future: the driver that goes on from it has the clock of an hour ago.
    run.nudge(1)
    assert run.kill_driver(), run.story()
    run.jump(measured=False)
    run.begin()
    run.goes_on()
    run.jump()
    run.goes_on()

    expected = clockwork.expected(run.records, nudges=2)
    assert run.wait_until(lambda: len(run.lines("counts")) >= len(expected["counts"])), run.story()
    (run.directory / "end").touch()
    assert run.wait() == 0, run.story()
    judge(run, expected, seed)
