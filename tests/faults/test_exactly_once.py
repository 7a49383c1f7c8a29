"""Exactly once, whatever dies: each record counts once in the output, and nothing else is left behind.

The job is `jobs/ledger.py`. Where a test strikes depends on the seed; a failure prints it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fault_harness import LOCAL_CLUSTER, LedgerRun, NewRun, computed, judge

from penstock.testing.faults import EXIT_CODE, moments
from tests.builders.modes import SOAKS, SOME_WAYS, Way

DRIVER_KILLS = 3
WORKER_KILLS = 60 if SOAKS else 18
EXECUTOR_KILLS = 2
RAISES_PER_MOMENT = 3 if SOAKS else 2


def test_an_undisturbed_run_puts_out_what_plain_python_computes(new_run: NewRun, seed: str) -> None:
    run = new_run(records=600)
    run.start()
    assert run.wait() == 0, run.story()
    judge(run, computed(600), seed)
    assert len(run.lines("windows")) > 300
    assert len(run.lines("counts")) > 900


def moments_of(way: Way, seed: str) -> list[str]:
    """Half of the moments between two steps, one of each step; the other half is the other backend's."""
    there = moments(way.mode)
    turn = random.Random(seed).randrange(2) + (way.backend == "rocksdb")
    return [there[2 * step + (step + turn) % 2] for step in range(len(there) // 2)]


def test_a_driver_that_dies_again_and_again_goes_on_where_it_was(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    # After every restart the broker delivers records again, which must not be counted again.
    run = new_run(way=way, records=2200, redelivers=True)
    deaths = moments_of(way, seed) + [f"kill {number}" for number in range(DRIVER_KILLS)]
    rng.shuffle(deaths)
    with run.without_end():
        for death in deaths:
            die(run, death, rng, seed)
    run.start()
    assert run.wait() == 0, run.story()
    again = redelivered(run)
    judge(run, computed(run.records), seed)
    # Except before the first checkpoint.
    assert again > len(deaths) / 2


def die(run: LedgerRun, death: str, rng: random.Random, seed: str) -> None:
    """Start a driver that dies. Its JVM and workers may live on for a while: the next one starts right away."""
    if death in moments(run.way.mode):
        occurrence = 1 if death.endswith("delete_files") else rng.randint(1, 3)
        run.start([(death, occurrence, "exit")])
        assert run.wait() == EXIT_CODE, f"seed {seed}: {death} never came\n{run.story()}"
        run.strike("driver exits")
        return
    run.start()
    if death == "kill 0":
        run.pause(rng.uniform(0, 4))  # perhaps before there is a Spark context
    else:
        assert run.wait_for_epochs(rng.randint(1, 2)), run.story()
        run.pause(rng.uniform(0, 0.3))
    assert run.kill_driver(), f"seed {seed}: the job ended before {death}\n{run.story()}"


def redelivered(run: LedgerRun) -> int:
    """Take note of how often records were delivered again."""
    times = len(Path(run.directory, "redelivered").read_text().splitlines())
    run.strike("records again", times, interrupts=False)
    return times


def test_exceptions_between_any_two_steps_restart_the_job_in_place(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    # After every restart the source finds its splits again, and delivers records again.
    run = new_run(way=way, forgets=True, redelivers=True)
    faults = []
    for moment in moments(way.mode):
        # Files may be deleted twice in a run only: a fault before the first time, a fault after the second.
        rare = moment.endswith("delete_files")
        occurrences = [1] if rare else rng.sample(range(1, 30), RAISES_PER_MOMENT)
        faults += [(moment, occurrence, "raise") for occurrence in occurrences]
    run.restarts_are = "exception"
    run.start(faults)
    assert run.wait() == 0, run.story()
    run.strike("splits again", run.said("again: it is not read again"), interrupts=False)
    again = redelivered(run)
    judge(run, computed(run.records), seed)
    assert run.said("never struck") == 0, run.story()
    assert run.restarts() == len(faults), run.story()
    # Except before the first checkpoint, and when the next fault struck while the job was restored.
    assert run.said("again: it is not read again") > len(faults) / 2
    assert again > len(faults) / 2


def test_python_workers_that_are_killed_are_replaced(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    # Enough records for each kill: what is delivered again is counted at the end.
    run = new_run(way=way, records=max(1400, 70 * WORKER_KILLS), redelivers=True)
    killed = 0
    with run.without_end():
        run.start()
        while killed < WORKER_KILLS and run.wait_for_epochs(1):
            run.pause(rng.uniform(0, 0.25))
            # At last the process that they are forked from: those that it has forked go on without it.
            victims = run.workers() if killed < WORKER_KILLS - 1 else run.daemons()
            if victims:
                killed += run.kill("worker", rng.choice(victims))
    assert run.wait() == 0, run.story()
    again = redelivered(run)
    judge(run, computed(run.records), seed)
    assert killed == WORKER_KILLS, f"only {killed} kills, seed {seed}"
    # One that dies before records come has nothing delivered again.
    assert again > WORKER_KILLS / 6


@pytest.mark.parametrize("way", SOME_WAYS, ids=str)
def test_executors_that_are_killed_are_replaced(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(way=way, master=LOCAL_CLUSTER, records=750)
    # At first all of them. In the middle of an epoch that mixes two attempts of the source, and never completes.
    marker = Path(run.directory, "lost")
    run.options["sabotage"] = str(marker)
    killed = 0
    with run.without_end():
        run.start()
        assert run.wait_until(lambda: marker.exists() and len(marker.read_text().split()) == 2)
        run.strike("executor killed", 2)
        assert run.wait_until(lambda: run.restarts() == 1), run.story()
        if not way.flows:
            assert run.said("got data from attempt") > 0, run.story()
        while killed < EXECUTOR_KILLS and run.wait_for_epochs(rng.randint(1, 4)):
            run.pause(rng.uniform(0, 0.4))
            if executors := run.executors():
                killed += run.kill("executor", rng.choice(executors))
        assert run.wait_for_epochs(1), run.story()
    assert run.wait() == 0, run.story()
    judge(run, computed(run.records), seed)
    assert killed == EXECUTOR_KILLS, f"only {killed} kills, seed {seed}"
