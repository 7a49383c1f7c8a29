"""The outgoing edges of a subtask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from penstock.graph.deployment import ResultEdge, VertexCode, VertexDeployment
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import OutputChannel
from penstock.runtime.network.edges import BufferedEdge, LocalEdge
from penstock.runtime.network.messages import BarrierMessage, LatencyMarker
from penstock.runtime.network.writers import WriterOf
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.task.shared.in_flight import Capture, RestoredInFlight
from penstock.runtime.task.shared.operator_chain import OperatorChain, user_code
from penstock.runtime.time.decisions import RuntimeDecisions


class Receiver(Protocol):
    """A subtask of the same slot, as seen by an edge."""

    def receive(self, gate: int, channel: int, kind: int, content: object) -> None:
        """Process records or a control message from a channel."""


class ResultEdges:
    """All edges of a subtask: those with a writer, and those that are calls of a neighbour in the same slot."""

    def __init__(self, deployment: VertexDeployment, code: VertexCode, subtask: int) -> None:
        self._deployment = deployment
        self._partitionings = code.partitionings
        self._subtask = subtask
        #: In the order of `deployment.edges`; empty until `create`.
        self._edges: list[BufferedEdge | LocalEdge] = []
        #: Those with a writer.
        self.buffered: list[BufferedEdge] = []

    def create(
        self,
        chain: OperatorChain,
        buffer_bytes: int,
        is_call: Callable[[ResultEdge], bool],
    ) -> None:
        """Create the edges, and connect them to the outputs of the chain."""
        deployment = self._deployment
        for edge in deployment.edges:
            output: BufferedEdge | LocalEdge
            if is_call(edge):
                output = LocalEdge(edge, self._subtask)
            else:
                output = BufferedEdge(
                    edge,
                    self._partitionings[edge.index],
                    self._subtask,
                    deployment.parallelism,
                    buffer_bytes,
                    operator_name=deployment.operators[edge.operator].name,
                )
                self.buffered.append(output)
            self._edges.append(output)
            chain.outputs[edge.operator].add_edge(output, edge.side_tag)

    def open(self, chain: OperatorChain) -> None:
        """Open the users' key selectors and partitioners."""
        for described, edge in zip(self._deployment.edges, self._edges, strict=True):
            with user_code(chain.operators[described.operator]):
                edge.open(chain.contexts[described.operator].runtime_context)

    def closers(self, chain: OperatorChain) -> Iterator[tuple[StreamOperator, Callable[[], None]]]:
        """Return a function for each edge that closes its user code, and the operator that it belongs to."""
        for described, edge in zip(self._deployment.edges, self._edges, strict=False):
            yield chain.operators[described.operator], edge.close

    def connect(self, writer_of: WriterOf, neighbours: Mapping[int, Receiver]) -> None:
        """Use these writers, and neighbours in the same slot, from now on."""
        for edge, output in zip(self._deployment.edges, self._edges, strict=True):
            if isinstance(output, LocalEdge):
                output.bind(neighbours[edge.target_vertex].receive)
            else:
                output.bind(writer_of(edge, self._subtask))

    def begin_interval(self, decisions: RuntimeDecisions) -> None:
        """Record where the routers are, or put them where a recorded interval began."""
        if decisions.traces:
            snapshots = decisions.routers([edge.snapshot() for edge in self.buffered])
            for edge, snapshot in zip(self.buffered, snapshots, strict=True):
                edge.restore(snapshot)

    # Records.

    def resend(self, restored: RestoredInFlight) -> None:
        """Send the in-flight records of a checkpoint: to their former target, or wherever they go now."""
        for records in restored.outputs():
            batch, edge = decode(records.payload), self._edges[records.edge]
            if records.target is None:
                edge.emit(batch)
            else:
                edge.send_to(records.target, batch)

    @property
    def waiting(self) -> bool:
        """Whether records wait for their buffers to fill up."""
        return any(edge.waiting for edge in self.buffered)

    def flush(self) -> None:
        """Send all buffered records."""
        for edge in self.buffered:
            edge.flush()

    def send_end(self) -> None:
        """Send the end of the channel on all edges: only barriers follow."""
        for edge in self.buffered:
            edge.end()

    def send_latency(self, marker: LatencyMarker) -> None:
        """Send a latency marker along all edges, each to one target."""
        for edge in self.buffered:
            edge.latency(marker)

    def channels(self) -> list[OutputChannel]:
        """Return all output channels of pipelined mode."""
        return [channel for edge in self.buffered for channel in edge.channels()]

    # Barriers.

    def send_barrier(self, message: BarrierMessage, overtaken: Capture | None) -> None:
        """Forward a barrier; with `overtaken` it goes ahead of the pending records, which are added to it."""
        if overtaken is None:
            for edge in self._edges:
                edge.barrier(message)
            return
        for exchange in self.buffered:
            for target, items in exchange.overtake(message):
                overtaken.add_outputs(exchange.index, target, items)

    def holds_barrier(self, message: BarrierMessage) -> bool:
        """Whether a forwarded barrier is still queued in an output channel."""
        return any(edge.holds(message) for edge in self.buffered)

    def expedite_barrier(self, message: BarrierMessage, overtaken: Capture) -> None:
        """Let a forwarded barrier overtake the records in the output channels."""
        for edge in self.buffered:
            for target, items in edge.expedite(message):
                overtaken.add_outputs(edge.index, target, items)
