"""Outgoing edges of a subtask: as buffers to a writer, or straight to a neighbour in the same slot."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol

from penstock.graph.deployment import ResultEdge
from penstock.runtime.network.messages import BARRIER, DATA, STATUS, WATERMARK, BarrierMessage
from penstock.runtime.network.routing import connected_targets, create_router
from penstock.runtime.network.writers import ResultWriter
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
    """An edge whose records travel in buffers, by a writer."""

    def __init__(
        self,
        edge: ResultEdge,
        partitioning: Any,
        subtask: int,
        parallelism: int,
        buffer_bytes: int,
        maker: str = "",
    ) -> None:
        self._router = create_router(
            edge, partitioning, subtask, parallelism, self._send_data, buffer_bytes
        )
        self._router.maker = maker
        self._targets = connected_targets(
            edge.partitioning, subtask, parallelism, edge.target_parallelism
        )
        self._writer: ResultWriter | None = None
        self.emit = self._router.route

    def bind(self, writer: ResultWriter) -> None:
        """Send to this writer from now on."""
        self._writer = writer

    def memory(self) -> Any:
        """Return what decides where records go, besides the records."""
        return self._router.memory()

    def recall(self, memory: Any) -> None:
        """Go on from what `memory` returned."""
        self._router.recall(memory)

    def _send_data(self, target: int, payload: bytes) -> None:
        assert self._writer is not None
        self._writer.send(target, DATA, payload)

    def _control(self, kind: int, content: Any) -> None:
        assert self._writer is not None
        payload = pickle.dumps(content, 5)
        for target in self._targets:
            self._router.flush(target)
            self._writer.send(target, kind, payload)

    def watermark(self, watermark: int) -> None:
        """Send a watermark after what is pending."""
        self._control(WATERMARK, watermark)

    def status(self, idle: bool) -> None:
        """Send a status after what is pending."""
        self._control(STATUS, idle)

    def barrier(self, message: BarrierMessage) -> None:
        """Send the barrier on every channel, after what is pending."""
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
        """Hand over to this receiver from now on."""
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
        """Hand the barrier over."""
        self._hand_over(BARRIER, message)

    def open(self, context: Any) -> None:
        """There is no user code on a local edge."""

    def close(self) -> None:
        """There is no user code on a local edge."""
