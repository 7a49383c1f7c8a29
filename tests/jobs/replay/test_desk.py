"""What one meets at a desk: a job that runs on, state that is gone, breakpoints, the subtask that failed."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import polars as pl
import pytest

from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.errors import FencedError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.jobmanager.running import journal as epoch_journal
from penstock.jobmanager.running.journal import read_record, record_name
from penstock.replay import ReplayError, ReplayRequest, debug, recording, replay
from penstock.replay.decisions import ReplayedBatches
from penstock.replay.recording import find_interval
from penstock.replay.targets import find_target
from penstock.runtime.time.decisions import RecordedDecisions
from tests.jobs.replay import failing_jobs, with_breakpoints
from tests.jobs.replay.recorded_runs import record_run
from tests.jobs.replay.test_failures import BAD_RECORD, OFTEN, record_failure, scripted
from tests.jobs.replay.test_replayed_epochs import check_all_epochs, zoo, zoo_program


@pytest.fixture(autouse=True)
def _strict():
    failing_jobs.ALLOWED.clear()


class Acting:
    """Does something to the job when an interval begins."""

    def __init__(self, actions):
        self.actions = dict(actions)
        self.answers = []

    def __enter__(self):
        self._patch = pytest.MonkeyPatch()
        acting, create = self, JobMaster.__init__

        def noted(master, job, progress, pipe, step_hooks=()):
            acting.master = master
            create(master, job, progress, pipe, (*step_hooks, acting._on_step))

        self._patch.setattr(JobMaster, "__init__", noted)
        return self

    def __exit__(self, *_):
        self._patch.undo()

    def _on_step(self, moment, checkpoint_id):
        action = self.actions.pop(checkpoint_id, None) if moment == "before run_pipe" else None
        if action is not None:
            self.answers.append(action(self.master))


# Intervals at the turns of a job's life


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", ["tumbling_process_with_lateness", "broadcast_process"])
def test_epochs_around_a_change_of_parallelism_are_replayed(name, backend, tmp_path):
    with Acting({2: lambda job: job.request_rescale(3), 4: lambda job: job.request_rescale(1)}):
        run = record_run(
            zoo_program(name),
            tmp_path,
            seed=3,
            epoch_ms=zoo.CLOCK_MS,
            options={"state.backend.type": backend},
        )
    slots = {
        find_interval(run.directory, checkpoint_id).plan.vertices[-1].parallelism
        for checkpoint_id in run.epochs
    }
    assert slots == {1, 2, 3}
    check_all_epochs(run)


@pytest.mark.parametrize("drains", [False, True], ids=["stop", "drain"])
def test_the_epoch_of_a_savepoint_and_the_ones_after_it_are_replayed(drains, tmp_path):
    target = str(tmp_path / "savepoints")

    def stop(job):
        return job.request_savepoint(target, stops=True, drains=drains)

    program = zoo_program("tumbling_process_with_lateness")
    with Acting({3: stop}) as acting:
        check_all_epochs(record_run(program, tmp_path / "first", epoch_ms=zoo.CLOCK_MS))
    if not drains:
        path = acting.answers[0].result(0)
        run = record_run(
            program,
            tmp_path / "second",
            parallelism=3,
            epoch_ms=zoo.CLOCK_MS,
            options={"execution.state-recovery.path": path, "state.backend.type": "rocksdb"},
        )
        check_all_epochs(run)


# What is gone


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_missing_state_is_not_a_failure_of_the_epoch(backend, tmp_path):
    run = record_run(
        zoo_program("rolling_reduce"),
        tmp_path,
        options={"state.backend.type": backend, "penstock.state.inline-threshold": "1 b"},
    )
    for file in Path(run.directory, "shared").iterdir():
        file.unlink()
    with pytest.raises(ReplayError, match="the state that the interval starts from cannot be read"):
        replay(run.directory, run.epochs[2])


@pytest.mark.parametrize("what", ["read_record", "read_plan"])
def test_a_job_that_goes_on_while_one_looks_for_an_epoch_says_so(what, tmp_path, monkeypatch):
    run = record_run(zoo_program("rolling_reduce"), tmp_path)
    inner = getattr(recording, what)

    def late(storage, name, *rest):
        storage.delete(name)
        return inner(storage, name, *rest)

    monkeypatch.setattr(recording, what, late)
    with pytest.raises(ReplayError, match="deleted by the running job"):
        replay(run.directory, run.epochs[2])


def test_an_epoch_under_way_is_not_taken_for_one_that_failed(tmp_path):
    run = record_failure("in_a_map", tmp_path)
    storage = CheckpointFileSystem(run.directory)
    failed = run.epochs[-1] + 1
    storage.write_new(f"chk-{failed}/_metadata", storage.read(f"chk-{failed - 1}/_metadata"))
    running = dataclasses.replace(
        read_record(storage, record_name(failed)),
        checkpoint_id=failed + 1,
        base=failed,
        outcome="running",
    )
    storage.write_atomic(record_name(failed + 1), epoch_journal._encode(running))
    assert (
        find_interval(run.directory).record.checkpoint_id == failed + 1
    )  # its driver is gone: it was killed
    lock = Path(run.directory, ".lock")
    lock.write_bytes(LeaseOwner("job", "far", 1, 0, "token").encode())
    assert find_interval(run.directory).record.checkpoint_id == failed


# Where one wants to be


def test_without_a_number_the_subtask_that_failed_is_meant(tmp_path):
    run = record_failure("in_a_keyed_process", tmp_path)
    found = find_interval(run.directory)
    vertex, subtask = found.record.failure.task
    assert find_target(found, vertex, None).subtask == subtask
    assert find_target(found, vertex, 0).subtask == 0
    assert find_target(found, 0, None).subtask == 0
    result = replay(run.directory, vertex=vertex)
    assert result.failure is not None
    assert result.failure.record == BAD_RECORD


def record_breakpoints(build, directory, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "breakpointhook", lambda: None)
        return record_run(build, directory, options=OFTEN, seed=3)


def test_a_breakpoint_of_the_program_is_stopped_at_and_the_failure_after_it(
    tmp_path, monkeypatch, capsys
):
    run = record_breakpoints(with_breakpoints.before_the_failure, tmp_path, monkeypatch)
    look = "p 'at', value[1]"
    scripted(monkeypatch, look, "continue", look, "continue", "p 'failing', value", "continue")
    result = debug(ReplayRequest(run.directory))
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if "'at'" in line] == [
        "(Pdb) ('at', 136)",
        "(Pdb) ('at', 137)",
    ]
    assert f"('failing', {BAD_RECORD!r})" in shown
    assert result.failure is not None


def test_a_quit_at_a_breakpoint_does_not_lead_to_the_failure(tmp_path, monkeypatch, capsys):
    run = record_breakpoints(with_breakpoints.before_the_failure, tmp_path, monkeypatch)
    scripted(monkeypatch, "quit")
    result = debug(ReplayRequest(run.directory))
    assert (result.failure, result.stopped) == (None, True)
    assert capsys.readouterr().out.count("(Pdb)") == 1


def test_breakpoints_before_the_vertex_are_passed_over(tmp_path, monkeypatch, capsys):
    run = record_breakpoints(with_breakpoints.before_an_exchange, tmp_path, monkeypatch)
    scripted(monkeypatch)
    result = replay(run.directory, vertex=1)
    assert result.failure is not None
    assert "Pdb" not in capsys.readouterr().out


# Reading again


class OneBatch(SourceReader):
    def __init__(self, count):
        self._count = count

    def read(self, split, position, limits):
        yield SourceBatch(list(range(position, self._count)), self._count, [0] * self._count)


def test_one_large_batch_is_cut_into_many_small_ones_in_linear_time():
    count = 200_000
    again = ReplayedBatches(OneBatch(count), SourceSplit("s"), 0, ReadLimits(), None)
    taken = [again.take(1).records[0] for _ in range(count)]
    assert taken == list(range(count))


class Frames(SourceReader):
    """Two frames of columns."""

    def read(self, split, position, limits):
        yield SourceBatch(pl.DataFrame({"a": [1, 2, 3]}), 3)
        yield SourceBatch(pl.DataFrame({"a": [4, 5]}), 5)


def test_columns_are_cut_as_they_were_read_before():
    again = ReplayedBatches(Frames(), SourceSplit("s"), 0, ReadLimits(), None)
    assert [again.take(size).records["a"].to_list() for size in (2, 2)] == [[1, 2], [3, 4]]
    assert [batch.records["a"].to_list() for batch in again.rest()] == [[5]]


class Mixed(SourceReader):
    """Knows the time of every other batch."""

    def read(self, split, position, limits):
        yield SourceBatch([1, 2], 2, [10, 20])
        yield SourceBatch([3, 4], 4)
        yield SourceBatch([5], 5, [50])


@pytest.mark.parametrize(
    ("sizes", "times"),
    [
        ([2, 2, 1], [[10, 20], None, [50]]),
        ([1, 3, 1], [[10], [20, None, None], [50]]),
        ([4, 1], [[10, 20, None, None], [50]]),
    ],
)
def test_each_record_keeps_its_own_time(sizes, times):
    again = ReplayedBatches(Mixed(), SourceSplit("s"), 0, ReadLimits(), None)
    assert [again.take(size).timestamps for size in sizes] == times


class Punctual(SourceReader):
    """Gives records only if there is time."""

    def read(self, split, position, limits):
        if not limits.expired:
            yield SourceBatch(["record"], 1)


def test_a_reader_is_given_time_even_if_the_epoch_had_none():
    again = ReplayedBatches(
        Punctual(), SourceSplit("s"), 0, ReadLimits(0.0), -0.001, sleep=lambda seconds: None
    )
    assert again.take(1).records == ["record"]


def test_clock_readings_before_a_failed_open_are_kept():
    readings = iter([1000, 1005])
    decisions = RecordedDecisions(lambda: next(readings))
    decisions.clock()
    decisions.clock()
    trace = decisions.trace(TaskId("v", 0))
    assert trace.opening.runs() == [(1000, 1), (1005, 1)]
    assert trace.clock.runs() == []


# The journal of a driver that has lost its job


def test_a_driver_that_lost_its_job_leaves_the_journal_alone(tmp_path):
    def take_over(job):
        (tmp_path / job.job.job_id / ".lock").write_bytes(
            LeaseOwner("other", "far", 1, 0, "token").encode()
        )

    with Acting({3: take_over}) as acting, pytest.raises(FencedError, match="has taken over"):
        record_run(zoo_program("rolling_reduce"), tmp_path)
    storage = acting.master.store.storage
    assert [checkpoint_id for checkpoint_id, _ in epoch_journal.list_records(storage)][-1] == 2


def test_a_driver_that_loses_its_job_during_an_epoch_does_not_write_how_it_ended(tmp_path):
    def take_over(job):
        pipe = job._cluster
        run = pipe.run

        def lose(*arguments):
            run(*arguments)
            lock = tmp_path / job.job.job_id / ".lock"
            lock.write_bytes(LeaseOwner("other", "far", 1, 0, "token").encode())

        pipe.run = lose

    with Acting({3: take_over}) as acting, pytest.raises(FencedError, match="has taken over"):
        record_run(zoo_program("rolling_reduce"), tmp_path)
    assert read_record(acting.master.store.storage, record_name(3)).outcome == "running"
