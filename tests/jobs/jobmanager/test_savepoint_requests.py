"""Savepoints that are asked of a running job, and jobs that start from them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Encoder, Types
from penstock.common.job_status import JobStatus
from penstock.connectors.base import collection
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.errors import ArgumentError, CheckpointError, JobCancelledError, RecordError
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.savepoint.reader import is_savepoint
from penstock.testing import MiniCluster
from tests.builders.counting_job import Remembering, environment, totals
from tests.builders.steps import before_each_epoch

Build = Callable[[StreamExecutionEnvironment], Any]
Act = Callable[[JobMaster, int], Any]


def run(
    build: Build, act: Act, parallelism: int = 1, **options: str
) -> tuple[list[Any], JobMaster]:
    """Run a program to its end; `act` is called before each epoch. Return its output, and who ran it."""
    with MiniCluster() as cluster:
        found: list[Any] = []
        with (
            before_each_epoch(lambda checkpoint_id: act(cluster.masters[0], checkpoint_id)),
            suppress(JobCancelledError),
        ):
            found.extend(build(environment(parallelism, **options)).execute_and_collect())
        return found, cluster.masters[0]


class Ask:
    """Asks for savepoints before certain epochs; keeps the answers."""

    def __init__(self, directory: Path | None, *epochs: int, **how: bool) -> None:
        self.directory = None if directory is None else str(directory)
        self.epochs = epochs
        self.how = how
        self.answers: list[Future[str]] = []

    def __call__(self, master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id in self.epochs:
            self.answers.append(master.request_savepoint(self.directory, **self.how))


def both(*acts: Act) -> Act:
    def act(master: JobMaster, checkpoint_id: int) -> None:
        for each in acts:
            each(master, checkpoint_id)

    return act


def cancel_at(last: int) -> Act:
    return lambda master, checkpoint_id: (
        master.cancel(graceful=True) if checkpoint_id == last else None
    )


def test_a_savepoint_is_that_of_the_next_epoch_and_the_job_goes_on(tmp_path: Path) -> None:
    ask = Ask(tmp_path, 2)
    found, master = run(totals, both(ask, cancel_at(6)))
    assert len(found) == 60
    path = ask.answers[0].result(60)
    assert is_savepoint(path)
    again, _ = run(totals, cancel_at(4), 3, execution__state_recovery__path=path)
    assert sorted(again) == sorted(found[30:40])
    assert master.savepoints.last == path


def test_a_job_that_stops_with_a_savepoint_has_finished(tmp_path: Path) -> None:
    ask = Ask(tmp_path, 3, stops=True)
    found, master = run(totals, ask)
    assert (len(found), master.status) == (40, JobStatus.FINISHED)
    assert is_savepoint(ask.answers[0].result(0))


def test_two_savepoints_asked_for_at_once_are_both_taken(tmp_path: Path) -> None:
    ask = Ask(tmp_path, 2)
    run(totals, both(ask, ask, cancel_at(6)))
    assert len({answer.result(60) for answer in ask.answers}) == 2


def test_a_savepoint_that_cannot_be_written_leaves_the_job_running(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ask = Ask(tmp_path / "file", 2, stops=True)
    found, master = run(totals, both(ask, cancel_at(6)))
    assert (len(found), master.status) == (60, JobStatus.CANCELED)
    assert isinstance(ask.answers[0].exception(0), CheckpointError)


@pytest.mark.parametrize("stops", [False, True])
def test_a_directory_that_cannot_hold_a_savepoint_is_reported_as_such(
    tmp_path: Path, stops: bool
) -> None:
    place = tmp_path / "savepoints"
    place.write_text("a file")
    ask = Ask(place, 2, stops=stops)
    run(totals, both(ask, cancel_at(4)))
    with pytest.raises(CheckpointError) as caught:
        ask.answers[0].result(60)
    assert caught.value.message.startswith("could not write ")
    assert "savepoint" in caught.value.message
    assert caught.value.message.endswith(f": '{place}' is a file, not a directory")
    assert caught.value.hint == "delete the file or choose another directory for the savepoint"


def test_without_a_directory_there_is_no_savepoint(tmp_path: Path) -> None:
    def act(master: JobMaster, checkpoint_id: int) -> None:
        with pytest.raises(ArgumentError, match="needs a directory"):
            master.request_savepoint(None)
        master.cancel(graceful=True)

    run(totals, act)


def test_the_configured_directory_is_used(tmp_path: Path) -> None:
    ask = Ask(None, 1, stops=True)
    run(totals, ask, execution__checkpointing__savepoint_dir=str(tmp_path))
    assert ask.answers[0].result(0).startswith(str(tmp_path))


def test_a_savepoint_survives_the_failure_of_its_epoch(tmp_path: Path) -> None:
    ask = Ask(tmp_path, 2, stops=True)
    failed: list[int] = []

    def fail_once(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 3 and not failed:
            failed.append(checkpoint_id)
            raise RuntimeError("not this time")

    found, master = run(totals, both(fail_once, ask), restart_strategy__type="fixed-delay")
    assert (len(found), master.restarts, master.status) == (30, 1, JobStatus.FINISHED)
    assert is_savepoint(ask.answers[0].result(0))
    assert len(master.recovery_seconds) == 1


def test_a_savepoint_of_a_job_that_ends_first_is_an_error(tmp_path: Path) -> None:
    ask = Ask(tmp_path, 1)
    hurried = {"execution__checkpointing__interval": "1 min"}  # so that one epoch reads it all
    _, master = run(lambda env: env.from_collection([1]).map(lambda n: n), ask, **hurried)
    assert master.status is JobStatus.FINISHED
    assert isinstance(ask.answers[0].exception(0), JobCancelledError)


def test_operators_without_a_uid_are_named_when_a_savepoint_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def nameless(env: StreamExecutionEnvironment) -> Any:
        return totals(env).key_by(lambda pair: pair[0]).sum(1).name("sum of sums")

    run(nameless, Ask(tmp_path, 2, stops=True))
    assert "without a uid: 'sum of sums'" in caplog.text


def test_operator_state_without_a_uid_is_named_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def nameless(env: StreamExecutionEnvironment) -> Any:
        return totals(env).map(Remembering()).name("remembers")

    run(nameless, Ask(tmp_path, 2, stops=True))
    assert "without a uid: 'remembers'" in caplog.text
    assert "KEYED PROCESS" not in caplog.text


@pytest.mark.parametrize(("mode", "stays"), [("NO_CLAIM", True), ("CLAIM", False)])
def test_a_claimed_savepoint_is_deleted_when_it_is_not_needed_any_more(
    mode: str, stays: bool, tmp_path: Path
) -> None:
    ask = Ask(tmp_path, 2, stops=True)
    run(totals, ask)
    path = ask.answers[0].result(0)
    run(
        totals,
        cancel_at(6),
        execution__state_recovery__path=path,
        execution__state_recovery__claim_mode=mode,
    )
    assert is_savepoint(path) is stays


def test_operators_may_be_added_and_the_job_renamed(tmp_path: Path) -> None:
    ask = Ask(tmp_path, 2, stops=True)
    found, _ = run(totals, ask)

    def longer(env: StreamExecutionEnvironment) -> Any:
        return totals(env).key_by(lambda pair: pair[0]).sum(1).uid("new").map(lambda pair: pair)

    path = ask.answers[0].result(0)
    again, _ = run(longer, cancel_at(4), execution__state_recovery__path=path)
    assert len(found) == 30
    assert again[0] == (0, sum(range(0, 35, 5)))  # the old state goes on, the new one begins


def large_collection(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection(list(range(200_000))).uid("numbers").map(lambda n: n)


def test_a_collection_that_was_put_into_files_does_not_need_them_after_a_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "INLINE_LIMIT", 1)
    ask = Ask(tmp_path / "savepoints", 1, stops=True)
    found, _ = run(large_collection, ask)  # with temporary checkpoints, which are gone now
    path = ask.answers[0].result(0)
    again, _ = run(large_collection, lambda *_: None, execution__state_recovery__path=path)
    assert 0 < len(found) < 200_000
    assert sorted([*found, *again]) == list(range(200_000))


def test_another_collection_than_the_one_that_was_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection, "INLINE_LIMIT", 1)
    ask = Ask(tmp_path, 1, stops=True)
    run(large_collection, ask)
    path = ask.answers[0].result(0)
    with pytest.raises(RecordError, match="differs from the one that the checkpoint was reading"):
        run(
            lambda env: env.from_collection([1, 2]).uid("numbers").map(lambda n: n),
            lambda *_: None,
            execution__state_recovery__path=path,
        )


def written(out: Path) -> list[str]:
    return sorted(
        line
        for file in out.rglob("*")
        if file.is_file() and not file.name.startswith((".", "_"))
        for line in file.read_text().splitlines()
    )


def test_output_that_waits_for_a_full_file_is_published_before_a_savepoint_is_taken(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"

    def start(act: Act, **options: str) -> None:
        env = environment(1, execution__checkpointing__dir=str(tmp_path / "ck"), **options)
        sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).build()
        totals(env).map(str, Types.STRING()).sink_to(sink).uid("files")
        with MiniCluster() as cluster, before_each_epoch(lambda n: act(cluster.masters[0], n)):
            env.execute()

    ask = Ask(tmp_path / "savepoints", 3, stops=True)
    start(ask)
    assert len(written(out)) == 40
    last = Ask(tmp_path / "savepoints", 6, stops=True, drains=True)
    start(last, execution__state_recovery__path=ask.answers[0].result(0))
    expected, _ = run(totals, cancel_at(6))
    assert written(out) == sorted(map(str, expected))
