"""The function that Spark's Python workers run. Imports as little as it can: a worker starts with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

from penstock.runtime.deployment import LevelDeployment

Body = Callable[[Iterator[Any]], Iterator[Any]]


def stage_body(level: LevelDeployment) -> Body:
    """Return the body of a level's tasks, for `DataFrame.mapInArrow`."""

    def body(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from penstock.runtime.slot_task import run_slot

        context = TaskContext.get()
        attempt = f"{context.taskAttemptId()}{uuid.uuid4().hex[:8]}"
        yield from run_slot(level, context.partitionId(), attempt, batches)

    return body
