"""Exactly once, whatever dies: each record counts once in the output, and nothing else is left behind.

The job is `jobs/ledger.py`. Where a test strikes depends on the seed; a failure prints it.
"""

from __future__ import annotations

import random

import pytest
from fault_harness import LOCAL_CLUSTER, Expected, KillLog, NewRun, computed, judge

from penstock.testing.faults import EXIT_CODE, MOMENTS

DRIVER_KILLS = 8
WORKER_KILLS = 12
EXECUTOR_KILLS = 4
RAISES_PER_MOMENT = 3

BEFORE = [moment for moment in MOMENTS if moment.startswith("before")]
AFTER = [moment for moment in MOMENTS if moment.startswith("after")]


def test_an_undisturbed_run_puts_out_what_plain_python_computes(undisturbed: Expected) -> None:
    assert len(undisturbed["windows"]) > 1000
    assert len(undisturbed["counts"]) > 3000


def test_a_driver_that_is_killed_again_and_again_goes_on_where_it_was(
    new_run: NewRun, undisturbed: Expected, rng: random.Random, seed: str
) -> None:
    run = new_run()
    for kill in range(DRIVER_KILLS):
        run.start()
        if kill % 4 == 3:
            run.pause(rng.uniform(0, 4))  # perhaps before there is a Spark context
        else:
            assert run.wait_for_epochs(rng.randint(1, 3)), run.story()
            run.pause(rng.uniform(0, 0.3))
        # The JVM and the workers of this driver may live on for a while: the next one starts right away.
        assert run.kill_driver(), (
            f"seed {seed}: the job ended before kill {kill + 1}\n{run.story()}"
        )
    run.start()
    assert run.wait() == 0, run.story()
    judge(run, undisturbed, seed)


@pytest.mark.parametrize("moments", [BEFORE, AFTER], ids=["before", "after"])
def test_a_driver_that_dies_between_two_steps_goes_on_where_it_was(
    moments: list[str],
    new_run: NewRun,
    undisturbed: Expected,
    rng: random.Random,
    seed: str,
    kill_log: KillLog,
) -> None:
    run = new_run()
    for moment in moments:
        occurrence = 1 if moment.endswith("delete_files") else rng.randint(1, 4)
        run.start([(moment, occurrence, "exit")])
        assert run.wait() == EXIT_CODE, f"{moment} never came\n{run.story()}"
        kill_log.add("exit")
    run.start()
    assert run.wait() == 0, run.story()
    judge(run, undisturbed, seed)


def test_exceptions_between_any_two_steps_restart_the_job_in_place(
    new_run: NewRun, undisturbed: Expected, rng: random.Random, seed: str, kill_log: KillLog
) -> None:
    faults = []
    for moment in MOMENTS:
        # Files are deleted twice in a run: a fault before the first time, a fault after the second.
        rare = moment.endswith("delete_files")
        occurrences = [1] if rare else rng.sample(range(1, 30), RAISES_PER_MOMENT)
        faults += [(moment, occurrence, "raise") for occurrence in occurrences]
    run = new_run()
    run.start(faults)
    assert run.wait() == 0, run.story()
    judge(run, undisturbed, seed)
    assert run.said("never struck") == 0, run.story()
    assert run.said("job failed, restart") == len(faults), run.story()
    kill_log.add("exception", len(faults))


def test_python_workers_that_are_killed_are_replaced(
    new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(records=2000)
    run.start()
    killed = 0
    while killed < WORKER_KILLS and run.wait_for_epochs(1):
        run.pause(rng.uniform(0, 0.25))
        # At last the process that they are forked from: those that it has forked go on without it.
        victims = run.workers() if killed < WORKER_KILLS - 1 else run.daemons()
        if victims:
            killed += run.kill("worker", rng.choice(victims))
    assert run.wait() == 0, run.story()
    judge(run, computed(run.records), seed)
    assert killed == WORKER_KILLS, f"only {killed} kills, seed {seed}"


def test_executors_that_are_killed_are_replaced(
    new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(master=LOCAL_CLUSTER, records=1000)
    run.start()
    killed = 0
    while run.wait_for_epochs(rng.randint(1, 4)):
        run.pause(rng.uniform(0, 0.4))
        executors = run.executors()
        if killed < EXECUTOR_KILLS and executors:
            killed += run.kill("executor", rng.choice(executors))
    assert run.wait() == 0, run.story()
    judge(run, computed(run.records), seed)
    assert killed == EXECUTOR_KILLS, f"only {killed} kills, seed {seed}"


def test_an_epoch_that_mixes_two_attempts_of_a_source_never_completes(
    new_run: NewRun, seed: str, kill_log: KillLog
) -> None:
    run = new_run(master=LOCAL_CLUSTER, records=600)
    marker = run.directory / "lost"
    run.start(sabotage=marker)
    assert run.wait() == 0, run.story()
    killed = len(marker.read_text().split())
    kill_log.add("executor", killed)
    judge(run, computed(run.records), seed)
    assert killed == 2
    assert run.said("job failed, restart") == 1, run.story()
    assert run.said("got data from attempt") > 0, run.story()


def test_the_suite_struck_at_least_thirty_times(kill_log: KillLog) -> None:
    counts = kill_log.counts
    if len(counts) < 5:
        pytest.skip("only a part of the suite ran")
    assert sum(count for kind, count in counts.items() if kind != "exception") >= 30, counts
    assert counts["exception"] >= 24, counts
