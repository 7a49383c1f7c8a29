"""The StreamGraph: the program as it was written, one node per source, operator and sink.

Compared with transformations, virtual steps are resolved (each edge has its partitioning and side output) and every setting
has its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.describe import describe, type_name
from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.partitioning import Partitioning
from penstock.graph.state_description import StateDescription

DEFAULT_SLOT_SHARING_GROUP = "default"


@dataclass(frozen=True, slots=True)
class StreamNode:
    """A source, an operator or a sink with all its settings. Ids count from 1, producers before consumers."""

    id: int
    operator_id: str
    name: str
    spec: OperatorSpec
    kind: str  # "source", "operator" or "sink"
    parallelism: int
    max_parallelism: int
    uid: str | None = None
    description: str | None = None
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    chaining: str = "ALWAYS"  # or "HEAD" or "NEVER"
    output_type: Any = None
    key_selectors: tuple[Any, ...] = ()  # one per input, None where the input is not keyed
    buffer_timeout: int | None = None
    side_types: tuple[tuple[str, Any], ...] = ()  # declared types of side outputs, by tag
    state_description: StateDescription | None = None
    untimed_inputs: str | None = (
        None  # upstream operators that emit records without timestamps, for errors
    )

    def to_json(self) -> dict[str, Any]:
        """Return the node as JSON values."""
        return {
            "id": self.id,
            "operator_id": self.operator_id,
            "name": self.name,
            "uid": self.uid,
            "description": self.description,
            "kind": self.kind,
            "spec": describe(self.spec),
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "slot_sharing_group": self.slot_sharing_group,
            "chaining": self.chaining,
            "output_type": type_name(self.output_type),
            "key_selectors": describe(self.key_selectors),
            "buffer_timeout": self.buffer_timeout,
        }


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """A connection from one node to an input of another.

    `id` is the edge's index in `StreamGraph.edges`; it distinguishes the edges of a stream that is united with itself.
    """

    id: int
    source_id: int
    target_id: int
    input_index: int
    partitioning: Partitioning
    side_tag: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the edge as JSON values."""
        return {
            "id": self.id,
            "source": self.source_id,
            "target": self.target_id,
            "input_index": self.input_index,
            "partitioning": describe(self.partitioning),
            "side_tag": self.side_tag,
        }


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """The program: nodes in topological order, edges ordered by target, input and position in a union."""

    job_name: str
    runtime_mode: str  # "STREAMING" or "BATCH"
    chaining_enabled: bool
    nodes: tuple[StreamNode, ...]
    edges: tuple[StreamEdge, ...]

    def node(self, node_id: int) -> StreamNode:
        """Return the node with this id."""
        return self.nodes[node_id - 1]

    def in_edges(self) -> dict[int, list[StreamEdge]]:
        """Return the edges into each node, by node id."""
        edges: dict[int, list[StreamEdge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            edges[edge.target_id].append(edge)
        return edges

    def out_edges(self) -> dict[int, list[StreamEdge]]:
        """Return the edges out of each node, by node id."""
        edges: dict[int, list[StreamEdge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            edges[edge.source_id].append(edge)
        return edges

    def to_json(self) -> dict[str, Any]:
        """Return the graph as JSON values."""
        return {
            "job_name": self.job_name,
            "runtime_mode": self.runtime_mode,
            "chaining_enabled": self.chaining_enabled,
            "nodes": [node.to_json() for node in self.nodes],
            "edges": [edge.to_json() for edge in self.edges],
        }
