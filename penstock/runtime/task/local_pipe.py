"""The pipe in one process, without Spark: level after level, slot after slot.

Rows are pickled on their way as they are in Spark, so nothing is shared between subtasks by accident.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Sequence

from penstock.graph.deployment import LevelDeployment
from penstock.runtime.network.buffers import Row
from penstock.runtime.network.messages import FAILURE, TaskAck, TaskFailedError, TaskFailure
from penstock.runtime.task.slot_task import run_slot


def run_pipe_locally(levels: Sequence[LevelDeployment], slots: Sequence[int]) -> list[TaskAck]:
    """Run one epoch and return its ACKs; raises TaskFailedError if a task's user code failed."""
    arriving: list[list[Row]] = [[] for _ in range(slots[0])]
    for level, count in zip(levels, slots, strict=True):
        next_slots = max(level.next_slots, 1)
        leaving: list[list[Row]] = [[] for _ in range(next_slots)]
        shipped: LevelDeployment = pickle.loads(pickle.dumps(level, 5))
        for slot in range(count):
            for row in run_slot(shipped, slot, uuid.uuid4().hex[:12], arriving[slot]):
                leaving[row.target % next_slots].append(row)
        arriving = leaving
    return read_acks(row for rows in arriving for row in rows)


def read_acks(rows: Iterable[Row]) -> list[TaskAck]:
    """Return the ACKs that came out of a pipe; raises TaskFailedError if a failure did."""
    acks: list[TaskAck] = []
    failures: list[TaskFailure] = []
    for row in rows:
        (failures if row[5] == FAILURE else acks).append(pickle.loads(row[6]))
    if failures:
        raise TaskFailedError(failures[0], acks)
    return acks
