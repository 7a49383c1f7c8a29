"""Exactly once, whatever dies: each record counts once in the output, and nothing else is left behind.

The job is `jobs/ledger.py`. Where a test strikes depends on the seed; a failure prints it.
"""

from __future__ import annotations

import random
from pathlib import Path

from fault_harness import LOCAL_CLUSTER, LedgerRun, NewRun, computed, judge

from penstock.testing.faults import EXIT_CODE, moments
from tests.builders.modes import SOAKS, Way

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
    run = new_run(way=way, released=True, redelivers=True)
    deaths = moments_of(way, seed) + [f"kill {number}" for number in range(DRIVER_KILLS)]
    rng.shuffle(deaths)
    with run.without_end():
        for death in deaths:
            die(run, death, rng, seed)
        # A driver that died before records came had nothing delivered again: there is one more for each of these.
        while run.redeliveries() <= len(deaths) / 2:
            run.start()
            assert run.wait_for_redelivery(), run.story()
            assert run.kill_driver(), run.story()
        run.start()
        assert run.wait_for_redelivery(), run.story()
    assert run.wait() == 0, run.story()
    again = run.note_redeliveries()
    judge(run, computed(run.records), seed)
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


def test_exceptions_between_any_two_steps_restart_the_job_in_place(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    # After every restart the source finds its splits again, and delivers records again.
    run = new_run(way=way, released=True, forgets=True, redelivers=True)
    faults = []
    for moment in moments(way.mode):
        # Files may be deleted twice in a run only: a fault before the first time, a fault after the second.
        rare = moment.endswith("delete_files")
        occurrences = [1] if rare else rng.sample(range(1, 30), RAISES_PER_MOMENT)
        faults += [(moment, occurrence, "raise") for occurrence in occurrences]
    run.restarts_are = "exception"
    with run.without_end():
        run.start(faults)
        assert run.wait_until(lambda: run.restarts() >= len(faults)), run.story()
        assert run.wait_until(lambda: run.redeliveries() > len(faults) / 2), run.story()
    assert run.wait() == 0, run.story()
    run.strike("splits again", run.said("twice: it is not read again"), interrupts=False)
    again = run.note_redeliveries()
    judge(run, computed(run.records), seed)
    assert run.said("never struck") == 0, run.story()
    assert run.restarts() == len(faults), run.story()
    # Except before the first checkpoint, and when the next fault struck while the job was restored.
    assert run.said("twice: it is not read again") > len(faults) / 2
    assert again > len(faults) / 2


def test_python_workers_that_are_killed_are_replaced(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(way=way, released=True, redelivers=True)
    killed = 0
    with run.without_end():
        run.start()
        while killed < WORKER_KILLS and run.wait_for_epochs(1):
            run.pause(rng.uniform(0, 0.25))
            # At last the process that they are forked from: those that it has forked go on without it.
            victims = run.workers() if killed < WORKER_KILLS - 1 else run.daemons()
            if victims and run.kill("worker", rng.choice(victims)):
                killed += 1
                # Before that there is nothing that a further kill could deliver again.
                assert run.wait_for_redelivery(), run.story()
    assert run.wait() == 0, run.story()
    again = run.note_redeliveries()
    judge(run, computed(run.records), seed)
    assert killed == WORKER_KILLS, f"only {killed} kills, seed {seed}"
    assert again >= WORKER_KILLS


def test_executors_that_are_killed_are_replaced(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(way=way, master=LOCAL_CLUSTER, released=True)
    marker = Path(run.directory, "lost")
    run.options["sabotage"] = str(marker)
    killed = 0
    with run.without_end():
        run.start()
        # At first all of them. In the middle of an epoch that mixes two attempts of the source, and never completes. Once more if no task
        # of the epoch had ended before: then Spark runs all of them again, and nothing is mixed.
        while run.restarts() == 0:
            marker.unlink(missing_ok=True)
            assert run.wait_until(lambda: marker.exists() and len(marker.read_text().split()) == 2)
            run.strike("executor killed", 2)
            reached = run.checkpoint_id()
            assert run.wait_until(lambda: run.restarts() > 0 or run.checkpoint_id() > reached), (
                run.story()
            )
        if not way.pipelined:
            assert run.said("received data from attempt") > 0, run.story()
        while killed < EXECUTOR_KILLS and run.wait_for_epochs(rng.randint(1, 4)):
            run.pause(rng.uniform(0, 0.4))
            if executors := run.executors():
                killed += run.kill("executor", rng.choice(executors))
        assert run.wait_for_epochs(1), run.story()
    assert run.wait() == 0, run.story()
    judge(run, computed(run.records), seed)
    assert killed == EXECUTOR_KILLS, f"only {killed} kills, seed {seed}"
