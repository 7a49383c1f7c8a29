"""Runs the pipe of an epoch in one process, without Spark: level after level, slot after slot.

Rows are pickled in between as in Spark, so nothing is shared between subtasks by accident.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Sequence

from penstock.errors import JobCancelledError
from penstock.graph.deployment import LevelDeployment
from penstock.runtime.network.buffers import BufferedRow
from penstock.runtime.network.messages import ACK, FAILURE, TaskAck, TaskFailedError, TaskFailure
from penstock.runtime.task.epochs.epoch_slot import run_slot


def run_pipe_locally(
    levels: Sequence[LevelDeployment],
    on_ack: Callable[[TaskAck], None],
    cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Run one epoch, and pass each ACK on as it arrives; raises TaskFailedError if a task's user code failed.

    Raises JobCancelledError soon after `cancelled` returns True.
    """
    arriving: list[list[BufferedRow]] = [[] for _ in range(levels[0].slots)]
    for level in levels:
        next_slots = max(level.next_slots, 1)
        leaving: list[list[BufferedRow]] = [[] for _ in range(next_slots)]
        shipped: LevelDeployment = pickle.loads(pickle.dumps(level, 5))
        for slot in range(level.slots):
            for row in run_slot(
                shipped, slot, uuid.uuid4().hex[:12], arriving[slot], cancelled=cancelled
            ):
                if row.kind == ACK:
                    deliver([row], on_ack)
                else:
                    leaving[row.target % next_slots].append(row)
            if cancelled():
                raise JobCancelledError("the epoch was cancelled")
        arriving = leaving
    deliver((row for rows in arriving for row in rows), on_ack)


def deliver(rows: Iterable[BufferedRow], on_ack: Callable[[TaskAck], None]) -> None:
    """Pass on the ACKs of a pipe; if it has a failure, raise TaskFailedError after them."""
    failures: list[TaskFailure] = []
    for row in rows:
        message = pickle.loads(row[6])
        if row[5] == FAILURE:
            failures.append(message)
        else:
            on_ack(message)
    if failures:
        raise TaskFailedError(failures[0])
