"""What writers of sinks leave for the next ones, in whole programs."""

from __future__ import annotations

import pickle

import pytest

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import RestoreRefusedError
from penstock.jobmanager.job import Job
from penstock.jobmanager.restoring.writer_states import check_writer_states
from penstock.runtime.state.operator_state import WRITERS
from penstock.runtime.state.redistribution import count_writer_states
from tests.builders.remembering_sinks import Merging, Remembering
from tests.builders.scripted import _empty_log  # noqa: F401
from tests.jobs.runtime.test_rescaling import JOB_ID, Program, values

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def remembering(sink):
    return lambda stream: stream.rebalance().sink_to(sink).uid("out")


def latest(program):
    manifest = ManifestStore(CheckpointFileSystem(str(program.directory)), JOB_ID).latest()
    assert manifest is not None
    return manifest


def in_checkpoint(program):
    """The states of all writers, by subtask."""
    manifest = latest(program)
    (sink,) = [op for op, snapshot in manifest.operators.items() if snapshot.uid == "out"]
    locals_ = [each.local for each in manifest.vertices[manifest.operators[sink].vertex].subtasks]
    found = [pickle.loads(local)["operators"].get(sink, {}).get(WRITERS, []) for local in locals_]
    assert count_writer_states(locals_, sink) == sum(map(len, found))
    return found


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((1, 3, 2, 4), id="1 -> 3 -> 2 -> 4"),
        pytest.param((3, 3, 3), id="3 -> 3 -> 3"),
        pytest.param((4, 1, 5), id="4 -> 1 -> 5"),
    ],
)
def test_states_follow_a_resumed_job(program, steps):
    batches = [values(*range(n, n + 8)) for n in (0, 10, 20, 30)]
    for run, parallelism in enumerate(steps):
        program.run(parallelism, remembering(Merging()), batches[: run + 1])
        found = in_checkpoint(program)
        assert len(found) == parallelism
        kept = [value for own in found for state in own for value in state]
        assert sorted(kept) == sorted(n for batch in batches[: run + 1] for n, _ in batch)


def test_states_survive_epochs_without_records(program):
    batches = [values(*range(8)), [], [], values(9)]
    program.run(4, remembering(Merging()), batches[:1])
    program.run(2, remembering(Merging()), batches[:2])
    program.run(2, remembering(Merging()), batches[:3])
    assert sorted(in_checkpoint(program)) == [[[0, 4, 1, 5]], [[2, 6, 3, 7]]]
    program.run(3, remembering(Merging()), batches)
    kept = [value for own in in_checkpoint(program) for state in own for value in state]
    assert sorted(kept) == [*range(8), 9]


# The check before a plan is adopted


def planned(cluster, program, sink, parallelism):
    """The program as a job that has not run yet."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    stream = env.from_collection([1]).uid("in0").map(abs).uid("check0")
    remembering(sink)(stream)
    env.execute("planned")
    job = cluster.masters[-1].job
    assert isinstance(job, Job)
    return job


@pytest.mark.parametrize(
    ("sink", "parallelism", "refused"),
    [
        pytest.param(Remembering(), 4, False, id="as before"),
        pytest.param(Remembering(), 5, False, id="more"),
        pytest.param(Remembering(), 3, False, id="fewer, but enough for the states there are"),
        pytest.param(Remembering(), 2, True, id="too few"),
        pytest.param(Merging(), 2, False, id="too few, but it merges"),
    ],
)
def test_a_plan_that_would_lose_states_is_refused(cluster, program, sink, parallelism, refused):
    program.run(4, remembering(Remembering()), [values(1, 2, 3)])
    job = planned(cluster, program, sink, parallelism)
    if not refused:
        check_writer_states(job, latest(program))
        return
    with pytest.raises(RestoreRefusedError, match=r"'Sink: .*' cannot run with parallelism 2") as e:
        check_writer_states(job, latest(program))
    assert "its 4 writers have 3 states" in e.value.detail
    assert "at least 3" in e.value.hint
