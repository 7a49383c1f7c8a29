from __future__ import annotations

import pytest

from penstock.checkpoint.handles import SharedFile, StateChain, StateHandle
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
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
    (record,) = statistics.to_json()["history"]
    assert (record["status"], record["num_subtasks"], record["num_acknowledged_subtasks"]) == (
        "IN_PROGRESS",
        3,
        1,
    )
    assert record["tasks"]["read"]["status"] == "COMPLETED"
    assert record["tasks"]["sum"]["status"] == "IN_PROGRESS"
    assert record["tasks"]["sum"]["subtasks"][1] == {
        "className": "pending",
        "index": 1,
        "status": "pending_or_failed",
    }
    statistics.on_ack(1, ack(SUM0), 1030)
    statistics.on_ack(1, ack(SUM1), 1020)
    statistics.on_complete(1, "/chk-1", 1100)
    found = statistics.to_json()
    record = found["latest"]["completed"]
    assert record["end_to_end_duration"] == 30  # to the last ACK
    assert record["latest_ack_timestamp"] == 1030
    assert record["external_path"] == "/chk-1"
    assert found["counts"] == {
        "restored": 0, "total": 1, "in_progress": 0, "completed": 1, "failed": 0,
    }  # fmt: skip


def test_only_what_was_added_counts_as_checkpointed(statistics):
    first = StateChain((full("a", 100),))
    complete(statistics, 1, 1000, ack(READ), ack(SUM0, first), ack(SUM1))
    second = first.append(delta("b", 7))
    complete(statistics, 2, 2000, ack(READ), ack(SUM0, second), ack(SUM1))
    one, two = reversed(statistics.to_json()["history"])
    local = 3 * 5
    assert (one["state_size"], one["checkpointed_size"]) == (100 + local, 100 + local)
    assert (two["state_size"], two["checkpointed_size"]) == (107 + local, 7 + local)


def test_shared_files_of_a_database_count_once(statistics):
    def database(*names):
        files = tuple(SharedFile(name, name, 50, 0) for name in names)
        handle = StateHandle("full", 3, 9, (0, 128), data=b"abc", snapshot="s", files=files)
        return StateChain((handle,))

    complete(statistics, 1, 1000, ack(SUM0, database("a.sst")))
    complete(statistics, 2, 2000, ack(SUM0, database("a.sst", "b.sst")))
    (two, _) = statistics.to_json()["history"]
    assert (two["state_size"], two["checkpointed_size"]) == (108, 55)


def test_what_was_written_for_an_aborted_checkpoint_is_not_written_again(statistics):
    statistics.on_trigger(1, PARALLELISM, 1000)
    statistics.on_ack(1, ack(SUM0, StateChain((full("a", 100),))), 1010)
    statistics.on_fail(1, "sum[1]: no", 1020)
    complete(statistics, 2, 2000, ack(SUM0, StateChain((full("a", 100),))))
    assert statistics.to_json()["latest"]["completed"]["checkpointed_size"] == 5


def test_a_failed_checkpoint_says_why(statistics):
    statistics.on_trigger(1, PARALLELISM, 1000)
    statistics.on_fail(1, "sum[1]: no", 1020)
    statistics.on_ack(1, ack(SUM0), 1030)  # too late
    statistics.on_complete(1, None, 1040)
    found = statistics.to_json()
    assert found["counts"]["failed"] == 1
    failed = found["latest"]["failed"]
    assert (failed["status"], failed["failure_timestamp"], failed["failure_message"]) == (
        "FAILED",
        1020,
        "sum[1]: no",
    )
    assert failed["num_acknowledged_subtasks"] == 0


def test_figures_of_subtasks_are_shown_and_spread(statistics):
    held = full("in flight", 70)
    complete(
        statistics,
        1,
        1000,
        ack(SUM0, start_delay_ms=3, alignment_ms=8, sync_ms=1.4, async_ms=20),
        ack(
            SUM1,
            in_flight=held,
            sync_ms=2.6,
            persisted_in_flight=70,
            processed_in_flight=9,
            unaligned=True,
        ),
    )
    record = statistics.to_json()["latest"]["completed"]
    assert record["checkpoint_type"] == "UNALIGNED_CHECKPOINT"
    assert (record["persisted_data"], record["processed_data"]) == (70, 9)
    vertex = record["tasks"]["sum"]
    assert vertex["state_size"] == 80
    first, second = vertex["subtasks"]
    assert first["checkpoint"] == {"sync": 1, "async": 20}
    assert first["alignment"]["duration"] == 8
    assert (first["start_delay"], second["unaligned_checkpoint"]) == (3, True)
    assert vertex["summary"]["checkpoint_duration"]["sync"] == {
        "min": 1, "max": 3, "avg": 2, "p50": 1, "p90": 3, "p95": 3, "p99": 3, "p999": 3,
    }  # fmt: skip


def test_the_last_ten_are_kept_and_all_are_counted(statistics):
    for number in range(1, 26):
        complete(statistics, number, 1000 * number, ack(READ))
    found = statistics.to_json()
    assert [each["id"] for each in found["history"]] == list(range(25, 15, -1))
    assert found["counts"]["completed"] == 25
    assert found["summary"]["end_to_end_duration"]["avg"] == 10


def test_after_a_restore_what_was_under_way_has_failed_and_everything_is_new(statistics):
    complete(statistics, 1, 1000, ack(SUM0, StateChain((full("a", 100),))))
    statistics.on_trigger(2, PARALLELISM, 2000)
    statistics.on_restore(1, "/chk-1", 2500)
    found = statistics.to_json()
    assert found["counts"] == {
        "restored": 1, "total": 2, "in_progress": 0, "completed": 1, "failed": 1,
    }  # fmt: skip
    assert found["latest"]["restored"]["id"] == 1
    statistics.on_trigger(2, PARALLELISM, 3000)  # the number again, in another attempt
    assert [each["status"] for each in statistics.to_json()["history"]] == [
        "IN_PROGRESS",
        "FAILED",
        "COMPLETED",
    ]


def test_nothing_yet_is_zeros(statistics):
    found = statistics.to_json()
    assert found["history"] == []
    assert set(found["summary"]["state_size"].values()) == {0}
