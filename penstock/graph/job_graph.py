"""The JobGraph: chains of operators that run as one vertex, and the edges between them.

Compared with the StreamGraph, chained operators are one vertex. A chain is a tree: its head is the only operator with edges
from outside, and any operator may feed several others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.graph.describe import describe
from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.partitioning import Forward, Partitioning
from penstock.graph.state_description import StateDescription
from penstock.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


@dataclass(frozen=True, slots=True)
class ChainedOutput:
    """An edge inside a chain: the target operator in the chain, and the side output."""

    target: int
    side_tag: str | None = None


@dataclass(frozen=True, slots=True)
class ChainedNode:
    """One operator of a chain. `outputs` point to operators later in the chain."""

    node_id: int
    operator_id: str
    name: str
    spec: OperatorSpec
    kind: str
    uid: str | None = None
    key_selectors: tuple[Any, ...] = ()
    output_type: Any = None
    outputs: tuple[ChainedOutput, ...] = ()
    side_types: tuple[tuple[str, Any], ...] = ()
    state_description: StateDescription | None = None
    buffer_timeout: int | None = None
    untimed_inputs: str | None = None

    @property
    def is_keyed(self) -> bool:
        """Whether an input of the operator is keyed."""
        return any(selector is not None for selector in self.key_selectors)

    def to_json(self) -> dict[str, Any]:
        """Return the operator as JSON values."""
        return {
            "node": self.node_id,
            "operator_id": self.operator_id,
            "name": self.name,
            "uid": self.uid,
            "kind": self.kind,
            "spec": describe(self.spec),
            "key_selectors": describe(self.key_selectors),
            "outputs": [
                {"target": output.target, "side_tag": output.side_tag} for output in self.outputs
            ],
        }


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain: the operators that one subtask runs. Its id is the operator id of its head, `operators[0]`."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    operators: tuple[ChainedNode, ...]

    @property
    def is_source(self) -> bool:
        """Whether the chain begins with a source."""
        return self.operators[0].kind == "source"

    def to_json(self) -> dict[str, Any]:
        """Return the vertex as JSON values."""
        return {
            "id": self.id,
            "name": self.name,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "slot_sharing_group": self.slot_sharing_group,
            "operators": [operator.to_json() for operator in self.operators],
        }


@dataclass(frozen=True, slots=True)
class JobEdge:
    """Records that leave one chain for the head of another.

    `edge_id` is the id of the original StreamEdge. `source_operator` is the sender's index in its chain.
    """

    edge_id: int
    source_vertex: str
    source_operator: int
    target_vertex: str
    input_index: int
    partitioning: Partitioning
    side_tag: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the edge as JSON values."""
        return {
            "source": self.source_vertex,
            "source_operator": self.source_operator,
            "target": self.target_vertex,
            "input_index": self.input_index,
            "partitioning": describe(self.partitioning),
            "side_tag": self.side_tag,
        }


@dataclass(frozen=True, slots=True)
class JobGraph:
    """The job: vertices in topological order, edges ordered by target and input."""

    job_name: str
    runtime_mode: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]

    def vertex(self, vertex_id: str) -> JobVertex:
        """Return the vertex with this id."""
        return next(vertex for vertex in self.vertices if vertex.id == vertex_id)

    def to_json(self) -> dict[str, Any]:
        """Return the graph as JSON values."""
        return {
            "job_name": self.job_name,
            "runtime_mode": self.runtime_mode,
            "vertices": [vertex.to_json() for vertex in self.vertices],
            "edges": [edge.to_json() for edge in self.edges],
        }


def is_chainable(
    edge: StreamEdge, source: StreamNode, target: StreamNode, target_edges: int, *, enabled: bool
) -> bool:
    """Whether the target of an edge runs in the chain of its source.

    `target_edges` is the number of edges into the target; `enabled` is the environment's switch.
    """
    return (
        enabled
        and target_edges == 1
        and isinstance(edge.partitioning, Forward)
        and source.parallelism == target.parallelism
        and source.max_parallelism == target.max_parallelism
        and source.slot_sharing_group == target.slot_sharing_group
        and target.chaining == "ALWAYS"
        and source.chaining != "NEVER"
    )


