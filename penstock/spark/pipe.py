"""The pipe: levels as stages of one Spark job, exchanges between them, ACK rows at the end."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from penstock.errors import PenstockError
from penstock.runtime.deployment import LevelDeployment
from penstock.runtime.messages import FAILURE, SPARK_SCHEMA, TaskAck, TaskFailure
from penstock.spark.stage_body import stage_body


class TaskFailedError(PenstockError, RuntimeError):
    """User code or a record failed inside a task; nothing of the epoch counts."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message, detail=failure.detail)
        self.failure = failure


def build_pipe(session: SparkSession, levels: Sequence[LevelDeployment], slots: Sequence[int]) -> DataFrame:
    """Return the DataFrame whose rows are the ACKs of one epoch."""
    pipe = session.range(0, slots[0], 1, slots[0]).mapInArrow(stage_body(levels[0]), SPARK_SCHEMA)
    for level, count in zip(levels[1:], slots[1:], strict=True):
        # A row that only passes through this level may have a target beyond its slots.
        target = F.pmod(F.col("target"), F.lit(count))
        pipe = pipe.repartitionById(count, target).mapInArrow(stage_body(level), SPARK_SCHEMA)
    return pipe


def run_pipe(
    session: SparkSession, levels: Sequence[LevelDeployment], slots: Sequence[int]
) -> list[TaskAck]:
    """Run one epoch and return its ACKs; raises TaskFailedError if a task's user code failed."""
    table = build_pipe(session, levels, slots).select("kind", "payload").toArrow()
    kinds = table.column("kind").to_pylist()
    payloads: list[Any] = table.column("payload").to_pylist()
    acks: list[TaskAck] = []
    for kind, payload in zip(kinds, payloads, strict=True):
        message = pickle.loads(payload)
        if kind == FAILURE:
            raise TaskFailedError(message)
        acks.append(message)
    return acks
