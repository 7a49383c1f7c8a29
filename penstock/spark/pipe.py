"""The pipe: levels as stages of one Spark job, exchanges between them, ACK rows at the end.

The rows travel as an RDD of (slot, row) pairs. Measured on two cores, a two-stage epoch without data takes 120 to 170 ms this
way and 500 ms as a DataFrame (mapInArrow, repartitionById) in the same process: there is no plan to optimise, no code
to generate, and workers need no pyarrow. Bytes go through 1.5 to 2 times as fast.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from pyspark import RDD, SparkContext

from penstock.errors import PenstockError
from penstock.runtime.buffers import Row
from penstock.runtime.deployment import LevelDeployment
from penstock.runtime.messages import FAILURE, TaskAck, TaskFailure
from penstock.spark.stage_body import slot_of, stage_body


class TaskFailedError(PenstockError, RuntimeError):
    """User code or a record failed inside a task; nothing of the epoch counts."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message, detail=failure.detail)
        self.failure = failure


def build_pipe(
    context: SparkContext, levels: Sequence[LevelDeployment], slots: Sequence[int]
) -> RDD[tuple[int, Row]]:
    """Return the RDD whose rows are the ACKs of one epoch."""
    pipe = context.parallelize(range(slots[0]), slots[0]).mapPartitionsWithIndex(
        stage_body(levels[0])
    )
    for level, count in zip(levels[1:], slots[1:], strict=True):
        pipe = pipe.partitionBy(count, slot_of).mapPartitionsWithIndex(stage_body(level))
    return pipe


def run_pipe(
    context: SparkContext, levels: Sequence[LevelDeployment], slots: Sequence[int]
) -> list[TaskAck]:
    """Run one epoch and return its ACKs; raises TaskFailedError if a task's user code failed."""
    acks: list[TaskAck] = []
    for _, row in build_pipe(context, levels, slots).collect():
        message = pickle.loads(row[6])
        if row[5] == FAILURE:
            raise TaskFailedError(message)
        acks.append(message)
    return acks
