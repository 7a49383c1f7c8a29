"""Jobs whose snapshots are written beside processing: when that fails, or takes long, records go on and nothing is lost."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.files.faults import set_fault_hook
from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.builders.waiting import wait_until
from tests.jobs.checkpoint import test_unaligned_jobs as jobs
from tests.jobs.checkpoint.test_unaligned_jobs import completed

cluster = jobs.cluster


class Gentle(jobs.Fast):
    """Leaves time: barriers do not wait behind records."""

    def create_reader(self):
        return _GentleReader()


class _GentleReader(jobs._FastReader):
    def read(self, split, position, limits):
        time.sleep(0.02)
        yield from super().read(split, position, limits)


@pytest.fixture(autouse=True)
def _fresh():
    jobs.COMMITTED.clear()
    jobs.FAIL.clear()
    jobs.SLOW.clear()


def environment(tmp_path, backend, **options):
    return jobs.environment(
        tmp_path,
        state__backend__type=backend,
        execution__checkpointing__interval="20 ms",
        execution__checkpointing__unaligned__enabled="false",
        execution__checkpointing__tolerable_failed_checkpoints="1000",
        state__storage__fs__memory_threshold="0 b",
        taskmanager__memory__segment_size="32 kb",
        **options,
    )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_that_could_not_be_written_is_in_the_next_checkpoint(cluster, tmp_path, backend):
    env = environment(tmp_path, backend)
    jobs.counting(env, source=Gentle())
    client = env.execute_async("job")
    (master,) = cluster.masters
    wait_until(lambda: completed(master) > 1, "a checkpoint")
    with storage_faults(StorageFaults(every=13, path="shared/", full=True)) as faults:
        before = completed(master)
        wait_until(lambda: completed(master) > before + 1 and len(faults.struck) > 2, "failures")
    before = completed(master)
    wait_until(lambda: completed(master) > before, "a checkpoint")
    assert master.restarts == 0  # records went on
    jobs.FAIL.set()
    wait_until(lambda: master.restarts == 1, "the restart")
    before = completed(master)
    wait_until(lambda: completed(master) > before, "a checkpoint")
    jobs.stop(client, tmp_path)
    jobs.check(at_least=500)


class HeldWrites:
    """Lets writes of state begin, and holds them until the test lets them go."""

    def __init__(self):
        self.held = 0
        self.let_go = threading.Event()

    def __call__(self, action, path, call):
        if action == "write" and "shared/" in path:
            self.held += 1
            assert self.let_go.wait(3 * jobs.TIMEOUT_S)
        return call()

    def __enter__(self):
        self._before = set_fault_hook(self)
        return self

    def __exit__(self, *_):
        set_fault_hook(self._before)
        self.let_go.set()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_records_go_on_while_a_snapshot_is_written(cluster, tmp_path, backend):
    env = environment(tmp_path, backend)
    jobs.counting(env, source=Gentle())
    client = env.execute_async("job")
    (master,) = cluster.masters
    wait_until(lambda: completed(master) > 1, "a checkpoint")
    with HeldWrites() as writes:
        wait_until(lambda: writes.held == 2, "a write in each of the two slots")
        processed = jobs.Slow.processed
        wait_until(lambda: jobs.Slow.processed > processed + 100, "processing")
    jobs.stop(client, tmp_path)
    jobs.check(at_least=500)
