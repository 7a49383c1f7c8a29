"""What a subtask has handed over with checkpoints that it does not know to be complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.runtime.metrics import merge
from penstock.runtime.network.messages import TaskAck

Metrics = dict[str, dict[str, Any]]  # by operator id


class Unconfirmed:
    """Keeps committables until they are known to be committed, and counts until they are known to be counted (a pure core).

    A checkpoint that is given up takes along neither: the next one hands them over again.
    """

    def __init__(self) -> None:
        self._committables: dict[int, dict[str, list[Any]]] = {}
        self._metrics: dict[int, Metrics] = {}
        self._lost: list[Metrics] = []

    def passed(self, checkpoint: int, ack: TaskAck) -> TaskAck:
        """Return the ACK with all that checkpoints before it may have lost."""
        carried = dict(self._committables)
        if ack.committables:
            self._committables[checkpoint] = ack.committables
        metrics = ack.metrics
        for lost in self._lost:
            metrics = _added(lost, metrics)
        self._lost = []
        self._metrics[checkpoint] = metrics
        return replace(ack, carried=carried, metrics=metrics)

    def completed(self, checkpoint: int) -> None:
        """Forget what was handed over up to this checkpoint."""
        self._committables = _after(checkpoint, self._committables)
        self._metrics = _after(checkpoint, self._metrics)

    def aborted(self, checkpoint: int) -> None:
        """Hand over again what this checkpoint had."""
        metrics = self._metrics.pop(checkpoint, None)
        if metrics is not None:
            self._lost.append(metrics)


def _after(checkpoint: int, kept: dict[int, Any]) -> dict[int, Any]:
    return {number: each for number, each in kept.items() if number > checkpoint}


def _added(lost: Metrics, metrics: Metrics) -> Metrics:
    return {name: merge(lost.get(name, {}), report) for name, report in metrics.items()}
