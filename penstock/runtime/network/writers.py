"""Where edges send to: a writer carries buffers and control messages to the subtasks at the other end of an edge.

A subtask does not know what carries them. Here that is the pipe: a writer makes rows of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.graph.deployment import ResultEdge
from penstock.runtime.network.buffers import Row


class ResultWriter(Protocol):
    """Carries what one subtask sends over one edge."""

    def send(self, target: int, kind: int, payload: bytes) -> None:
        """Send to a target subtask, after everything that was sent to it before; `kind` is one of `network.messages`."""


WriterOf = Callable[[ResultEdge, int], ResultWriter]  # edge, sending subtask


class RowWriter:
    """Appends rows of the pipe to a list. Each target's rows are numbered from 0, so that the receiver can tell a loss."""

    def __init__(self, rows: list[Row], edge: ResultEdge, subtask: int) -> None:
        self._rows = rows
        self._vertex = edge.target_vertex
        self._gate = edge.target_gate
        self._subtask = subtask
        self._sequence: dict[int, int] = {}

    def send(self, target: int, kind: int, payload: bytes) -> None:
        """Append a row."""
        sequence = self._sequence.get(target, 0)
        self._sequence[target] = sequence + 1
        self._rows.append(
            Row(target, self._vertex, self._gate, self._subtask, sequence, kind, payload)
        )
