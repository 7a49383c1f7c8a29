"""What writers of sinks leave for the next ones: it follows every change of parallelism."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import RestoreRefusedError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import SinkSpec
from penstock.runtime.records import RowBatch
from penstock.runtime.state.operator_state import WRITERS
from penstock.testing import OperatorHarness
from tests.builders.remembering_sinks import Merging, Remembering
from tests.builders.scripted import LOG, _empty_log  # noqa: F401

PLACE = {"job_id": "job", "attempt": "t1", "staging": "/staging"}


def harness(sink, subtask=0, parallelism=1, snapshots=()):
    return OperatorHarness(
        SinkSpec(sink),
        subtask=subtask,
        parallelism=parallelism,
        snapshots=snapshots,
        name="out",
        **PLACE,
    )


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


def test_exception_while_merging_writer_states_is_a_user_error():
    class Bad(Remembering):
        def merge_writer_states(self, states):
            raise ValueError("no")

    found = snapshots(Bad(), "a", "b")
    with pytest.raises(UserCodeError, match="ValueError: no"):
        harness(Bad(), 0, 1, found)


def test_writer_state_omitted_by_merging_is_dropped():
    class Nothing(Remembering):
        def merge_writer_states(self, states):
            return None

    found = snapshots(Nothing(), "a", "b")
    assert states(harness(Nothing(), 0, 1, found).snapshot()) == []


def test_a_sink_knows_whether_it_merges():
    assert not Remembering().merges_writer_states()
    assert Merging().merges_writer_states()


# Time


class ByTime(Remembering):
    commits_by_time = True


def test_committer_watermark_is_correct_after_each_rescale():
    subtasks = [harness(ByTime(), subtask, 2) for subtask in range(2)]
    subtasks[0].process_watermark(7)
    subtasks[1].process_watermark(5)
    subtasks[1].process_status(True)
    times = [each.operator.time_of_commit() for each in subtasks]
    assert times == [(7, False), (5, True)]
    found = [each.snapshot() for each in subtasks]
    again = [harness(ByTime(), subtask, 2, found).operator.time_of_commit() for subtask in range(2)]
    assert again == times
    others = [
        harness(ByTime(), subtask, 3, found).operator.time_of_commit() for subtask in range(3)
    ]
    assert others == [(7, False)] * 3


def test_committers_without_watermark_get_none():
    one = harness(Remembering())
    one.process_watermark(7)
    assert one.operator.time_of_commit() is None
    assert pickle.loads(one.snapshot().operator_state) == {}
