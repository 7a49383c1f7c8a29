"""The JSON of checkpoints, from their statistics."""

from __future__ import annotations

import pytest
from msgspec import to_builtins

from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
from penstock.rest.flink_json.checkpoints import (
    CheckpointDetails,
    CheckpointSummary,
    VertexCheckpointDetails,
)
from penstock.runtime.network.messages import BarrierFigures, TaskAck
from tests.builders.checkpoint_builders import full

PARALLELISM = {"read": 1, "sum": 2}
READ, SUM0, SUM1 = TaskId("read", 0), TaskId("sum", 0), TaskId("sum", 1)


def ack(task, in_flight=None, **figures):
    return TaskAck(
        task, "a", {}, {}, b"12345", figures=BarrierFigures(**figures), in_flight=in_flight
    )


@pytest.fixture
def statistics():
    return CheckpointStatistics()


def complete(statistics, number, at_ms, *acks):
    statistics.on_trigger(number, PARALLELISM, at_ms)
    for delay, each in enumerate(acks, start=1):
        statistics.on_ack(number, each, at_ms + 10 * delay)
    statistics.on_complete(number, f"/chk-{number}", at_ms + 100)


def details(statistics):
    return to_builtins(CheckpointDetails.of(statistics.snapshot().history[0], with_vertices=True))


def of_vertex(statistics, vertex):
    record = statistics.snapshot().history[0]
    return to_builtins(VertexCheckpointDetails.of(record.vertex(vertex), with_subtasks=True))


def test_a_subtask_that_has_not_acknowledged_is_pending(statistics):
    statistics.on_trigger(1, PARALLELISM, 1000)
    statistics.on_ack(1, ack(READ), 1010)
    record = details(statistics)
    assert (record["status"], record["num_subtasks"], record["num_acknowledged_subtasks"]) == (
        "IN_PROGRESS", 3, 1,
    )  # fmt: skip
    assert record["tasks"]["read"]["status"] == "COMPLETED"
    assert "external_path" not in record
    assert of_vertex(statistics, "sum")["subtasks"][1] == {
        "className": "pending",
        "index": 1,
        "status": "pending_or_failed",
    }


def test_a_checkpoint_has_its_path_or_its_failure(statistics):
    complete(statistics, 1, 1000, ack(READ))
    found = details(statistics)
    assert (found["external_path"], found["discarded"]) == ("/chk-1", False)
    statistics.on_trigger(2, PARALLELISM, 2000)
    statistics.on_fail(2, "sum[1]: no", 2020)
    found = details(statistics)
    assert (found["failure_timestamp"], found["failure_message"]) == (2020, "sum[1]: no")


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
    record = details(statistics)
    assert record["checkpoint_type"] == "UNALIGNED_CHECKPOINT"
    assert (record["persisted_data"], record["processed_data"]) == (70, 9)
    assert "subtasks" not in record["tasks"]["sum"]
    vertex = of_vertex(statistics, "sum")
    assert vertex["state_size"] == 80
    first, second = vertex["subtasks"]
    assert first["checkpoint"] == {"sync": 1, "async": 20}
    assert first["alignment"]["duration"] == 8
    assert (first["start_delay"], second["unaligned_checkpoint"]) == (3, True)
    assert vertex["summary"]["checkpoint_duration"]["sync"] == {
        "min": 1, "max": 3, "avg": 2, "p50": 1, "p90": 3, "p95": 3, "p99": 3, "p999": 3,
    }  # fmt: skip


def test_a_list_has_no_vertices(statistics):
    complete(statistics, 1, 1000, ack(READ))
    record = statistics.snapshot().history[0]
    assert CheckpointDetails.of(record, with_vertices=False).tasks == {}


def test_distributions_are_over_completed_checkpoints(statistics):
    assert CheckpointSummary.of(statistics.snapshot().totals).state_size.max == 0
    for number in range(1, 4):
        complete(statistics, number, 1000 * number, ack(READ))
    assert CheckpointSummary.of(statistics.snapshot().totals).end_to_end_duration.avg == 10
