"""Where edges send to: a writer carries records and control messages to the subtasks at the other end of an edge.

A subtask does not know what carries them: rows of a pipe, or channels that stay. Whoever has to makes bytes of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.graph.deployment import ResultEdge
from penstock.runtime.network.buffers import Row
from penstock.runtime.network.channels import OutputChannel
from penstock.runtime.network.debloating import UNLIMITED
from penstock.runtime.network.messages import DATA


class ResultWriter(Protocol):
    """Carries what one subtask sends over one edge."""

    def send(self, target: int, kind: int, content: Any) -> int:
        """Send a Batch (kind DATA) or a control message to a target subtask, after everything that was sent to it before.

        Returns the size in bytes; 0 if it is handed over as it is. `kind` is one of `network.messages`. The batch is the writer's from
        now on. Raises NotPicklableError.
        """

    def most_records(self, target: int) -> int:
        """Return how many records a buffer for the target has at most."""

    def shares(self, target: int) -> bool:
        """Whether the target gets the very objects that are sent, and may change them."""


WriterOf = Callable[[ResultEdge, int], ResultWriter]  # edge, sending subtask


class RowWriter:
    """Appends rows of the pipe to a list. Each target's rows are numbered from 0, so that the receiver can tell a loss."""

    def __init__(self, rows: list[Row], edge: ResultEdge, subtask: int) -> None:
        self._rows = rows
        self._vertex = edge.target_vertex
        self._gate = edge.target_gate
        self._subtask = subtask
        self._sequence: dict[int, int] = {}

    def send(self, target: int, kind: int, content: Any) -> int:
        """Append a row."""
        payload = content.encode() if kind == DATA else pickle.dumps(content, 5)
        sequence = self._sequence.get(target, 0)
        self._sequence[target] = sequence + 1
        self._rows.append(
            Row(target, self._vertex, self._gate, self._subtask, sequence, kind, payload)
        )
        return len(payload)

    def most_records(self, target: int) -> int:
        """Nothing is under way in an epoch that a barrier waits for."""
        return UNLIMITED

    def shares(self, target: int) -> bool:
        """All rows are bytes."""
        return False


class ChannelWriter:
    """Sends to channels that stay, one per target."""

    def __init__(self, channels: Mapping[int, OutputChannel], neighbours: frozenset[int]) -> None:
        self.channels = channels
        self._neighbours = neighbours  # targets that live in the same slot

    def send(self, target: int, kind: int, content: Any) -> int:
        """Hand over to the channel."""
        return self.channels[target].send(kind, content)

    def most_records(self, target: int) -> int:
        """Return what the receiver wants."""
        return self.channels[target].most_records

    def shares(self, target: int) -> bool:
        """Neighbours get what is sent as it is."""
        return target in self._neighbours
