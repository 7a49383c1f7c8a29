"""Outgoing edges of a subtask: over the pipe to another level, or straight to a neighbour in the same slot."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol

from penstock.graph.deployment import ResultEdge
from penstock.runtime.network.buffers import Row
from penstock.runtime.network.messages import BARRIER, DATA, STATUS, WATERMARK, BarrierMessage
from penstock.runtime.network.routing import connected_targets, create_router
from penstock.runtime.records import Batch


class EdgeOutput(Protocol):
    """What a chain sends to at its end."""

    def emit(self, batch: Batch) -> None:
        """Send records."""

    def watermark(self, watermark: int) -> None:
        """Send a watermark to every connected subtask."""

    def status(self, idle: bool) -> None:
        """Send a status to every connected subtask."""

    def barrier(self, message: BarrierMessage) -> None:
        """Send what is pending, then the barrier."""

    def open(self, context: Any) -> None:
        """Prepare user code."""

    def close(self) -> None:
        """Release user code."""


class RemoteEdge:
    """An edge whose records travel as rows of the pipe."""

    def __init__(
        self, edge: ResultEdge, partitioning: Any, subtask: int, parallelism: int, buffer_bytes: int
    ) -> None:
        self._edge = edge
        self._subtask = subtask
        self._router = create_router(
            edge, partitioning, subtask, parallelism, self._send_data, buffer_bytes
        )
        self._targets = connected_targets(
            edge.partitioning, subtask, parallelism, edge.target_parallelism
        )
        self._sequence = dict.fromkeys(self._targets, 0)
        self._rows: list[Row] = []
        self.emit = self._router.route

    def bind(self, rows: list[Row]) -> None:
        """Start an epoch: rows go to this list."""
        self._rows = rows
        self._sequence = dict.fromkeys(self._targets, 0)

    def memory(self) -> Any:
        """Return what decides where records go, besides the records."""
        return self._router.memory()

    def recall(self, memory: Any) -> None:
        """Go on from what `memory` returned."""
        self._router.recall(memory)

    def _send(self, target: int, kind: int, payload: bytes) -> None:
        edge = self._edge
        sequence = self._sequence[target]
        self._sequence[target] = sequence + 1
        self._rows.append(
            Row(
                target, edge.target_vertex, edge.target_gate, self._subtask, sequence, kind, payload
            )
        )

    def _send_data(self, target: int, payload: bytes) -> None:
        self._send(target, DATA, payload)

    def _control(self, kind: int, content: Any) -> None:
        payload = pickle.dumps(content, 5)
        for target in self._targets:
            self._router.flush(target)
            self._send(target, kind, payload)

    def watermark(self, watermark: int) -> None:
        """Send a watermark after what is pending."""
        self._control(WATERMARK, watermark)

    def status(self, idle: bool) -> None:
        """Send a status after what is pending."""
        self._control(STATUS, idle)

    def barrier(self, message: BarrierMessage) -> None:
        """End the epoch on every channel."""
        self._control(BARRIER, message)

    def open(self, context: Any) -> None:
        """Open the user's selectors."""
        self._router.open(context)

    def close(self) -> None:
        """Close the user's selectors."""
        self._router.close()


Deliver = Callable[[int, int, int, Any], None]  # gate, channel, kind, content


class LocalEdge:
    """A forward edge to a vertex in the same slot: a call, no pickling."""

    def __init__(self, edge: ResultEdge, subtask: int) -> None:
        self._gate = edge.target_gate
        self._subtask = subtask
        self._deliver: Deliver | None = None

    def bind(self, deliver: Deliver) -> None:
        """Start an epoch: messages go to this receiver."""
        self._deliver = deliver

    def _hand_over(self, kind: int, content: Any) -> None:
        assert self._deliver is not None
        self._deliver(self._gate, self._subtask, kind, content)

    def emit(self, batch: Batch) -> None:
        """Hand records over."""
        self._hand_over(DATA, batch)

    def watermark(self, watermark: int) -> None:
        """Hand a watermark over."""
        self._hand_over(WATERMARK, watermark)

    def status(self, idle: bool) -> None:
        """Hand a status over."""
        self._hand_over(STATUS, idle)

    def barrier(self, message: BarrierMessage) -> None:
        """End the epoch on this channel."""
        self._hand_over(BARRIER, message)

    def open(self, context: Any) -> None:
        """There is no user code on a local edge."""

    def close(self) -> None:
        """There is no user code on a local edge."""
