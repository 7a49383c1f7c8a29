"""Jobs whose snapshots are written beside processing: when that fails, or takes long, records go on and nothing is lost."""

from __future__ import annotations

import time

import pytest

from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.jobs.checkpoint import test_unaligned_jobs as jobs
from tests.jobs.checkpoint.test_unaligned_jobs import completed, eventually

cluster = jobs.cluster


@pytest.fixture(autouse=True)
def _fresh():
    jobs.COMMITTED.clear()
    jobs.FAIL.clear()
    jobs.SLOW.clear()


def environment(tmp_path, backend, **options):
    return jobs.environment(
        tmp_path,
        state__backend__type=backend,
        execution__checkpointing__unaligned__enabled="false",
        execution__checkpointing__tolerable_failed_checkpoints="1000",
        state__storage__fs__memory_threshold="0 b",
        **options,
    )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_that_could_not_be_written_is_in_the_next_checkpoint(cluster, tmp_path, backend):
    env = environment(tmp_path, backend)
    jobs.counting(env)
    client = env.execute_async("job")
    (master,) = cluster.masters
    eventually(lambda: completed(master) > 1, "a checkpoint")
    with storage_faults(StorageFaults(every=29, path="shared/", full=True)) as faults:
        before = completed(master)
        eventually(lambda: completed(master) > before + 3 and len(faults.struck) > 3, "failures")
    before = completed(master)
    eventually(lambda: completed(master) > before, "a checkpoint")
    assert master.restarts == 0  # records went on
    jobs.FAIL.set()
    eventually(lambda: master.restarts == 1, "the restart")
    before = completed(master)
    eventually(lambda: completed(master) > before, "a checkpoint")
    jobs.stop(client, tmp_path)
    jobs.check(at_least=500)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_records_go_on_while_a_snapshot_is_written(cluster, tmp_path, backend):
    env = environment(tmp_path, backend, execution__checkpointing__interval="20 ms")
    jobs.counting(env)
    client = env.execute_async("job")
    (master,) = cluster.masters
    eventually(lambda: completed(master) > 1, "a checkpoint")
    with storage_faults(StorageFaults(path="shared/", slow_s=0.5)):
        time.sleep(0.2)
        processed = jobs.Slow.processed
        time.sleep(0.3)  # all writes of this time are slow
        assert jobs.Slow.processed > processed + 100
    jobs.stop(client, tmp_path)
    jobs.check(at_least=500)
