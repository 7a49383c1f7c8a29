"""Committables of checkpoints that a subtask does not know to be complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.runtime.network.messages import TaskAck


class UnconfirmedCommittables:
    """Keeps committables until they are known to be committed (a pure core).

    An aborted checkpoint does not lose any: the next one hands them over again. Counters need no such care: they count from
    the beginning of the attempt.
    """

    def __init__(self) -> None:
        self._committables: dict[int, dict[str, list[Any]]] = {}

    def passed(self, checkpoint: int, ack: TaskAck) -> TaskAck:
        """Return the ACK with all committables that earlier checkpoints may have lost."""
        carried = dict(self._committables)
        if ack.committables:
            self._committables[checkpoint] = ack.committables
        return replace(ack, carried=carried)

    def completed(self, checkpoint: int) -> None:
        """Drop everything handed over up to this checkpoint."""
        self._committables = {
            number: kept for number, kept in self._committables.items() if number > checkpoint
        }
