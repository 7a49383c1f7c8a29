"""An interval that is replayed gives the output and the state that it gave when it ran."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.jobmanager.running import journal as epoch_journal
from penstock.jobmanager.running.journal import read_record, record_name
from tests.jobs.replay import programs
from tests.jobs.replay.recorded_runs import in_turn, record_run

sys.path.append(str(Path(__file__).parents[2] / "faults" / "jobs"))

import zoo  # isort: skip - one small program for each kind of stateful operator

ZOO = list(zoo.PROGRAMS)
EVERY_FIFTH = ZOO[::5]
# An interval takes several batches, with watermarks between them.
OFTEN = {
    "execution.checkpointing.interval": "8 ms",
    "pipeline.auto-watermark-interval": "1 ms",
}


def zoo_program(name):
    return lambda env: zoo.PROGRAMS[name].build(zoo.Inputs(env))


def record_zoo(name, directory, **options):
    return record_run(zoo_program(name), directory, epoch_ms=zoo.CLOCK_MS, **options)


def check_all_epochs(run, *, at_least=3):
    """Replay all that can be replayed, and compare."""
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
        assert replayed == written
        assert result.state is not None
        assert result.state.differing == []
        assert result.approximations == ()
        total += sum(map(len, written.values()))
    assert total > 0


@pytest.mark.parametrize("name", ZOO)
def test_every_operator_does_the_same_again(name, tmp_path):
    check_all_epochs(record_zoo(name, tmp_path, seed=5))


@pytest.mark.parametrize(("name", "parallelism"), in_turn(EVERY_FIFTH, [1, 3]))
def test_parallelism_does_not_matter(name, parallelism, tmp_path):
    check_all_epochs(record_zoo(name, tmp_path, parallelism=parallelism, seed=6))


@pytest.mark.parametrize("name", ZOO[::9])
def test_the_rocksdb_backend_does_the_same_again(name, tmp_path):
    check_all_epochs(record_zoo(name, tmp_path, options={"state.backend.type": "rocksdb"}))


@pytest.mark.parametrize("keep_subtasks", [True, False], ids=["cached", "restored"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_what_the_clock_and_chance_decided_is_decided_again(
    name, parallelism, keep_subtasks, tmp_path
):
    run = record_run(
        programs.PROGRAMS[name],
        tmp_path,
        parallelism=parallelism,
        seed=7,
        keep_subtasks=keep_subtasks,
        options=OFTEN,
    )
    check_all_epochs(run)


def test_state_that_a_function_keeps_to_itself_is_not_replayed(tmp_path):
    # Attributes of a function live as long as its process: after a restart they would be gone, too.
    run = record_run(programs.running_order, tmp_path, options=OFTEN)
    replayed, _ = run.replayed(run.epochs[1])
    assert replayed != run.written(run.epochs[1])


def test_channels_arrive_in_the_order_in_which_they_arrived(tmp_path):
    run = record_run(
        programs.running_order,
        tmp_path,
        parallelism=3,
        seed=8,
        keep_subtasks=False,
        options=OFTEN,
    )
    check_all_epochs(run)


def test_a_reader_that_makes_other_batches_is_read_as_before(tmp_path):
    run = record_run(
        lambda env: programs.late_records(env, ragged=True),
        tmp_path,
        seed=9,
        options=OFTEN,
    )
    check_all_epochs(run)


@pytest.mark.parametrize("timeout_ms", [600_000, 3], ids=["all answered", "some time out"])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_async_calls_are_answered_in_the_order_in_which_they_were_answered(
    ordered, timeout_ms, tmp_path
):
    run = record_run(
        lambda env: programs.asked(env, ordered=ordered, timeout_ms=timeout_ms),
        tmp_path,
        seed=4,
        options=OFTEN,
    )
    check_all_epochs(run)
    answers = {
        value
        for checkpoint_id in run.epochs
        for each in run.written(checkpoint_id).values()
        for value, _ in each
    }
    assert any("late" in value for value in answers) is (timeout_ms == 3)


def test_async_calls_that_left_no_trace_are_answered_in_their_own_time(tmp_path):
    run = record_run(zoo_program("async_ordered"), tmp_path)
    storage = CheckpointFileSystem(run.directory)
    name = record_name(run.epochs[-1])
    untraced = dataclasses.replace(read_record(storage, name), traces=())
    storage.write_atomic(name, epoch_journal._encode(untraced))
    replayed, result = run.replayed(run.epochs[-1])
    assert result.failure is None
    assert result.approximations
    assert "'async wait operator'" in result.approximations[1]
    # What comes out in one interval or another is the same in the end.
    asked = Counter(
        value for checkpoint_id in run.epochs for value, _ in run.written(checkpoint_id).get(0, ())
    )
    assert {value for value, _ in replayed.get(0, ())} <= set(asked)


def test_counts_are_those_of_the_epoch(tmp_path):
    run = record_run(zoo_program("rolling_reduce"), tmp_path)
    _, result = run.replayed(run.epochs[0])
    source, reduce, _ = result.counts.values()
    assert (source.records_in, source.records_out) == (12, 12)
    assert (reduce.records_in, reduce.records_out) == (12, 12)
    assert len(result.records("tape")) == 12


def test_vertex_is_replayed_with_its_upstream_only(tmp_path):
    run = record_run(zoo_program("rolling_reduce"), tmp_path)
    result = run.replayed(run.epochs[1], vertex="0")[1]
    assert [name for name, counts in result.counts.items() if counts.records_out] == [
        "Source: left"
    ]
    assert result.counts["Source: left"].records_out == 6
    everything = run.replayed(run.epochs[1])[0]
    only, _ = run.replayed(run.epochs[1], vertex=1, subtask=1)
    assert only == {1: everything[1]}
