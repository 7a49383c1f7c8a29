"""Requests, failures and ends of a job that come at the wrong moment: everyone is answered, and the job goes on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.common import Encoder, JobStatus
from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.connectors.filesystem.sink import FileSink
from penstock.datastream import MapFunction
from penstock.errors import ArgumentError, CheckpointError, InvalidProgramError, JobCancelledError
from penstock.jobmanager.checkpointing import savepoints as savepoint_service
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.job_master import job_master
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.rescaling.scaling import JobScaling
from penstock.jobmanager.running.epochs.runner import EpochRunner
from penstock.savepoint.reader import is_savepoint
from penstock.testing import MiniCluster
from tests.builders.counting_job import Counting, environment, totals
from tests.builders.environments import configured
from tests.builders.steps import at_step, before_each_epoch

Act = Callable[[JobMaster, int], Any]
RESTARTS = {"restart_strategy__type": "fixed-delay", "restart_strategy__fixed_delay__delay": "0 s"}


def run(
    act: Act, parallelism: int = 1, source: Any = None, **options: str
) -> tuple[Counter[tuple[int, int]], JobMaster]:
    """Run the totals; `act` is called before each epoch. Return the output, and who ran the job."""
    found: Counter[tuple[int, int]] = Counter()
    with MiniCluster() as cluster:
        env = environment(parallelism, **options)
        with (
            before_each_epoch(lambda checkpoint_id: act(cluster.masters[0], checkpoint_id)),
            suppress(JobCancelledError),
        ):
            for each in totals(env, source).execute_and_collect():
                found[each] += 1
        return found, cluster.masters[0]


def until(last: int, act: Act | None = None) -> Act:
    """Cancel the job after an epoch, and do something else before each."""

    def both(master: JobMaster, checkpoint_id: int) -> None:
        if act is not None:
            act(master, checkpoint_id)
        if checkpoint_id == last:
            master.cancel(graceful=True)

    return both


@pytest.fixture(scope="module")
def undisturbed() -> Counter[tuple[int, int]]:
    """What six epochs of the job put out."""
    return run(until(6))[0]


# Rescaling


@contextmanager
def savepoints_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let savepoints be written only when the event is set."""
    released, write = threading.Event(), savepoint_service.write_savepoint

    def held(manifest: Manifest, *arguments: Any, **how: Any) -> str:
        assert released.wait(60)
        return write(manifest, *arguments, **how)

    with monkeypatch.context() as patch:
        patch.setattr(savepoint_service, "write_savepoint", held)
        yield released
        released.set()


def test_a_job_may_be_rescaled_while_its_savepoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Counter[Any]
) -> None:
    answers: list[Future[str]] = []
    kept: dict[int, list[int]] = {}

    with savepoints_held(monkeypatch) as released:

        def act(master: JobMaster, checkpoint_id: int) -> None:
            kept[checkpoint_id] = master.store.list_checkpoint_ids()
            if checkpoint_id == 1:
                answers.append(master.request_savepoint(str(tmp_path / "savepoints")))
            if checkpoint_id == 2:
                master.request_rescale(3)
            if checkpoint_id == 4:
                released.set()
                answers[0].result(60)
                for _, thread in master.savepoints._running:
                    thread.join()

        found, master = run(until(6, act), 2, penstock__state__inline_threshold="0 b")
    assert found == undisturbed
    assert {vertex.parallelism for vertex in master.job.plan.vertices} >= {3}
    assert kept[4] == [2, 3]  # what the savepoint is made of is spared, over the rescaling too
    assert kept[6] == [5]  # and no longer than that
    assert is_savepoint(answers[0].result(0))


def storage_fails_once(monkeypatch: pytest.MonkeyPatch, in_epoch: int) -> list[int]:
    """Let reading the manifests fail once, after an epoch; return where it will be noted."""
    failed: list[int] = []
    read_all = ManifestStore.read_all

    def failing(store: ManifestStore) -> list[Manifest]:
        manifests = read_all(store)
        if not failed and manifests and manifests[-1].checkpoint_id == in_epoch:
            failed.append(in_epoch)
            raise CheckpointError("storage is away")
        return manifests

    monkeypatch.setattr(ManifestStore, "read_all", failing)
    return failed


def test_a_rescaling_that_fails_half_way_is_completed_by_the_restart(
    monkeypatch: pytest.MonkeyPatch, undisturbed: Counter[Any]
) -> None:
    answers: list[Future[dict[str, int]]] = []
    failed = storage_fails_once(monkeypatch, 3)

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 3:
            answers.append(master.request_rescale(4))

    found, master = run(until(6, act), 2, **RESTARTS)
    assert (found, failed, master.restarts) == (undisturbed, [3], 1)
    assert max(answers[0].result(0).values()) == 4


