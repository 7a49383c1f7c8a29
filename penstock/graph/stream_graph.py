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

    #: Counts from 1; below the ids of all consumers.
    id: int
    #: 32 hexadecimal digits: state is found by it. Unique in the graph.
    operator_id: str
    name: str
    spec: OperatorSpec
    #: "source", "operator" or "sink".
    kind: str
    parallelism: int
    #: The number of key groups; never below `parallelism`.
    max_parallelism: int
    #: The user's name of the operator, if it has one.
    uid: str | None = None
    description: str | None = None
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    #: "ALWAYS", "HEAD" (starts a chain) or "NEVER".
    chaining: str = "ALWAYS"
    #: TypeInformation of the records; None if it was not declared.
    output_type: Any = None
    #: One per input, None where the input is not keyed.
    key_selectors: tuple[Any, ...] = ()
    #: Milliseconds; None: the job's default.
    buffer_timeout: int | None = None
    #: Declared types of side outputs, by tag.
    side_types: tuple[tuple[str, Any], ...] = ()
    state_description: StateDescription | None = None
    #: Upstream operators that emit records without timestamps, for errors.
    untimed_inputs: str | None = None

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
