"""What the journal keeps and for how long; what is said when something that a replay needs is gone."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.errors import PenstockError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.running import journal as epoch_journal
from penstock.jobmanager.running.journal import list_records, read_record, record_name
from penstock.replay import ReplayError, epochs, replay
from penstock.replay.decisions import (
    ReplayedBatches,
    ReplayedClock,
    ReplayedDecisions,
    ReplayedIntervalDecisions,
)
from penstock.runtime.time.decisions import ClockLog, PackedRuns, RecordedDecisions, RunLog
from tests.jobs.replay import failing_jobs, programs
from tests.jobs.replay.recorded_runs import record_run

OFTEN = {"execution.checkpointing.interval": "8 ms"}


@pytest.fixture(autouse=True)
def _strict():
    failing_jobs.ALLOWED.clear()


def record(directory, **options):
    return record_run(programs.rebalanced, directory, options={**OFTEN, **options})


def names(run):
    return CheckpointFileSystem(run.directory).list("journal/")


# Keeping


@pytest.mark.parametrize("retained", [1, 3])
def test_records_go_with_the_checkpoints_that_they_start_from(retained, tmp_path):
    run = record(tmp_path, **{"execution.checkpointing.num-retained": str(retained)})
    last = run.epochs[-1]
    kept = [checkpoint_id for checkpoint_id, _ in list_records(CheckpointFileSystem(run.directory))]
    # The oldest lost its checkpoint when the job's last one was completed.
    assert kept == list(range(last - retained + 1, last + 1))
    assert len([name for name in names(run) if "plan-" in name]) == 1
    for checkpoint_id in kept[1:]:
        assert replay(run.directory, checkpoint_id).failure is None


def test_a_record_holds_no_state_that_the_checkpoint_holds(tmp_path):
    run = record_run(failing_jobs.in_a_keyed_process, tmp_path, options=OFTEN)
    manifest = ManifestStore.at(CheckpointFileSystem(run.directory)).read(2)
    local = max((s.local for v in manifest.vertices.values() for s in v.subtasks), key=len)
    found = read_record(CheckpointFileSystem(run.directory), record_name(3))
    assert found.base == 2
    assert local not in found.restore
    restored = found.load_restore(manifest)
    assert any(point.local == local for point in restored.values())


def test_state_of_another_job_is_part_of_the_record(tmp_path):
    first = record(tmp_path / "one", **{"execution.checkpointing.num-retained": "500"})
    run = record(tmp_path / "two", **{"execution.state-recovery.path": f"{first.directory}/chk-2"})
    found = read_record(CheckpointFileSystem(run.directory), record_name(3))
    assert (found.base, found.foreign) == (None, True)
    replayed, result = run.replayed(3, verify=True)
    assert replayed == run.written(3)
    assert result.state is not None
    assert result.state.differing == []


@pytest.mark.parametrize("options", [{"penstock.replay.journal": "false"}], ids=["switched off"])
def test_a_job_need_not_keep_a_journal(options, tmp_path):
    run = record(tmp_path, **options)
    assert names(run) == []
    with pytest.raises(ReplayError, match="no replay journal"):
        replay(run.directory)


def test_a_journal_that_cannot_be_written_fails_no_job(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError("no space left")

    monkeypatch.setattr(epoch_journal, "_encode", refuse)
    run = record(tmp_path)
    assert run.error is None
    assert names(run) == []
    assert "no space left" in caplog.text


def test_a_job_that_goes_on_takes_over_its_journal(tmp_path):
    run = record_run(failing_jobs.in_a_map, tmp_path, options=OFTEN)
    before = list_records(CheckpointFileSystem(run.directory))
    assert before[-1] == (run.epochs[-1] + 1, True)
    failing_jobs.ALLOWED.add("pass")
    again = record_run(
        failing_jobs.in_a_map,
        tmp_path,
        options={
            **OFTEN,
            "execution.state-recovery.path": run.directory,
            "execution.checkpointing.num-retained": "2",
        },
    )
    assert again.error is None
    assert again.directory == run.directory
    last = again.epochs[-1]
    after = [
        checkpoint_id for checkpoint_id, _ in list_records(CheckpointFileSystem(run.directory))
    ]
    assert after == [last - 1, last]
    assert len([name for name in names(again) if "plan-" in name]) == 1


def test_a_job_that_deletes_its_checkpoints_deletes_its_journal(tmp_path):
    run = record(tmp_path)
    assert names(run)
    run.master.store.delete_all()
    assert names(run) == []


# What is gone


def test_an_epoch_without_its_checkpoint_cannot_be_replayed(tmp_path):
    run = record(tmp_path, **{"execution.checkpointing.num-retained": "1"})
    with pytest.raises(
        ReplayError, match="the checkpoint that it starts from was deleted"
    ) as caught:
        replay(run.directory, run.epochs[-1])
    assert "the job retains 1" in str(caught.value)
    assert "execution.checkpointing.num-retained" in str(caught.value)


def test_an_epoch_that_is_not_in_the_journal_is_refused(tmp_path):
    run = record(tmp_path)
    with pytest.raises(ReplayError, match="no checkpoint 99") as caught:
        replay(run.directory, 99)
    assert ", ".join(map(str, run.epochs[-3:])) in str(caught.value)


def test_missing_directory_is_reported(tmp_path):
    with pytest.raises(ReplayError, match="no job in"):
        replay(str(tmp_path / "nowhere"))


def test_a_record_of_another_version_is_refused(tmp_path):
    run = record(tmp_path)
    CheckpointFileSystem(run.directory).write_atomic(record_name(1), b"penstock journal 0\n")
    with pytest.raises(PenstockError, match="was written by another version"):
        replay(run.directory, 1)


@pytest.mark.parametrize(
    ("vertex", "says"),
    [
        pytest.param("nothing", "in job 'recorded'", id="unknown"),
        pytest.param("e", "matches the vertices 0, 1", id="ambiguous"),
        pytest.param("7", "unknown vertex", id="number too high"),
    ],
)
def test_unknown_vertex_is_rejected_with_the_known_ones(vertex, says, tmp_path):
    run = record(tmp_path)
    with pytest.raises(ReplayError, match=says) as caught:
        replay(run.directory, 1, vertex)
    assert "Source: bursts" in str(caught.value)


def test_unknown_subtask_is_rejected(tmp_path):
    with pytest.raises(ReplayError, match="has no subtask 5"):
        replay(record(tmp_path).directory, 1, 0, 5)


def test_missing_input_is_reported(tmp_path, monkeypatch):
    run = record(tmp_path)
    monkeypatch.setattr(programs, "BATCHES", 0)
    monkeypatch.setattr("penstock.replay.decisions._TIMEOUT_S", 0.0)
    with pytest.raises(ReplayError, match="split 's0' no longer returns the records"):
        replay(run.directory, 2)


def test_an_epoch_that_left_no_trace_is_replayed_as_well_as_can_be(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "UNTRACED_S", 1.0)
    run = record_run(failing_jobs.in_a_map, tmp_path, options=OFTEN)
    storage = CheckpointFileSystem(run.directory)
    checkpoint_id = run.epochs[-1] + 1
    storage.delete(record_name(checkpoint_id, failed=True))
    found = read_record(storage, record_name(checkpoint_id))
    assert (found.outcome, found.traces) == ("running", ())
    result = replay(run.directory)
    assert result.checkpoint_id == checkpoint_id
    assert result.failure is not None
    assert result.failure.record == ("0-2", 137, 2720)
    assert "2 tasks ended without recording" in result.approximations[0]


def test_a_job_that_was_moved_is_replayed_where_it_is(tmp_path):
    run = record_run(failing_jobs.in_a_keyed_process, tmp_path / "there", options=OFTEN)
    moved = tmp_path / "here"
    moved.mkdir()
    (tmp_path / "there" / run.job_id).rename(moved / "any name")
    result = replay(str(moved / "any name"))
    assert result.failure is not None
    assert result.failure.record == ("0-2", 137, 2720)


# Traces


@given(st.lists(st.one_of(st.integers(-1, 3), st.booleans(), st.tuples(st.integers(0, 2)))))
def test_log_returns_the_added_values(values):
    log = RunLog()
    for value in values:
        log.add(value)
    packed = pickle.loads(pickle.dumps(log.pack()))
    assert list(packed) == values
    assert not packed.cut


def test_a_log_that_grows_too_long_says_so():
    log = RunLog(limit=3)
    for value in range(5):
        log.add(value)
    packed = log.pack()
    assert (list(packed), packed.cut) == ([0, 1, 2], True)


@given(st.lists(st.integers(0, 2**60)))
def test_replayed_clock_returns_the_recorded_readings(moments):
    shown = iter(moments)
    recording = RecordedDecisions(lambda: next(shown))
    recording.begin_interval()
    for _ in moments:
        recording.clock()
    trace = recording.trace(TaskId("v", 0))
    again = ReplayedDecisions(trace, 0, None, None)
    again.begin_interval()
    assert [again.clock() for _ in moments] == moments


def test_clock_readings_before_the_epoch_are_separate():
    shown = iter([1, 2, 30, 40])
    recording = RecordedDecisions(lambda: next(shown))
    recording.clock(), recording.clock()
    recording.begin_interval()
    recording.clock(), recording.clock()
    again = ReplayedDecisions(recording.trace(TaskId("v", 0)), 0, None, None)
    assert again.clock() == 1
    again.begin_interval()
    assert [again.clock(), again.clock()] == [30, 40]


def test_a_clock_without_readings_stays_within_the_epoch(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("penstock.replay.decisions.time.monotonic", lambda: now[0])
    clock = ReplayedClock(None, 5_000, 6_000)
    assert clock() == 5_000
    now[0] += 0.25
    assert clock() == 5_250
    now[0] += 60
    assert clock() == 6_000
    ended = ReplayedClock(ClockLog.of([(7_000, 1)]), 5_000, 6_000)
    assert [ended(), ended()] == [7_000, 7_000]


class Sized(SourceReader):
    """Gives the numbers from a position on in batches of given sizes, again and again, up to 30 of them."""

    def __init__(self, sizes):
        self.sizes = sizes

    def read(self, split, position, limits):
        for size in self.sizes:
            numbers = list(range(position, min(position + size, 30)))
            position += len(numbers)
            yield SourceBatch(numbers, position, [number * 10 for number in numbers])


@given(
    st.lists(st.integers(0, 7), min_size=1).filter(any),
    st.lists(st.integers(0, 9)).filter(lambda sizes: sum(sizes) <= 30),
)
def test_batches_are_cut_as_they_were(sizes, wanted):
    again = ReplayedBatches(
        Sized(sizes), SourceSplit("s"), 0, ReadLimits(), None, sleep=lambda seconds: None
    )
    taken = [again.take(size) for size in wanted]
    assert [len(batch.records) for batch in taken] == wanted
    numbers = [number for batch in taken for number in batch.records]
    assert numbers == list(range(sum(wanted)))
    times = [time for batch in taken if batch.records for time in batch.timestamps]
    assert times == [number * 10 for number in numbers]


@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 7),
)
@example([[[3], [3]]], 7)
def test_a_split_that_is_read_several_times_is_cut_as_it_was(parts, size):
    """Each part of the trace ends with a barrier; each time the split is read its reader ends. The last one may go on."""
    recording = RecordedDecisions(lambda: 0)
    split, position, traces, recorded = SourceSplit("s"), 0, [], []
    for part in parts:
        recording.begin_interval()
        for sizes in part:
            for batch in recording.batches(Sized(sizes), split, position, ReadLimits()):
                recorded.append(batch.records)
                position = batch.position
        traces.append(recording.trace(TaskId("v", 0)))
    again, position, found = ReplayedIntervalDecisions(traces, 0), 0, []
    for part in parts:
        again.begin_interval()
        for _ in part:
            for batch in again.batches(Sized([size] * 30), split, position, ReadLimits()):
                found.append(batch.records)
                position = batch.position
    assert found == recorded


def test_a_split_that_is_read_on_over_a_barrier_is_cut_as_it_was():
    recording = RecordedDecisions(lambda: 0)
    recording.begin_interval()
    batches = recording.batches(Sized([1, 2, 3, 1]), SourceSplit("s"), 0, ReadLimits())
    recorded = [next(batches).records, next(batches).records]
    traces = [recording.trace(TaskId("v", 0))]
    recorded += [batch.records for batch in batches]
    traces.append(recording.trace(TaskId("v", 0)))
    again = ReplayedIntervalDecisions(traces, 0)
    again.begin_interval()
    batches = again.batches(Sized([7]), SourceSplit("s"), 0, ReadLimits())
    found = [next(batches).records, next(batches).records]
    again.begin_interval()
    assert [*found, *(batch.records for batch in batches)] == recorded


def test_packed_runs_take_little_room():
    runs = [(1024, 500), (17, 1), (-1, 1)]
    assert len(pickle.dumps(PackedRuns.of(runs), 5)) < 150
