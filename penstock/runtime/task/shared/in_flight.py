"""In-flight records of unaligned checkpoints: how they are stored, and how they are redistributed on restore.

A subtask stores the records before the barriers in its input channels, and those that its own barriers have overtaken in its
output channels. So the content of a channel is in two snapshots: the older part in the receiver's, the newer part in the
sender's.

After a restore a subtask first sends the records of its output channels, and processes those of its input channels before new
input. If the parallelism of either end has changed, so have the channels: then the receivers take everything, so that older
records come first wherever they go, and no barrier overtakes them, because the next checkpoint would not know which records
are older. Each receiver takes the records whose keys it owns now; without keys, those for some of the former subtasks. On a
broadcast edge it takes the records that were missing in the former subtask whose broadcast state it has taken over. Only with
a user-defined partitioner the senders send all of them again.

Other modules decide which records are in-flight data, and when it is written and restored:

- `penstock.jobmanager.network_settings`: which jobs take unaligned checkpoints;
- `penstock.runtime.task.pipelined.unaligned_barrier_handler`: when a barrier overtakes, and when the in-flight data is complete;
- `penstock.runtime.task.pipelined.task_checkpoints`: carries out these decisions in a subtask;
- `penstock.runtime.network.channels`, `edges` and `peers`: how a barrier overtakes the records of a channel;
- `penstock.runtime.task.pipelined.unaligned_snapshots`: holds a snapshot until its in-flight data is complete;
- `penstock.runtime.task.shared.snapshots`: writes it;
- `penstock.jobmanager.restoring.restore_points`: which subtasks get it after a restore, and which plans do not fit it; `query_checks`
  beside it refuses changed queries;
- `penstock.runtime.task.pipelined.pipelined_task` and `penstock.runtime.task.epochs.epoch_slot`: send and process it first.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.errors import RestoreRefusedError
from penstock.graph.deployment import InputGate, ResultEdge, VertexDeployment
from penstock.graph.key_groups import key_group_of, subtask_of
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import BufferOrEvent
from penstock.runtime.network.routing import connected_sources

Channel = tuple[int, int]  # gate, source subtask
CUSTOM: Final = "CUSTOM"


@dataclass(slots=True)
class InFlight:
    """The in-flight records of one subtask's channels, as encoded batches. Channels without records are omitted.

    `inputs` are by gate and sending subtask, `outputs` by edge and receiving subtask. `gates` and `edges` have the ids of
    the vertices at the
    other end, to detect a changed program.
    """

    gates: dict[int, str] = field(default_factory=dict)
    edges: dict[int, tuple[str, int]] = field(default_factory=dict)  # and its gate
    inputs: dict[Channel, list[bytes]] = field(default_factory=dict)
    outputs: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The size of all batches in bytes."""
        return sum(
            len(payload)
            for channels in (self.inputs, self.outputs)
            for payloads in channels.values()
            for payload in payloads
        )

    def dump(self) -> bytes:
        """Serialize it for a checkpoint."""
        return pickle.dumps((1, self.gates, self.edges, self.inputs, self.outputs), 5)

    @classmethod
    def load(cls, payload: bytes) -> InFlight:
        """Read what `dump` returned."""
        _version, *content = pickle.loads(payload)
        return cls(*content)


class Capture:
    """Collects the in-flight records of one checkpoint of one subtask."""

    def __init__(self, deployment: VertexDeployment) -> None:
        self._deployment = deployment
        self._inputs: dict[Channel, list[bytes]] = defaultdict(list)
        self._outputs: dict[tuple[int, int], list[bytes]] = defaultdict(list)

    def add_inputs(self, channel: Channel, items: Sequence[BufferOrEvent]) -> None:
        """Add records of an input channel; they are still processed."""
        if items:
            self._inputs[channel] += map(_encoded, items)

    def add_outputs(self, edge: int, target: int, items: Sequence[BufferOrEvent]) -> None:
        """Add records of an output channel; they are still sent."""
        if items:
            self._outputs[edge, target] += map(_encoded, items)

    def result(self) -> InFlight | None:
        """Return everything collected, None if nothing was."""
        if not (self._inputs or self._outputs):
            return None
        gates = {gate.gate: gate.source_id for gate in self._deployment.gates}
        edges = {edge.index: (edge.target_id, edge.target_gate) for edge in self._deployment.edges}
        return InFlight(gates, edges, dict(self._inputs), dict(self._outputs))


def _encoded(item: BufferOrEvent) -> bytes:
    content: Any = item.content
    payload: bytes = content if type(content) is bytes else content.encode()
    return payload


@dataclass(frozen=True, slots=True)
class ReplayedRecords:
    """Records that are sent again over an edge: to one target, or (None) by the edge's router."""

    edge: int
    target: int | None
    payload: bytes


Load = Callable[[Any], bytes]  # a handle -> what `dump` returned


