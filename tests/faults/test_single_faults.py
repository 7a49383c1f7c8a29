"""One fault each, on another mode and state backend each: the part of the suite that `make test` runs.

The other modules strike again and again, at moments that depend on the seed, and in all modes and with all backends.
"""

from __future__ import annotations

import random

import pytest
from fault_harness import NewRun, computed, existing, judge

from penstock.testing.storage_faults import StorageFaults
from tests.builders.modes import EPOCHS, PIPELINED, Way

pytestmark = pytest.mark.ci


def test_a_killed_python_worker_is_replaced(new_run: NewRun, rng: random.Random, seed: str) -> None:
    run = new_run(way=Way(PIPELINED, "hashmap", unaligned=True), released=True, redelivers=True)
    with run.without_end():
        run.start()
        assert run.wait_for_epochs(2), run.story()
        assert run.kill("worker", run.worker_of(rng.randrange(2))), run.story()
        assert run.wait_until(lambda: run.restarts() > 0), run.story()
        assert run.wait_for_redelivery(), run.story()
    assert run.wait() == 0, run.story()
    assert run.note_redeliveries() > 0
    judge(run, computed(run.records), seed)


def test_the_next_driver_goes_on_where_a_killed_one_was(new_run: NewRun, seed: str) -> None:
    run = new_run(way=Way(EPOCHS, "rocksdb"), released=True, redelivers=True)
    with run.without_end():
        run.start()
        assert run.wait_for_epochs(2), run.story()
        assert run.kill_driver(), run.story()
        reached = run.checkpoint_id()
        run.start()
        assert run.wait_for_redelivery(), run.story()
        assert run.wait_until(lambda: run.checkpoint_id() > reached), run.story()
    assert run.wait() == 0, run.story()
    assert run.note_redeliveries() > 0
    judge(run, computed(run.records), seed)


def test_a_job_goes_on_when_checkpoint_storage_is_no_longer_full(
    new_run: NewRun, seed: str
) -> None:
    run = new_run(way=Way(PIPELINED, "rocksdb"), released=True)
    is_full = run.directory / "is-full"
    faults = StorageFaults(full=True, path="/shared/", while_exists=str(is_full))
    with run.without_end():
        run.start(environment=faults.environment())
        assert run.wait_for_epochs(1), run.story()
        run.survive(existing(is_full))
    assert run.wait() == 0, run.story()
    assert run.said("checkpoint storage is full") > 0, run.story()
    judge(run, computed(run.records), seed)
