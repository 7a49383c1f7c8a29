"""The functions that Spark's Python workers run. Imports as little as it can: a worker starts with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock.graph.deployment import LevelDeployment

Body = Callable[[int, Iterable[Any]], Iterator[Any]]


def stage_body(level: LevelDeployment) -> Body:
    """Return the body of a level's tasks, for `RDD.mapPartitionsWithIndex`.

    Rows come and go as (slot, row) pairs. A row that only passes through the next level may have a target beyond that
    level's slots.
    """
    next_slots = max(level.next_slots, 1)

    def body(slot: int, pairs: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from penstock.common.python_dependencies import set_log_levels
        from penstock.runtime.task.slot_task import run_slot

        if level.settings.pyflink_names:
            from penstock import pyflink_compat

            pyflink_compat.install()
        set_log_levels(level.settings.log_level, level.settings.log_overrides)
        attempt = f"{TaskContext.get().taskAttemptId()}{uuid.uuid4().hex[:8]}"
        rows = () if level.level == 0 else (row for _, row in pairs)
        for row in run_slot(level, slot, attempt, rows):
            yield row[0] % next_slots, row

    return body


def slot_of(target: int) -> int:
    """Return the partition of a row: its slot, as it is."""
    return target
