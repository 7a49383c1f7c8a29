"""Two drivers started by mistake on one checkpoint directory: one of them is refused, and nothing is written twice."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

from fault_harness import TIMEOUT_S, LedgerRun, NewRun, computed, judge

from tests.builders.modes import Way


def test_a_second_driver_is_refused_and_the_first_goes_on(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(way=way, released=True)
    with run.without_end():
        run.start()
        assert run.wait_for_epochs(rng.randint(1, 3)), run.story()
        assert_refused(run)
        assert run.wait_for_epochs(1), run.story()

        # A driver that stands still holds its job all the same.
        os.kill(run.driver.pid, signal.SIGSTOP)
        assert run.wait_until(lambda: stands_still(run.driver.pid)), run.story()
        stopped_at = run.checkpoint_id()
        assert_refused(run)
        assert run.checkpoint_id() == stopped_at
        os.kill(run.driver.pid, signal.SIGCONT)
        run.strike("driver stopped")
        assert run.wait_for_epochs(1), run.story()

        # One that was killed is replaced at once, by one of two that start at the same moment.
        assert run.kill_driver(), run.story()
        other, output = run.start_second()
        run.start()
        assert run.wait_until(lambda: other.poll() is not None or not run.is_running, or_end=False)
    if run.is_running:
        loser, text = other, output.read_text()
    else:
        loser, text = run.driver, run.story()
        run.driver = other
    run.strike("second driver", interrupts=False)
    assert loser.returncode == 1, text
    assert f"another driver is running this job: pid {run.driver.pid} on host" in text
    assert run.wait() == 0, run.story() + output.read_text()
    judge(run, computed(run.records), seed)


def stands_still(process: int) -> bool:
    """Whether all threads of a process are stopped."""
    stats = [stat.read_text() for stat in Path(f"/proc/{process}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def assert_refused(run: LedgerRun) -> None:
    """Start a driver although there is one: it says who that is, and ends."""
    second, output = run.start_second()
    run.strike("second driver", interrupts=False)
    code = second.wait(TIMEOUT_S)
    text = output.read_text()
    assert code == 1, text
    assert f"FencedError: another driver is running this job: pid {run.driver.pid} on host" in text
    assert "stop the other driver" in text