def generate(stream_graph: StreamGraph) -> JobGraph:
    """Create the JobGraph: chain operators wherever the rules allow it."""
    in_edges, out_edges = stream_graph.in_edges(), stream_graph.out_edges()
    chained: set[int] = set()  # ids of edges inside chains
    for edge in stream_graph.edges:
        source, target = stream_graph.node(edge.source_id), stream_graph.node(edge.target_id)
        count = len(in_edges[target.id])
        if is_chainable(edge, source, target, count, enabled=stream_graph.chaining_enabled):
            chained.add(edge.id)
    vertices = []
    places: dict[int, tuple[str, int]] = {}  # node id -> vertex id, index in the chain
    # Nodes are in topological order and only heads have edges from outside: so are their vertices.
    for node in stream_graph.nodes:
        if any(edge.id in chained for edge in in_edges[node.id]):
            continue
        chain = _chain_of(node, stream_graph, out_edges, chained)
        vertices.append(_vertex(node, chain))
        places |= {member.node_id: (node.operator_id, at) for at, member in enumerate(chain)}
    return JobGraph(
        job_name=stream_graph.job_name,
        runtime_mode=stream_graph.runtime_mode,
        vertices=tuple(vertices),
        edges=tuple(
            JobEdge(
                edge_id=edge.id,
                source_vertex=places[edge.source_id][0],
                source_operator=places[edge.source_id][1],
                target_vertex=places[edge.target_id][0],
                input_index=edge.input_index,
                partitioning=edge.partitioning,
                side_tag=edge.side_tag,
            )
            for edge in stream_graph.edges
            if edge.id not in chained
        ),
    )


def _chain_of(
    head: StreamNode,
    graph: StreamGraph,
    out_edges: dict[int, list[StreamEdge]],
    chained: set[int],
) -> list[ChainedNode]:
    """Return the tree of operators below a head, depth first, parents before children."""
    order: list[StreamNode] = []
    stack = [head]
    while stack:
        node = stack.pop()
        order.append(node)
        inside = [edge for edge in out_edges[node.id] if edge.id in chained]
        stack.extend(graph.node(edge.target_id) for edge in reversed(inside))
    index = {node.id: at for at, node in enumerate(order)}
    return [
        ChainedNode(
            node_id=node.id,
            operator_id=node.operator_id,
            name=node.name,
            spec=node.spec,
            kind=node.kind,
            uid=node.uid,
            key_selectors=node.key_selectors,
            output_type=node.output_type,
            outputs=tuple(
                ChainedOutput(index[edge.target_id], edge.side_tag)
                for edge in out_edges[node.id]
                if edge.id in chained
            ),
            side_types=node.side_types,
            state_description=node.state_description,
            buffer_timeout=node.buffer_timeout,
            untimed_inputs=node.untimed_inputs,
        )
        for node in order
    ]


def _vertex(head: StreamNode, chain: list[ChainedNode]) -> JobVertex:
    return JobVertex(
        id=head.operator_id,
        name=chain_name(chain),
        parallelism=head.parallelism,
        max_parallelism=head.max_parallelism,
        slot_sharing_group=head.slot_sharing_group,
        operators=tuple(chain),
    )


def chain_name(chain: Sequence[ChainedNode]) -> str:
    """Return the name of a chain as Flink writes it: "A -> B" or "A -> (B, C -> D)"."""
    names = [node.name for node in chain]
    for at in range(len(chain) - 1, -1, -1):  # children are behind their parents
        below = [names[output.target] for output in chain[at].outputs]
        if len(below) == 1:
            names[at] += f" -> {below[0]}"
        elif below:
            names[at] += f" -> ({', '.join(below)})"
    return names[0]
