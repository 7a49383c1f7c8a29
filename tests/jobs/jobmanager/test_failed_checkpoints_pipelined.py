"""Checkpoints that fail while the tasks go on: nothing is lost, nothing comes twice, and the job restarts only if it must."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.common import JobStatus
from penstock.datastream import MapFunction
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointSnapshot
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.testing import MiniCluster
from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.builders.counting_job import KEYS, Slowly, environment, totals
from tests.builders.steps import before_each_trigger

COMPLETED = 8  # checkpoints, after which the job is told to end
NO_FAULT = StorageFaults(slow_s=0.0001)
# Tasks are threads of this process: one of them stalls until a checkpoint was given up.
STALL = threading.Event()
GIVEN_UP = threading.Event()


class Stalls(MapFunction):
    """Stalls when it is told to."""

    def map(self, value: Any) -> Any:
        if STALL.is_set():
            STALL.clear()
            assert GIVEN_UP.wait(60)
        return value


def run(
    directory: Path,
    act: Callable[[int], None] = lambda number: None,
    *,
    rule: StorageFaults = NO_FAULT,
    **options: str,
) -> tuple[Counter[Any], JobMaster]:
    """Run a job until some checkpoints are complete; `act(number)` comes before each trigger."""
    STALL.clear()
    GIVEN_UP.clear()
    env = environment(
        2,
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="1000",
        restart_strategy__fixed_delay__delay="0 s",
        penstock__state__inline_threshold="0 b",
        **{
            "execution__checkpointing__interval": "10 ms",
            "execution__checkpointing__dir": str(directory / "checkpoints"),
            **options,
        },
    )
    stopping: list[Any] = []

    def before(number: int) -> None:
        master = cluster.masters[0]
        counts = master.statistics.snapshot()
        act(number)
        if counts.failed_count:
            GIVEN_UP.set()
        # A savepoint may be given up too.
        if counts.completed_count >= COMPLETED and all(each.done() for each in stopping):
            stopping.append(master.request_savepoint(str(directory / "s"), stops=True, drains=True))

    found: Counter[Any] = Counter()
    with (
        MiniCluster(mode="pipelined") as cluster,
        before_each_trigger(before),
        storage_faults(rule),
    ):
        for each in totals(env, Slowly()).map(Stalls()).execute_and_collect():
            found[each] += 1
    return found, cluster.masters[0]


def check(found: Counter[Any], master: JobMaster) -> CheckpointSnapshot:
    """The output is that of all numbers up to some, each once; return what was counted."""
    sums: Counter[int] = Counter()
    expected: Counter[Any] = Counter()
    for number in range(sum(found.values())):
        sums[number % KEYS] += number
        expected[number % KEYS, sums[number % KEYS]] += 1
    assert found == expected
    assert master.status is JobStatus.FINISHED
    return master.statistics.snapshot()


def left_over(directory: Path) -> list[str]:
    """Return the state files that the last checkpoint does not name."""
    (job,) = (directory / "checkpoints").iterdir()
    manifest = "".join(path.read_text() for path in job.glob("chk-*/_metadata"))
    return [path.name for path in job.glob("shared/*") if path.name not in manifest]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_that_cannot_be_written_now_and_then_costs_checkpoints_only(backend, tmp_path):
    rule = StorageFaults(first=5, last=9, full=True, path="shared/")
    found, master = run(
        tmp_path,
        rule=rule,
        state__backend__type=backend,
        execution__checkpointing__tolerable_failed_checkpoints="1000",
    )
    counts = check(found, master)
    assert counts.failed_count > 0
    assert master.restarts == 0
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("after", [False, True], ids=["not written", "written all the same"])
def test_a_manifest_that_fails_costs_one_checkpoint_and_its_output_comes_with_the_next(
    after, tmp_path
):
    rule = StorageFaults(first=3, last=8, after=after, path="_metadata")
    found, master = run(
        tmp_path,
        rule=rule,
        execution__checkpointing__tolerable_failed_checkpoints="10",
    )
    counts = check(found, master)
    assert master.restarts == 0
    assert len(list(tmp_path.glob("checkpoints/*/chk-*/_metadata"))) == 1
    assert counts.failed_count == 2


def test_a_checkpoint_that_takes_too_long_is_given_up_and_the_job_goes_on(tmp_path):
    def stall(number: int) -> None:
        if number == 3:
            STALL.set()

    found, master = run(
        tmp_path,
        stall,
        execution__checkpointing__timeout="300 ms",
        execution__checkpointing__tolerable_failed_checkpoints="1000000",
    )
    counts = check(found, master)
    assert counts.failed_count > 0
    assert master.restarts == 0
    assert "expired before completing: timeout of 300 ms" in _failure(master)


def test_one_failure_more_than_is_tolerated_restarts_the_job(tmp_path):
    rule = StorageFaults(first=6, last=20, full=True, path="shared/")
    found, master = run(
        tmp_path,
        rule=rule,
        execution__checkpointing__tolerable_failed_checkpoints="2",
    )
    check(found, master)
    assert master.restarts > 0


def _failure(master: JobMaster) -> str:
    failed = master.statistics.snapshot().failed
    assert failed is not None
    return failed.reason or ""
