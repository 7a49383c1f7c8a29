from __future__ import annotations

import pytest

from penstock.checkpoint.handles import SharedFile, StateChain, StateHandle
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_statistics import (
    CheckpointSnapshot,
    CheckpointStatistics,
    CheckpointStatus,
)
from penstock.runtime.network.messages import BarrierFigures, TaskAck
from tests.builders.checkpoint_builders import delta, full

PARALLELISM = {"read": 1, "sum": 2}
READ, SUM0, SUM1 = TaskId("read", 0), TaskId("sum", 0), TaskId("sum", 1)


def ack(task, chain=None, in_flight=None, **figures):
    return TaskAck(
        task,
        "a",
        {},
        {"total": chain} if chain else {},
        b"12345",
        figures=BarrierFigures(**figures),
        in_flight=in_flight,
    )


@pytest.fixture
def statistics():
    return CheckpointStatistics()


def complete(statistics, number, at_ms, *acks):
    statistics.on_trigger(number, PARALLELISM, at_ms)
    for delay, each in enumerate(acks, start=1):
        statistics.on_ack(number, each, at_ms + 10 * delay)
    statistics.on_complete(number, f"/chk-{number}", at_ms + 100)


def test_a_checkpoint_is_shown_while_it_is_under_way_and_when_it_is_complete(statistics):
    statistics.on_trigger(1, PARALLELISM, 1000)
    statistics.on_ack(1, ack(READ), 1010)
    (record,) = statistics.snapshot().history
    assert (record.status, set(record.subtasks)) == (CheckpointStatus.IN_PROGRESS, {READ})
    assert record.vertex("read").status is CheckpointStatus.COMPLETED
    assert record.vertex("sum").status is CheckpointStatus.IN_PROGRESS
    assert record.vertex("sum").totals().latest_ack_ms == -1
    statistics.on_ack(1, ack(SUM0), 1030)
    statistics.on_ack(1, ack(SUM1), 1020)
    statistics.on_complete(1, "/chk-1", 1100)
    found = statistics.snapshot()
    assert found.completed.totals().duration_ms == 30  # to the last ACK
    assert found.completed.totals().latest_ack_ms == 1030
    assert found.completed.path == "/chk-1"
    assert counts(found) == (0, 1, 0, 1, 0)


def counts(found):
    """Restores, all checkpoints, those in progress, completed and failed ones."""
    return (
        found.restored_count,
        found.count,
        found.in_progress_count,
        found.completed_count,
        found.failed_count,
    )


def test_only_what_was_added_counts_as_checkpointed(statistics):
    first = StateChain((full("a", 100),))
    complete(statistics, 1, 1000, ack(READ), ack(SUM0, first), ack(SUM1))
    second = first.append(delta("b", 7))
    complete(statistics, 2, 2000, ack(READ), ack(SUM0, second), ack(SUM1))
    one, two = (each.totals() for each in reversed(statistics.snapshot().history))
    local = 3 * 5
    assert (one.size, one.written) == (100 + local, 100 + local)
    assert (two.size, two.written) == (107 + local, 7 + local)


def test_shared_files_of_a_database_count_once(statistics):
    def database(*names):
        files = tuple(SharedFile(name, name, 50, 0) for name in names)
        handle = StateHandle("full", 3, 9, (0, 128), data=b"abc", snapshot="s", files=files)
        return StateChain((handle,))

    complete(statistics, 1, 1000, ack(SUM0, database("a.sst")))
    complete(statistics, 2, 2000, ack(SUM0, database("a.sst", "b.sst")))
    two, _ = statistics.snapshot().history
    assert (two.totals().size, two.totals().written) == (108, 55)


def test_what_was_written_for_an_aborted_checkpoint_is_not_written_again(statistics):
    statistics.on_trigger(1, PARALLELISM, 1000)
    statistics.on_ack(1, ack(SUM0, StateChain((full("a", 100),))), 1010)
    statistics.on_fail(1, "sum[1]: no", 1020)
    complete(statistics, 2, 2000, ack(SUM0, StateChain((full("a", 100),))))
    assert statistics.snapshot().completed.totals().written == 5


def test_a_failed_checkpoint_says_why(statistics):
    statistics.on_trigger(1, PARALLELISM, 1000)
    statistics.on_fail(1, "sum[1]: no", 1020)
    statistics.on_ack(1, ack(SUM0), 1030)  # too late
    statistics.on_complete(1, None, 1040)
    found = statistics.snapshot()
    assert found.failed_count == 1
    failed = found.failed
    assert (failed.status, failed.ended_ms, failed.reason) == (
        CheckpointStatus.FAILED,
        1020,
        "sum[1]: no",
    )
    assert not failed.subtasks


def test_the_last_ten_are_kept_and_all_are_counted(statistics):
    for number in range(1, 26):
        complete(statistics, number, 1000 * number, ack(READ))
    found = statistics.snapshot()
    assert [each.number for each in found.history] == list(range(25, 15, -1))
    assert found.completed_count == 25
    assert {each.duration_ms for each in found.totals} == {10}


def test_after_a_restore_what_was_under_way_has_failed_and_everything_is_new(statistics):
    complete(statistics, 1, 1000, ack(SUM0, StateChain((full("a", 100),))))
    statistics.on_trigger(2, PARALLELISM, 2000)
    statistics.on_restore(1, "/chk-1", 2500)
    found = statistics.snapshot()
    assert counts(found) == (1, 2, 0, 1, 1)
    assert found.restored.number == 1
    statistics.on_trigger(2, PARALLELISM, 3000)  # the number again, in another attempt
    assert [each.status.name for each in statistics.snapshot().history] == [
        "IN_PROGRESS",
        "FAILED",
        "COMPLETED",
    ]


def test_nothing_yet_is_zeros(statistics):
    assert statistics.snapshot() == CheckpointSnapshot()
