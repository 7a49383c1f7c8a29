"""What lay between two checkpoints of a pipelined job gives again the output and the state that it gave when it ran."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.connectors.base.source import SourceBatch, SourceReader
from penstock.jobmanager.running.journal import list_records, read_record, record_name
from penstock.runtime.task.pipelined.recorded_subtask import RecordedSubtask
from penstock.runtime.task.shared.subtask import Subtask
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.jobs.replay import programs
from tests.jobs.replay.recorded_runs import RETAINED, RecordedRun, Tape, in_turn

sys.path.append(str(Path(__file__).parents[2] / "faults" / "jobs"))

import zoo  # isort: skip - one small program for each kind of stateful operator

RECORDS = programs.BATCHES * programs.BATCH  # of a split
HELD_AT = {60, 120}  # how many of them are read before a checkpoint


class Held(programs.Bursts):
    """The same records, some for each of several checkpoints. A replay gets them at once, in batches of other sizes."""

    recording = False

    def create_reader(self):
        return _HeldReader() if Held.recording else programs._BurstReader(ragged=True)


class _HeldReader(SourceReader):
    """Gives a part of a split and goes on when a completed checkpoint has it. In between its batches are empty."""

    def __init__(self):
        self._completed = {}

    def on_checkpoint(self, split, position):
        self._completed[split.split_id] = position

    def read(self, split, position, limits):
        while position < RECORDS:
            if position in HELD_AT and self._completed.get(split.split_id, 0) < position:
                yield SourceBatch([], position)
                continue
            stop = min(position + programs.BATCH, RECORDS)
            rows = [programs.record(split.payload, number) for number in range(position, stop)]
            position = stop
            yield SourceBatch(rows, position, [row[2] for row in rows])
            yield SourceBatch([], position)


def record_flow(build, directory, *, parallelism=2, options=None):
    """Run a program pipelined; `build(env)` returns the stream whose records go to the tape."""
    settings = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(directory),
        "execution.checkpointing.num-retained": str(RETAINED),
        "pipeline.auto-watermark-interval": "5 ms",
        "restart-strategy.type": "none",
        "penstock.execution.mode": "pipelined",
        "penstock.replay.journal": "true",
        **(options or {}),
    }
    env = configured(settings, parallelism)
    tape, error = Tape(), None
    with pytest.MonkeyPatch.context() as patch, MiniCluster("pipelined") as cluster:
        patch.setattr(programs, "Bursts", Held)
        patch.setattr(Held, "recording", True)
        build(env).sink_to(tape).name("tape")
        try:
            env.execute("recorded")
        except Exception as failure:
            error = failure
    return RecordedRun(directory, cluster, tape, error)


def check_all(run, *, at_least=2):
    assert run.error is None
    epochs = run.epochs
    assert len(epochs) >= at_least
    total = 0
    for checkpoint_id in epochs:
        written = {
            subtask: records for subtask, records in run.written(checkpoint_id).items() if records
        }
        replayed, result = run.replayed(checkpoint_id, verify=True)
        assert result.failure is None
        assert {subtask: each for subtask, each in replayed.items() if each} == written
        assert result.state is not None
        assert result.state.differing == []
        assert result.approximations == ()
        total += sum(map(len, written.values()))
    assert total > 0


@pytest.mark.parametrize(("name", "parallelism"), in_turn(programs.PROGRAMS, [1, 2, 3]))
def test_what_the_clock_and_chance_decided_is_decided_again(name, parallelism, tmp_path):
    check_all(record_flow(programs.PROGRAMS[name], tmp_path, parallelism=parallelism))


# Those that need a clock which the test moves between intervals are for epochs.
FLOWING = [name for name, program in zoo.PROGRAMS.items() if not program.manual]


@pytest.mark.parametrize("name", FLOWING)
def test_every_operator_does_the_same_again(name, tmp_path):
    check_all(
        record_flow(lambda env: zoo.PROGRAMS[name].build(zoo.Inputs(env)), tmp_path), at_least=1
    )


@pytest.mark.parametrize("name", FLOWING[::7])
def test_the_rocksdb_backend_does_the_same_again(name, tmp_path):
    options = {"state.backend.type": "rocksdb"}
    build = zoo.PROGRAMS[name].build
    check_all(
        record_flow(lambda env: build(zoo.Inputs(env)), tmp_path, options=options), at_least=1
    )


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_barriers_that_overtake_records_change_nothing(name, tmp_path):
    options = {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.interval": "10 ms",
    }
    check_all(record_flow(programs.PROGRAMS[name], tmp_path, parallelism=3, options=options))


@pytest.mark.parametrize("splits", [1, 3])
def test_sources_replay_exactly_their_recorded_records(splits, tmp_path):
    run = record_flow(lambda env: programs.read(env, splits), tmp_path)
    assert run.error is None
    read = [
        run.replayed(checkpoint_id)[1].counts["Source: bursts"].records_in
        for checkpoint_id in run.epochs
    ]
    assert len(read) > 1
    assert sum(read) == splits * programs.BATCHES * programs.BATCH


class Refusing:
    """Refuses one record, after some checkpoints."""

    def __call__(self, value):
        if value[1] == 137:
            raise ValueError(f"no {value}")
        return value


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_failure_comes_again_with_the_same_record(parallelism, tmp_path):
    def build(env):
        return programs.read(env, 2).key_by(programs.key_of).map(Refusing())

    run = record_flow(build, tmp_path, parallelism=parallelism)
    assert run.error is not None
    _, result = run.replayed(None)
    assert isinstance(result.failure.error, ValueError)
    assert result.failure.record[1] == 137
    assert result.approximations == ()
    # Up to the failure all subtasks before it have done what they did.
    assert result.counts["Source: bursts"].records_out > 0


def test_a_failed_interval_has_no_calls_from_before_it(tmp_path, monkeypatch):
    """A slot may fail, or be asked to end, before it learns that the last checkpoint is complete."""
    learn = RecordedSubtask.on_completed

    def never_learn(self, checkpoint):
        if self.source is None:
            Subtask.on_completed(self, checkpoint)  # keeps what it recorded before the barrier
        else:
            learn(self, checkpoint)

    monkeypatch.setattr(RecordedSubtask, "on_completed", never_learn)
    run = record_flow(
        lambda env: programs.read(env, 2).key_by(programs.key_of).map(Refusing()), tmp_path
    )
    assert run.error is not None
    storage = CheckpointFileSystem(run.directory)
    (number,) = (number for number, failed in list_records(storage) if failed)
    record = read_record(storage, record_name(number, failed=True))
    parts = [part for trace in record.traces for part in trace.subtasks]
    assert {part.task.subtask for part in parts} == {0, 1}
    assert [p for p in parts if p.checkpoint is not None and p.checkpoint <= record.before] == []
    _, result = run.replayed(None)
    assert result.failure.record[1] == 137
    assert result.approximations == ()


def test_aborted_checkpoints_belong_to_the_next_interval(tmp_path, monkeypatch):
    from penstock.jobmanager.running.checkpoints import Checkpoints

    begin = Checkpoints.on_ack

    def giving_up(self, number, ack):
        if number % 3 and number < 12:
            return self.abort(number, "the test says so")
        return begin(self, number, ack)

    monkeypatch.setattr(Checkpoints, "on_ack", giving_up)
    run = record_flow(
        programs.late_records,
        tmp_path,
        options={"execution.checkpointing.tolerable-failed-checkpoints": "100"},
    )
    assert 3 in run.epochs
    assert 4 not in run.epochs
    for checkpoint_id in run.epochs:
        _, result = run.replayed(checkpoint_id, verify=True)
        assert result.state.differing == []
        assert result.approximations == ()
    first = {*run.written(1).get(0, ()), *run.written(2).get(0, ()), *run.written(3).get(0, ())}
    assert set(run.replayed(3)[0].get(0, ())) == first
