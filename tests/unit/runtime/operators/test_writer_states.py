"""What writers of sinks leave for the next ones: it follows every change of parallelism."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointStorage
from penstock.connectors.sink import Sink, SinkWriter
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import RestoreRefusedError
from penstock.graph.operator_specs import SinkSpec
from penstock.jobmanager.job import Job
from penstock.jobmanager.writer_states import check_writer_states
from penstock.runtime.records import RowBatch
from penstock.runtime.state.operator_state import WRITERS
from penstock.runtime.state.redistribution import count_writer_states
from penstock.runtime.user_code import UserCodeError
from penstock.testing import OperatorHarness
from tests.builders.scripted import LOG, _empty_log  # noqa: F401
from tests.jobs.runtime.test_rescaling import JOB_ID, Program, values

pytestmark = pytest.mark.usefixtures("cluster")

EXTRAS = {"job_id": "job", "attempt": "t1", "staging": "/staging"}


class Writer(SinkWriter):
    """Remembers all values that it and its predecessors have written, unless "forget" is among them."""

    def __init__(self, context, restored):
        LOG(("created", context.subtask, restored))
        self.seen = list(restored or ())

    def write(self, values, timestamps, watermark):
        self.seen += values

    def prepare_commit(self):
        return []

    def snapshot(self):
        return None if "forget" in self.seen else self.seen


class Remembering(Sink):
    def create_writer(self, context, restored=None):
        return Writer(context, restored)


class Merging(Remembering):
    def merge_writer_states(self, states):
        LOG(("merged", tuple(map(tuple, states))))
        return [value for state in states for value in state]


def harness(sink, subtask=0, parallelism=1, snapshots=()):
    found = OperatorHarness(
        SinkSpec(sink), subtask=subtask, parallelism=parallelism, snapshots=snapshots, name="out"
    )
    found.context.extras = EXTRAS
    return found


def snapshots(sink, *batches):
    """One snapshot per subtask; None stands for a subtask that had no record."""
    found = []
    for subtask, batch in enumerate(batches):
        one = harness(sink, subtask, len(batches))
        if batch is not None:
            one.process_batch(RowBatch(list(batch)))
        found.append(one.snapshot())
    return found


def states(snapshot):
    return pickle.loads(snapshot.operator_state).get(WRITERS, [])


# One subtask


def test_a_state_waits_for_the_next_writer_over_epochs_without_records_and_restores():
    (snapshot,) = snapshots(Remembering(), "ab")
    for _ in range(3):
        restored = harness(Remembering(), snapshots=[snapshot])
        restored.snapshot()
        snapshot = restored.snapshot()
        assert states(snapshot) == [["a", "b"]]
    again = harness(Remembering(), snapshots=[snapshot])
    again.process_batch(RowBatch(["c"]))
    assert LOG.lines[-1] == ("created", 0, ["a", "b"])
    assert states(again.snapshot()) == [["a", "b", "c"]]


def test_a_writer_may_leave_nothing():
    one = harness(Remembering())
    one.process_batch(RowBatch(["a"]))
    one.snapshot()
    one.process_batch(RowBatch(["forget"]))
    left = one.snapshot()
    assert states(left) == []
    harness(Remembering(), snapshots=[left]).process_batch(RowBatch(["b"]))
    assert LOG.lines == [("created", 0, None)] * 2


# Another parallelism


@given(
    st.lists(st.none() | st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=6),
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
)
def test_every_state_goes_to_one_subtask_whatever_the_way(batches, ways):
    found = snapshots(Merging(), *batches)
    for parallelism in ways:
        subtasks = [harness(Merging(), n, parallelism, found) for n in range(parallelism)]
        found = [subtask.snapshot() for subtask in subtasks]
    kept = [value for snapshot in found for state in states(snapshot) for value in state]
    assert kept == [value for batch in batches if batch for value in batch]
    assert all(len(states(snapshot)) <= 1 for snapshot in found)


def test_with_more_subtasks_every_state_stays_one_and_nothing_is_merged():
    found = snapshots(Remembering(), "a", None, "b")
    new = [harness(Remembering(), n, 5, found).snapshot() for n in range(5)]
    assert [states(snapshot) for snapshot in new] == [[["a"]], [["b"]], [], [], []]


def test_a_sink_that_cannot_merge_is_named_when_it_is_restored():
    found = snapshots(Remembering(), "a", "b", "c")
    with pytest.raises(RestoreRefusedError, match="Remembering cannot merge") as caught:
        harness(Remembering(), 0, 1, found)
    assert "3 former subtasks" in caught.value.detail
    assert "merge_writer_states" in caught.value.hint
    harness(Merging(), 0, 1, found)
    assert LOG.lines[-1] == ("merged", (("a",), ("b",), ("c",)))


def test_states_of_fewer_writers_than_subtasks_need_no_merging():
    found = snapshots(Remembering(), "a", None, None, "b")
    new = [harness(Remembering(), n, 2, found).snapshot() for n in range(2)]
    assert [states(snapshot) for snapshot in new] == [[["a"]], [["b"]]]


def test_what_merging_raises_is_the_users_error():
    class Bad(Remembering):
        def merge_writer_states(self, states):
            raise ValueError("no")

    found = snapshots(Bad(), "a", "b")
    with pytest.raises(UserCodeError, match="ValueError: no"):
        harness(Bad(), 0, 1, found)


def test_what_merging_leaves_out_is_gone():
    class Nothing(Remembering):
        def merge_writer_states(self, states):
            return None

    found = snapshots(Nothing(), "a", "b")
    assert states(harness(Nothing(), 0, 1, found).snapshot()) == []


def test_a_sink_knows_whether_it_merges():
    assert not Remembering().merges_writer_states()
    assert Merging().merges_writer_states()


# Whole programs


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def remembering(sink):
    return lambda stream: stream.rebalance().sink_to(sink).uid("out")


def latest(program):
    manifest = ManifestStore(CheckpointStorage(str(program.directory)), JOB_ID).latest()
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
    assert "its 4 writers left 3 states" in e.value.detail
    assert "at least 3" in e.value.hint
