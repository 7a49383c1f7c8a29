"""Metrics of a job by operator, summed over its completed checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.graph.task_id import TaskId
from penstock.runtime.metrics import merge
from penstock.runtime.network.messages import TaskAck

Metrics = dict[str, dict[str, Any]]  # operator id -> name -> (kind, value)
Counts = Mapping[str, Mapping[str, int]]  # operator id -> name -> how many


class MetricTotals:
    """Sums the metrics of subtasks at completed checkpoints, without failed attempts.

    A subtask counts from the start of its attempt and reports its counters at each barrier; the counts of aborted checkpoints are in the
    next one. In epoch mode each epoch is an attempt.
    """

    def __init__(self) -> None:
        self.metrics: Metrics = {}
        self._over: Metrics = {}  # of ended attempts
        self._attempts: dict[TaskId, tuple[str, Metrics]] = {}  # the last one of each task

    def take(self, acks: Iterable[TaskAck]) -> Counts:
        """Take the acknowledgements of a completed checkpoint; return the counts since the previous one."""
        over = self._over
        for ack in acks:
            attempt, reported = self._attempts.get(ack.task, (None, {}))
            if attempt not in {None, ack.attempt}:
                over = _added(over, reported)
            self._attempts[ack.task] = (ack.attempt, ack.metrics)
        self._over = total = over
        for _, reported in self._attempts.values():
            total = _added(total, reported)
        before, self.metrics = self.metrics, total
        return {
            operator: {
                name: value - before.get(operator, {}).get(name, ("counter", 0))[1]
                for name, (kind, value) in report.items()
                if kind == "counter"
            }
            for operator, report in total.items()
        }


def _added(total: Metrics, reported: Mapping[str, dict[str, Any]]) -> Metrics:
    return total | {
        operator: merge(total.get(operator, {}), report) for operator, report in reported.items()
    }
