"""Timeout and tolerable failures of checkpoints."""

from __future__ import annotations

import threading

import pytest

from penstock.checkpoint.handles import DamagedStateError
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.errors import CheckpointError, JobExecutionError, RestoreRefusedError
from penstock.jobmanager.checkpoint_failures import CheckpointExpiredError, CheckpointFailures
from penstock.testing import mini_cluster
from penstock.testing.mini_cluster import MiniCluster
from tests.builders.counting_job import environment

STORAGE = CheckpointError("could not write")


@pytest.mark.parametrize(
    ("tolerable", "failures", "expected"),
    [
        pytest.param(0, [STORAGE], [False], id="none-is-tolerated-by-default"),
        pytest.param(2, [STORAGE] * 3, [True, True, False], id="as-many-in-a-row-as-it-says"),
        pytest.param(1, [STORAGE] * 4, [True, False, True, False], id="anew-after-a-restart"),
        pytest.param(1, [STORAGE, None, STORAGE], [True, True], id="a-success-in-between-counts"),
        pytest.param(9, [ValueError("user")], [False], id="user-code-is-no-checkpoint"),
        pytest.param(9, [DamagedStateError("x")], [False], id="damaged-state-has-its-own-way"),
        pytest.param(9, [RestoreRefusedError("x")], [False], id="what-does-not-fit-never-will"),
    ],
)
def test_failed_checkpoints_are_tolerated(
    tolerable: int, failures: list[Exception | None], expected: list[bool]
) -> None:
    counter = CheckpointFailures(tolerable)
    found = []
    for failure in failures:
        if failure is None:
            counter.on_success()
        else:
            found.append(counter.tolerates(failure))
    assert found == expected


def test_a_checkpoint_that_is_not_complete_in_time_is_given_up() -> None:
    given_up = threading.Event()
    with (
        pytest.raises(CheckpointExpiredError, match="after 1 ms"),
        CheckpointExpiredError.after(1, given_up.set),
    ):
        assert given_up.wait(10)


def test_what_the_pipe_says_when_it_is_given_up_is_only_the_cause() -> None:
    given_up = threading.Event()

    def pipe() -> None:
        assert given_up.wait(10)
        raise RuntimeError("job was cancelled")

    with (
        pytest.raises(CheckpointExpiredError) as caught,
        CheckpointExpiredError.after(1, given_up.set),
    ):
        pipe()
    assert str(caught.value.__cause__) == "job was cancelled"


@pytest.mark.parametrize("timeout", [None, 60_000])
def test_other_failures_pass_through(timeout: int | None) -> None:
    with pytest.raises(ValueError, match="user"), CheckpointExpiredError.after(timeout, list):
        raise ValueError("user")


class FailingWrites:
    """Lets the writing of some manifests fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, epochs: list[int]) -> None:
        self.failing = list(epochs)
        original = ManifestStore.write

        def write(store: ManifestStore, manifest: object) -> None:
            if self.failing and self.failing[0] == manifest.epoch:
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
    run_epoch = mini_cluster._LocalPipe.run

    def cancel(_pipe: object, _job_id: str, **given: bool) -> None:
        how.append(given)
        given_up.set()

    def run_until_given_up(*arguments: object) -> object:
        assert given_up.wait(10)
        return run_epoch(*arguments)

    monkeypatch.setattr(mini_cluster._LocalPipe, "cancel", cancel)
    monkeypatch.setattr(mini_cluster._LocalPipe, "run", run_until_given_up)
    with pytest.raises(JobExecutionError, match="not complete after 1 ms"):
        run(execution__checkpointing__timeout="1 ms")
    assert how == [{"epoch_only": True}]  # a savepoint that is being written has time
