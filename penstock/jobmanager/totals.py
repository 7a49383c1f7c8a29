"""Metrics of a job by operator, added up over its completed checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.graph.task_id import TaskId
from penstock.runtime.metrics import merge
from penstock.runtime.network.messages import TaskAck

Metrics = dict[str, dict[str, Any]]  # operator id -> name -> (kind, value)
Counts = Mapping[str, Mapping[str, int]]  # operator id -> name -> how many


class Totals:
    """Adds up what subtasks told at completed checkpoints: what failed is not in it.

    A subtask counts from the beginning of its attempt, and tells the count at each of its barriers; those of checkpoints that were
    given up are in the next one. In epochs each is an attempt of its own.
    """

    def __init__(self) -> None:
        self.metrics: Metrics = {}
        self._over: Metrics = {}  # of attempts that are over
        self._attempts: dict[TaskId, tuple[str, Metrics]] = {}  # the last one of each task

    def take(self, acks: Iterable[TaskAck]) -> Counts:
        """Take the ACKs of a completed checkpoint; return what was counted since the one before."""
        over = self._over
        for ack in acks:
            attempt, told = self._attempts.get(ack.task, (None, {}))
            if attempt not in {None, ack.attempt}:
                over = _added(over, told)
            self._attempts[ack.task] = (ack.attempt, ack.metrics)
        self._over = total = over
        for _, told in self._attempts.values():
            total = _added(total, told)
        before, self.metrics = self.metrics, total
        return {
            operator: {
                name: value - before.get(operator, {}).get(name, ("counter", 0))[1]
                for name, (kind, value) in report.items()
                if kind == "counter"
            }
            for operator, report in total.items()
        }


def _added(total: Metrics, told: Mapping[str, dict[str, Any]]) -> Metrics:
    return total | {
        operator: merge(total.get(operator, {}), report) for operator, report in told.items()
    }
