"""Outgoing edges of a subtask: buffered to a writer, or directly to a subtask in the same slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock.graph.deployment import ResultEdge
from penstock.runtime.network.channels import BufferOrEvent, OutputChannel
from penstock.runtime.network.messages import (
    BARRIER,
    DATA,
    END,
    LATENCY,
    STATUS,
    WATERMARK,
    BarrierMessage,
    LatencyMarker,
)
from penstock.runtime.network.routing import connected_targets, create_router
from penstock.runtime.network.writers import ChannelWriter, ResultWriter
from penstock.runtime.records import Batch


class EdgeOutput(Protocol):
    """The output of a chain."""

    def emit(self, batch: Batch) -> None:
        """Send records."""

    def watermark(self, watermark: int) -> None:
        """Send a watermark to every connected subtask."""

    def status(self, idle: bool) -> None:
        """Send a status to every connected subtask."""

    def barrier(self, message: BarrierMessage) -> None:
        """Flush pending records, then send the barrier."""

    def open(self, context: object) -> None:
        """Prepare user code."""

    def close(self) -> None:
        """Release user code."""


class BufferedEdge:
    """An edge whose records are sent in buffers by a writer."""

    def __init__(
        self,
        edge: ResultEdge,
        partitioning: Any,
        subtask: int,
        parallelism: int,
        buffer_bytes: int,
        operator_name: str = "",
    ) -> None:
        self.index = edge.index
        self._router = create_router(edge, partitioning, subtask, parallelism, buffer_bytes)
        self._router.operator_name = operator_name
        self._targets = connected_targets(
            edge.partitioning, subtask, parallelism, edge.target_parallelism
        )
        self._writer: ResultWriter | None = None
        self.emit = self._router.route

        self._marked = subtask

    def bind(self, writer: ResultWriter) -> None:
        """Use this writer from now on."""
        self._writer = writer
        self._router.bind(writer)

    def snapshot(self) -> Any:
        """Return the state of the router that determines where records go."""
        return self._router.snapshot()

    def restore(self, snapshot: object) -> None:
        """Restore what `memory` returned."""
        self._router.restore(snapshot)

    def _control(self, kind: int, content: object) -> None:
        assert self._writer is not None
        for target in self._targets:
            self._router.flush(target)
            self._writer.send(target, kind, content)

    @property
    def waiting(self) -> bool:
        """Whether records wait for their buffers to fill up."""
        return self._router.waiting

    @property
    def bytes_out(self) -> int:
        """Number of bytes sent so far."""
        return self._router.bytes_out

    @property
    def records_out(self) -> int:
        """Number of records emitted so far, over all targets."""
        return self._router.records_out

    @property
    def window(self) -> int:
        """Maximum number of in-flight records of all channels together."""
        return sum(channel.window for channel in self.channels())

    def flush(self) -> None:
        """Send buffered records."""
        for target in self._targets:
            self._router.flush(target)

    def end(self) -> None:
        """Send the end of the channel: only barriers follow."""
        self._control(END, None)

    def latency(self, marker: LatencyMarker) -> None:
        """Send a latency marker after pending records, to the targets in rotation."""
        assert self._writer is not None
        self._marked = (self._marked + 1) % len(self._targets)
        target = self._targets[self._marked]
        self._router.flush(target)
        self._writer.send(target, LATENCY, marker)

    def watermark(self, watermark: int) -> None:
        """Send a watermark after pending records."""
        self._control(WATERMARK, watermark)

    def status(self, idle: bool) -> None:
        """Send a status after pending records."""
        self._control(STATUS, idle)

    def barrier(self, message: BarrierMessage) -> None:
        """Send the barrier on every channel, after pending records."""
        self._control(BARRIER, message)

    def send_to(self, target: int, batch: Batch) -> None:
        """Send records to a target, bypassing the router."""
        assert self._writer is not None
        self._writer.send(target, DATA, batch)

    def overtake(self, message: BarrierMessage) -> Iterator[tuple[int, list[BufferOrEvent]]]:
        """Send the barrier on every channel ahead of pending records; return the overtaken items at this end by target."""
        self.flush()
        for target, channel in self._channels():
            yield target, channel.overtake(BARRIER, message)

    def expedite(self, message: BarrierMessage) -> Iterator[tuple[int, list[BufferOrEvent]]]:
        """Let a barrier overtake wherever it is still pending; return the overtaken items by target."""
        for target, channel in self._channels():
            yield target, channel.expedite(BARRIER, message)

    def holds(self, message: BarrierMessage) -> bool:
        """Whether a barrier is still pending."""
        return any(channel.holds(BARRIER, message) for _, channel in self._channels())

    def channels(self) -> list[OutputChannel]:
        """Return the output channels, in pipelined mode."""
        writer = self._writer
        return list(writer.channels.values()) if isinstance(writer, ChannelWriter) else []

    def _channels(self) -> Iterator[tuple[int, OutputChannel]]:
        assert isinstance(self._writer, ChannelWriter)
        yield from self._writer.channels.items()

    def open(self, context: object) -> None:
        """Open the user's selectors."""
        self._router.open(context)

    def close(self) -> None:
        """Close the user's selectors."""
        self._router.close()


Deliver = Callable[[int, int, int, Any], None]  # gate, channel, kind, content


class LocalEdge:
    """A forward edge to a vertex in the same slot: a call, without pickling."""

    def __init__(self, edge: ResultEdge, subtask: int) -> None:
        self._gate = edge.target_gate
        self._subtask = subtask
        self._deliver: Deliver | None = None

    def bind(self, deliver: Deliver) -> None:
        """Use this receiver from now on."""
        self._deliver = deliver

    def _hand_over(self, kind: int, content: object) -> None:
        assert self._deliver is not None
        self._deliver(self._gate, self._subtask, kind, content)

    def emit(self, batch: Batch) -> None:
        """Pass records on."""
        self._hand_over(DATA, batch)

    def watermark(self, watermark: int) -> None:
        """Pass a watermark on."""
        self._hand_over(WATERMARK, watermark)

    def status(self, idle: bool) -> None:
        """Pass a status on."""
        self._hand_over(STATUS, idle)

    def barrier(self, message: BarrierMessage) -> None:
        """Pass the barrier on."""
        self._hand_over(BARRIER, message)

    def send_to(self, target: int, batch: Batch) -> None:
        """Pass records on."""
        self._hand_over(DATA, batch)

    def open(self, context: object) -> None:
        """Do nothing: a local edge has no user code."""

    def close(self) -> None:
        """Do nothing: a local edge has no user code."""