def test_a_rescaling_that_fails_half_way_is_answered_if_the_job_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Future[dict[str, int]]] = []
    storage_fails_once(monkeypatch, 3)

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 3:
            answers.append(master.request_rescale(4))

    with pytest.raises(Exception, match="storage is away"):
        run(until(6, act), 2, restart_strategy__type="none")
    assert isinstance(answers[0].exception(0), JobCancelledError)


def test_a_plan_that_cannot_be_made_is_reported_and_the_job_continues(
    monkeypatch: pytest.MonkeyPatch, undisturbed: Counter[Any], caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Future[dict[str, int]]] = []

    def fail(*_: Any) -> Any:
        raise TypeError("cannot pickle that")

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 3:
            monkeypatch.setattr(job_master, "rescaled", fail)
            answers.append(master.request_rescale(4))

    found, master = run(until(6, act), 2)
    assert (found, master.restarts) == (undisturbed, 0)
    assert isinstance(answers[0].exception(0), TypeError)
    assert "was not rescaled (requested): cannot pickle that" in caplog.text


@pytest.mark.parametrize(
    ("parallelism", "vertices", "expected"),
    [
        pytest.param(3, {"totals": 2}, {2, 3}, id="both"),
        pytest.param(3, {"totals": 129}, InvalidProgramError, id="the-second-is-refused"),
        pytest.param(129, {"totals": 2}, InvalidProgramError, id="the-first-is-refused"),
    ],
)
def test_a_number_and_names_are_taken_together_or_not_at_all(
    parallelism: int, vertices: dict[str, int], expected: Any, undisturbed: Counter[Any]
) -> None:
    answers: list[Future[dict[str, int]]] = []

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 3:
            answers.append(master.request_rescale(parallelism, vertices))

    found, master = run(until(6, act), 1)
    has = {vertex.parallelism for vertex in master.job.plan.vertices}
    assert found == undisturbed
    if isinstance(expected, set):
        assert set(answers[0].result(0).values()) == has >= expected
    else:
        assert isinstance(answers[0].exception(0), expected)
        assert has == {1}


@pytest.mark.parametrize("parallelism", [0, "2", True, {"totals": 0}])
def test_what_is_not_a_parallelism_is_refused_when_it_is_asked_for(parallelism: Any) -> None:
    def act(master: JobMaster, _: int) -> None:
        with pytest.raises((ArgumentError, TypeError), match="the parallelism"):
            master.request_rescale(parallelism)

    run(until(1, act))


def test_what_others_read_of_a_job_does_not_go_back_while_it_is_rescaled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    masters: list[JobMaster] = []
    restore = EpochRunner.restore

    def look(runner: EpochRunner, manifest: Manifest | None) -> None:
        if masters:
            seen.append(LocalJobController(masters[0]).view().checkpoint_id)
        restore(runner, manifest)

    monkeypatch.setattr(EpochRunner, "restore", look)
    totals_before: dict[str, Any] = {}
    copies: list[str] = []

    def act(master: JobMaster, checkpoint_id: int) -> None:
        nonlocal totals_before
        if checkpoint_id == 3:
            masters.append(master)
            totals_before = master.metrics
            copies.append(repr(totals_before))
            master.request_rescale(3)

    run(until(5, act), 2)
    assert seen == [3]
    assert copies == [repr(totals_before)]  # the next epoch does not change totals that were read


# Failures between epochs


