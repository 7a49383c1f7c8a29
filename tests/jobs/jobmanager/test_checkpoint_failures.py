"""Timeout and tolerable failures of checkpoints, in jobs."""

from __future__ import annotations

import threading

import pytest

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.errors import CheckpointError, JobExecutionError
from penstock.jobmanager.running import thread_cluster
from penstock.testing import MiniCluster
from tests.builders.counting_job import environment


class FailingWrites:
    """Lets the writing of some manifests fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, epochs: list[int]) -> None:
        self.failing = list(epochs)
        original = ManifestStore.write

        def write(store: ManifestStore, manifest: object) -> None:
            if self.failing and self.failing[0] == manifest.checkpoint_id:
                self.failing.pop(0)
                raise CheckpointError("could not write the manifest")
            original(store, manifest)

        monkeypatch.setattr(ManifestStore, "write", write)


def run(**options: str) -> tuple[list[tuple[int, int]], int]:
    env = environment(restart_strategy__type="none", **options)
    with MiniCluster() as cluster:
        numbers = env.from_collection(list(range(20)))
        found = list(
            numbers.key_by(lambda n: n % 2).reduce(lambda a, b: a + b).execute_and_collect()
        )
        return found, cluster.masters[0].restarts


def test_a_job_goes_on_after_as_many_failed_checkpoints_as_it_tolerates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, _ = run()
    writes = FailingWrites(monkeypatch, [1, 1])
    found, restarts = run(execution__checkpointing__tolerable_failed_checkpoints="2")
    assert (found, restarts, writes.failing) == (expected, 0, [])


def test_one_failed_checkpoint_more_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    FailingWrites(monkeypatch, [1, 1, 1])
    with pytest.raises(JobExecutionError, match="could not write the manifest"):
        run(execution__checkpointing__tolerable_failed_checkpoints="2")


def test_the_timeout_fails_an_epoch_that_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up, how = threading.Event(), []
    run_epoch = thread_cluster.ThreadCluster.run

    def cancel(_pipe: object, _job_id: str, **given: bool) -> None:
        how.append(given)
        given_up.set()

    def run_until_given_up(*arguments: object) -> object:
        assert given_up.wait(60)
        return run_epoch(*arguments)

    monkeypatch.setattr(thread_cluster.ThreadCluster, "cancel", cancel)
    monkeypatch.setattr(thread_cluster.ThreadCluster, "run", run_until_given_up)
    with pytest.raises(JobExecutionError, match="expired before completing: timeout of 1 ms"):
        run(execution__checkpointing__timeout="1 ms")
    assert how == [{"epoch_only": True}]  # a savepoint that is being written has time