class RestoredInFlight:
    """The in-flight records that one subtask is restored with.

    `handles` are those of all former subtasks of its vertex, of its consumers and of its producers, by vertex id.
    """

    def __init__(
        self,
        deployment: VertexDeployment,
        index: int,
        handles: Mapping[str, Sequence[Any]],
        load: Load,
    ) -> None:
        self._deployment = deployment
        self._index = index
        self._handles = handles
        self._load = load
        self._loaded: dict[tuple[str, int], InFlight | None] = {}

    def release(self) -> None:
        """Forget the records: they have been sent and received."""
        self._handles, self._loaded = {}, {}

    def inputs(self) -> Iterator[tuple[Channel, list[bytes]]]:
        """Iterate over the records to process before any new input."""
        for gate in self._deployment.gates:
            if not self.has_changed(gate.gate):
                mine = self._of(self._deployment.id, self._index)
                for (number, source), payloads in ({} if mine is None else mine.inputs).items():
                    if number == gate.gate:
                        yield (number, source), payloads
            elif gate.partitioning != CUSTOM:
                yield from self._taken_over(gate)

    def has_changed(self, gate: int) -> bool:
        """Whether the channels of a gate differ from those of the checkpoint."""
        deployment = self._deployment
        (found,) = (each for each in deployment.gates if each.gate == gate)
        former = self._former_parallelism(found.source_id), self._former_parallelism(deployment.id)
        return former != (found.source_parallelism, deployment.parallelism)

    def _taken_over(self, gate: InputGate) -> Iterator[tuple[Channel, list[bytes]]]:
        """Iterate over the records of former channels whose receivers this subtask replaces."""
        sources = self._former_parallelism(gate.source_id)
        targets = self._former_parallelism(self._deployment.id)
        channels = connected_sources(
            gate.partitioning, self._index, gate.source_parallelism, self._deployment.parallelism
        )
        for source in range(sources):
            for target in range(targets):
                if self._takes_over(gate.partitioning, target, targets):
                    held = self._held(gate, source, target)
                    if gate.partitioning == "HASH":
                        held = filter(None, map(self._owned, held))
                    if payloads := list(held):
                        yield (gate.gate, channels[source % len(channels)]), payloads

    def _takes_over(self, partitioning: str, target: int, targets: int) -> bool:
        if partitioning == "HASH":
            return True  # perhaps some of its records
        if partitioning == "BROADCAST":
            return self._index % targets == target
        return target % self._deployment.parallelism == self._index

    def _owned(self, payload: bytes) -> bytes | None:
        """Return the records of a batch whose keys this subtask owns."""
        deployment, batch = self._deployment, decode(payload)
        owners = [
            subtask_of(
                key_group_of(key, deployment.max_parallelism),
                deployment.parallelism,
                deployment.max_parallelism,
            )
            for key in batch.keys
        ]
        parts: dict[int, Any] = {}
        batch.scatter(owners, parts)
        return parts[self._index].encode() if self._index in parts else None

    def _held(self, gate: InputGate, source: int, target: int) -> Iterator[bytes]:
        """Iterate over the records of a former channel, oldest first."""
        receiver = self._of(self._deployment.id, target)
        if receiver is not None:
            yield from receiver.inputs.get((gate.gate, source), ())
        sender = self._of(gate.source_id, source)
        if sender is not None:
            for (edge, receiving), payloads in sender.outputs.items():
                if receiving == target and sender.edges[edge] == (self._deployment.id, gate.gate):
                    yield from payloads

    def outputs(self) -> Iterator[ReplayedRecords]:
        """Iterate over the records to send before anything else."""
        deployment = self._deployment
        sources = self._former_parallelism(deployment.id)
        for edge in deployment.edges:
            targets = self._former_parallelism(edge.target_id)
            if (sources, targets) == (deployment.parallelism, edge.target_parallelism):
                yield from self._as_before(edge)
            elif edge.partitioning == CUSTOM:
                yield from self._rerouted(edge, sources, targets)

    def _as_before(self, edge: ResultEdge) -> Iterator[ReplayedRecords]:
        mine = self._of(self._deployment.id, self._index)
        for (index, target), payloads in ({} if mine is None else mine.outputs).items():
            if index == edge.index:
                for payload in payloads:
                    yield ReplayedRecords(index, target, payload)

    def _rerouted(self, edge: ResultEdge, sources: int, targets: int) -> Iterator[ReplayedRecords]:
        """Iterate over the records of some former senders' channels: only the sender has the user's partitioner."""
        for source in range(self._index, sources, self._deployment.parallelism):
            sender = self._of(self._deployment.id, source)
            for target in range(targets):
                receiver = self._of(edge.target_id, target)
                held = (
                    [] if receiver is None else receiver.inputs.get((edge.target_gate, source), [])
                )
                sent = [] if sender is None else sender.outputs.get((edge.index, target), [])
                for payload in (*held, *sent):
                    yield ReplayedRecords(edge.index, None, payload)

    def _former_parallelism(self, vertex: str) -> int:
        return len(self._handles.get(vertex, ()))

    def _of(self, vertex: str, subtask: int) -> InFlight | None:
        if (vertex, subtask) not in self._loaded:
            handle = self._handles[vertex][subtask]
            found = None if handle is None else InFlight.load(self._load(handle))
            if vertex == self._deployment.id:
                _check(self._deployment, found)
            self._loaded[vertex, subtask] = found
        return self._loaded[vertex, subtask]


def _check(deployment: VertexDeployment, found: InFlight | None) -> None:
    """Reject records of channels that the job does not have."""
    if found is None:
        return
    gates = {gate.gate: gate.source_id for gate in deployment.gates}
    edges = {edge.index: (edge.target_id, edge.target_gate) for edge in deployment.edges}
    used: list[tuple[Any, Any]] = [(gates.get(n), found.gates[n]) for n, _ in found.inputs]
    used += [(edges.get(n), found.edges[n]) for n, _ in found.outputs]
    if any(here != there for here, there in used):
        raise RestoreRefusedError(
            f"the checkpoint has records in flight to or from '{deployment.name}' on an exchange that the job does not have",
            detail="an unaligned checkpoint can be restored only by the program that took it, at any parallelism",
            hint="take a savepoint of the old program, and start the new one from that",
        )