class Failing(Counting):
    """Its enumerator fails once, in one of its methods, after three epochs."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method
        self.failed: list[str] = []

    def create_enumerator(self, parallelism: int, restored: Any = None) -> Any:
        enumerator = super().create_enumerator(parallelism, restored)
        method = getattr(enumerator, self.method)
        calls: list[int] = []

        def failing(*arguments: Any) -> Any:
            calls.append(1)
            if len(calls) > 3 and not self.failed:
                self.failed.append(self.method)
                raise ValueError("no answer")
            return method(*arguments)

        setattr(enumerator, self.method, failing)
        return enumerator


@pytest.mark.parametrize("method", ["has_data", "snapshot", "observe", "discover"])
def test_a_source_that_fails_on_the_driver_is_a_matter_of_the_restart_strategy(
    method: str, undisturbed: Counter[Any]
) -> None:
    source = Failing(method)
    found, master = run(until(6), source=source, **RESTARTS)
    assert (found, master.restarts, source.failed) == (undisturbed, 1, [method])


def test_a_source_that_fails_to_tell_its_backlog_does_not_concern_the_job(
    undisturbed: Counter[Any], caplog: pytest.LogCaptureFixture
) -> None:
    source = Failing("backlog")
    found, master = run(until(6), source=source, job__autoscaler__enabled="true")
    assert (found, master.restarts, source.failed) == (undisturbed, 0, ["backlog"])
    assert caplog.text.count("reading the backlog of source") == 1


def test_storage_that_stays_away_after_a_tolerated_failure_is_tolerated_too(
    monkeypatch: pytest.MonkeyPatch, undisturbed: Counter[Any]
) -> None:
    write, failed = ManifestStore.write, []

    def failing(store: ManifestStore, manifest: Manifest) -> None:
        if manifest.checkpoint_id == 4 and not failed:
            failed.append("write")
            storage_fails_once(monkeypatch, 3)
            raise CheckpointError("storage is away")
        write(store, manifest)

    monkeypatch.setattr(ManifestStore, "write", failing)
    found, master = run(
        until(6),
        execution__checkpointing__tolerable_failed_checkpoints="2",
        restart_strategy__type="none",
    )
    assert (found, master.restarts, failed) == (undisturbed, 0, ["write"])


def test_a_failure_restarts_the_load_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    resets: list[int] = []
    monkeypatch.setattr(JobScaling, "reset", lambda _: resets.append(1))
    write, failed = ManifestStore.write, []

    def failing(store: ManifestStore, manifest: Manifest) -> None:
        if not failed:
            failed.append(manifest.checkpoint_id)
            raise CheckpointError("storage is away")
        write(store, manifest)

    monkeypatch.setattr(ManifestStore, "write", failing)
    run(until(3), execution__checkpointing__tolerable_failed_checkpoints="1")
    assert resets == [1]


# Savepoints


def test_a_job_is_not_drained_for_a_savepoint_that_cannot_be_written(
    tmp_path: Path, undisturbed: Counter[Any]
) -> None:
    (tmp_path / "file").touch()
    answers: list[Future[str]] = []

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 3:
            answers.append(
                master.request_savepoint(str(tmp_path / "file"), stops=True, drains=True)
            )

    found, master = run(until(6, act))
    assert (found, master.status) == (undisturbed, JobStatus.CANCELED)
    assert isinstance(answers[0].exception(0), CheckpointError)


def test_all_requests_of_a_job_that_stops_are_answered(tmp_path: Path) -> None:
    answers: list[Future[Any]] = []

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 3:
            answers.append(master.request_savepoint(str(tmp_path), stops=True, drains=True))
            answers.append(master.request_savepoint(str(tmp_path)))
            answers.append(master.request_rescale(2))
            answers.append(master.request_savepoint(str(tmp_path), stops=True))

    _, master = run(act)
    assert master.status is JobStatus.FINISHED
    assert is_savepoint(answers[0].result(0))
    assert [type(answer.exception(0)) for answer in answers[1:]] == [JobCancelledError] * 3


# The end


def test_a_cancelled_job_is_cancelling_until_nothing_of_it_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[JobStatus] = []
    masters: list[JobMaster] = []
    release = ManifestStore.release

    def look(store: ManifestStore) -> None:
        seen.append(masters[0].status)
        release(store)

    monkeypatch.setattr(ManifestStore, "release", look)

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 2:
            masters.append(master)
            seen.append(master.status)
            master.cancel()
            seen.append(master.status)
            assert LocalJobController(master).view().end_ms is None

    _, master = run(act, execution__checkpointing__dir=str(tmp_path))
    assert [*seen, master.status] == [
        JobStatus.RUNNING,
        JobStatus.CANCELLING,
        JobStatus.CANCELLING,
        JobStatus.CANCELED,
    ]
    assert LocalJobController(master).view().end_ms is not None


class CancelsItself(MapFunction):
    """Cancels its job with the third record; the cluster is in this process."""

    cluster: MiniCluster

    def map(self, value: int) -> int:
        if value == 3:
            self.cluster.masters[0].cancel()
        return value


@pytest.mark.parametrize("chained", [True, False])
def test_a_bounded_job_that_is_cancelled_while_it_runs_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chained: bool
) -> None:
    env = configured({"restart-strategy.type": "none"}, 1)
    numbers = env.from_collection(list(range(400))).map(CancelsItself())
    (numbers if chained else numbers.disable_chaining()).sink_to(
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    )
    with MiniCluster() as cluster:
        monkeypatch.setattr(CancelsItself, "cluster", cluster, raising=False)
        with pytest.raises(JobCancelledError, match="was cancelled"):
            env.execute()
    assert cluster.masters[0].status is JobStatus.CANCELED
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("graceful", [True, False])
def test_a_job_that_has_said_it_is_cancelling_does_not_finish(graceful: bool) -> None:
    """It may be that nothing is left to do. Ctrl-C, which waits for the epoch under way, lets such a job finish."""
    env = configured({"restart-strategy.type": "none"}, 1)
    env.from_collection([1]).print()
    seen: list[JobStatus] = []

    def cancel(checkpoint_id: int) -> None:
        cluster.masters[0].cancel(graceful=graceful)
        seen.append(cluster.masters[0].status)

    with (
        MiniCluster() as cluster,
        at_step("after write_manifest", cancel),
        nullcontext() if graceful else pytest.raises(JobCancelledError),
    ):
        env.execute()
    assert [*seen, cluster.masters[0].status] == [
        JobStatus.CANCELLING,
        JobStatus.FINISHED if graceful else JobStatus.CANCELED,
    ]


def test_a_job_that_ends_can_no_longer_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    env = configured({"restart-strategy.type": "none"}, 1)
    env.from_collection([1]).print()
    seen: list[JobStatus] = []
    release = ManifestStore.release

    def cancel(store: ManifestStore) -> None:
        cluster.masters[0].cancel()
        seen.append(cluster.masters[0].status)
        release(store)

    monkeypatch.setattr(ManifestStore, "release", cancel)
    with MiniCluster() as cluster:
        env.execute()
    assert [*seen, cluster.masters[0].status] == [JobStatus.RUNNING, JobStatus.FINISHED]


@pytest.mark.parametrize("step", ["close", "delete_working_files"])
def test_what_fails_at_the_very_end_leaves_the_outcome_and_gives_the_job_up(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    owner: Any = EpochRunner if step == "close" else ManifestStore
    released: list[bool] = []
    release = ManifestStore.release

    def fail(_: Any) -> None:
        raise CheckpointError("storage is away")

    def note(store: ManifestStore) -> None:
        released.append(True)
        release(store)

    monkeypatch.setattr(owner, step, fail)
    monkeypatch.setattr(ManifestStore, "release", note)

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 2:
            master.request_savepoint(str(tmp_path / "sp"), stops=True, drains=True)

    _, master = run(act, execution__checkpointing__dir=str(tmp_path / "checkpoints"))
    assert (master.status, released) == (JobStatus.FINISHED, [True])
    assert "cleaning up job" in caplog.text


class Forgetful(Sink):
    """Its committers are counted, and cannot be closed."""

    def __init__(self) -> None:
        self.open = 0

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer:
        self.open += 1
        return _Unclosable(self)


class _Writer(SinkWriter):
    def write(self, values: list[Any], timestamps: Any, watermark: int) -> None:
        """Ignore."""

    def prepare_commit(self) -> list[Any]:
        return []


class _Unclosable(Committer):
    def __init__(self, sink: Forgetful) -> None:
        self.sink = sink

    def commit(self, request: Any) -> None:
        """Ignore."""

    def close(self) -> None:
        self.sink.open -= 1
        raise OSError("the connection is gone")


def test_every_committer_that_is_created_is_closed_and_may_fail_at_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Forgetful()
    env = environment(1, restart_strategy__type="none")
    totals(env).sink_to(sink)
    with MiniCluster() as cluster:

        def act(checkpoint_id: int) -> None:
            if checkpoint_id in {2, 4}:
                cluster.masters[0].request_rescale(checkpoint_id)
            if checkpoint_id == 6:
                cluster.masters[0].cancel(graceful=True)

        with before_each_epoch(act), suppress(JobCancelledError):
            env.execute()
    assert (cluster.masters[0].status, sink.open) == (JobStatus.CANCELED, 0)
    assert cluster.masters[0].restarts == 0
    assert caplog.text.count("closing _Unclosable failed") == 3


# The autoscaler's requests

AUTOSCALED = {
    "job__autoscaler__enabled": "true",
    "job__autoscaler__vertex__min_parallelism": "2",
    "job__autoscaler__vertex__max_parallelism": "3",
}


def test_the_autoscaler_gives_way_to_a_user_who_rescales_at_the_same_moment() -> None:
    answers: list[Future[dict[str, int]]] = []

    def act(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 1:  # after which the autoscaler wants 2
            answers.append(master.request_rescale(5))

    _, master = run(until(3, act), 1, **AUTOSCALED)
    assert max(answers[0].result(0).values()) == 5
    assert master.job.program.settings.parallelism == 5


def test_a_decision_of_the_autoscaler_that_is_refused_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise ArgumentError("the sink cannot merge")

    monkeypatch.setattr(job_master, "check_writer_states", refuse)
    _, master = run(until(3), 1, **AUTOSCALED)
    assert master.job.program.settings.parallelism == 1
    assert "was not rescaled (scale up from 1 to 2: " in caplog.text
    assert "the sink cannot merge" in caplog.text
