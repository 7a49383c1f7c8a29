"""What a subtask has handed over with checkpoints that it does not know to be complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.runtime.network.messages import TaskAck


class Unconfirmed:
    """Keeps committables until they are known to be committed (a pure core).

    A checkpoint that is given up takes none along: the next one hands them over again. What was counted needs no such care: it is
    counted from the beginning of the attempt.
    """

    def __init__(self) -> None:
        self._committables: dict[int, dict[str, list[Any]]] = {}

    def passed(self, checkpoint: int, ack: TaskAck) -> TaskAck:
        """Return the ACK with all that checkpoints before it may have lost."""
        carried = dict(self._committables)
        if ack.committables:
            self._committables[checkpoint] = ack.committables
        return replace(ack, carried=carried)

    def completed(self, checkpoint: int) -> None:
        """Forget what was handed over up to this checkpoint."""
        self._committables = {
            number: kept for number, kept in self._committables.items() if number > checkpoint
        }
