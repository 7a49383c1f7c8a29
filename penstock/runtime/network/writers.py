"""Result writers: carry records and control messages to the subtasks at the other end of an edge.

A subtask does not know whether these are rows of a pipe or channels. The writer serializes them if necessary.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.graph.deployment import ResultEdge
from penstock.runtime.network.buffers import BufferedRow
from penstock.runtime.network.channels import OutputChannel
from penstock.runtime.network.debloating import UNLIMITED
from penstock.runtime.network.messages import DATA


class ResultWriter(Protocol):
    """Carries the output of one subtask over one edge."""

    def send(self, target: int, kind: int, content: object) -> int:
        """Send a Batch (kind DATA) or a control message to a target subtask, after everything sent to it before.

        Returns the size in bytes; 0 if it is passed as an object. `kind` is one of `network.messages`. The writer owns
        the batch from now on.
        Raises NotPicklableError.
        """

    def most_records(self, target: int) -> int:
        """Return the maximum number of records per buffer for the target."""

    def shares(self, target: int) -> bool:
        """Whether the target gets the same objects that are sent, and may modify them."""


WriterOf = Callable[[ResultEdge, int], ResultWriter]  # edge, sending subtask


class RowWriter:
    """Appends rows of the pipe to a list. Each target's rows are numbered from 0, so that the receiver can detect a loss."""

    def __init__(self, rows: list[BufferedRow], edge: ResultEdge, subtask: int) -> None:
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
            BufferedRow(target, self._vertex, self._gate, self._subtask, sequence, kind, payload)
        )
        return len(payload)

    def most_records(self, target: int) -> int:
        """Return no limit: no barrier waits behind in-flight data in an epoch."""
        return UNLIMITED

    def shares(self, target: int) -> bool:
        """Return False: all rows are bytes."""
        return False


class ChannelWriter:
    """Sends to pipelined channels, one per target."""

    def __init__(self, channels: Mapping[int, OutputChannel], neighbours: frozenset[int]) -> None:
        self.channels = channels
        self._neighbours = neighbours  # targets in the same slot

    def send(self, target: int, kind: int, content: object) -> int:
        """Pass an item to the channel."""
        return self.channels[target].send(kind, content)

    def most_records(self, target: int) -> int:
        """Return the number that the receiver wants."""
        return self.channels[target].most_records

    def shares(self, target: int) -> bool:
        """Return True for targets in the same slot."""
        return target in self._neighbours
