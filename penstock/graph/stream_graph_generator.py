"""Generates the StreamGraph from transformations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import InvalidProgramError
from penstock.graph.describe import spec_name
from penstock.graph.operator_ids import PositionIds, check_uid_hash, id_of_uid
from penstock.graph.partitioning import Forward, Partitioning, Rebalance
from penstock.graph.program_checks import (
    check_edge,
    check_transformation,
    check_unique,
    resolve_runtime_mode,
)
from penstock.graph.settings import GraphSettings, check_parallelism, default_max_parallelism
from penstock.graph.stream_graph import (
    DEFAULT_SLOT_SHARING_GROUP,
    StreamEdge,
    StreamGraph,
    StreamNode,
)
from penstock.graph.timestamps import untimed_inputs
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The physical origin of a transformation's records, through all virtual steps."""

    node: StreamNode
    partitioning: Partitioning | None = None  # None: not set by the user
    side_tag: str | None = None


def generate(transformations: Sequence[Transformation], settings: GraphSettings) -> StreamGraph:
    """Create the StreamGraph of everything that `transformations` (usually the sinks) read from.

    Nodes are numbered in the order in which the traversal from the given transformations back to the sources completes them,
    so the same program has the same numbers in every process.
    """
    generator = _Generator(settings)
    for transformation in _inputs_first(transformations):
        check_transformation(transformation)
        generator.add(transformation)
    nodes, edges = generator.nodes, generator.edges
    if not nodes:
        raise InvalidProgramError(
            "the program has no operators", hint="define a source and a sink before execute()"
        )
    mode = resolve_runtime_mode(settings.runtime_mode, nodes)
    check_unique(nodes)
    graph = StreamGraph(
        job_name=settings.job_name,
        runtime_mode=mode,
        chaining_enabled=settings.chaining_enabled,
        nodes=tuple(map(_in_batch_mode, nodes) if mode == "BATCH" else nodes),
        edges=tuple(edges),
    )
    return _with_untimed_inputs(graph)


def _with_untimed_inputs(graph: StreamGraph) -> StreamGraph:
    said = untimed_inputs(graph)
    if not said:
        return graph
    nodes = (dataclasses.replace(node, untimed_inputs=said.get(node.id)) for node in graph.nodes)
    return dataclasses.replace(graph, nodes=tuple(nodes))


def _in_batch_mode(node: StreamNode) -> StreamNode:
    return dataclasses.replace(node, spec=node.spec.in_batch_mode())


def _inputs_first(roots: Iterable[Transformation]) -> list[Transformation]:
    """Return all transformations that the roots need, each once and after its inputs.

    Iterative, because generated programs may exceed Python's recursion limit.
    """
    ordered: list[Transformation] = []
    done: set[int] = set()
    open_: set[int] = set()
    stack = [(root, False) for root in reversed(list(roots))]
    while stack:
        transformation, expanded = stack.pop()
        key = id(transformation)
        if expanded:
            open_.discard(key)
            done.add(key)
            ordered.append(transformation)
        elif key in open_:
            raise InvalidProgramError(
                f"'{transformation.name}' reads from itself", detail="a program has no cycles"
            )
        elif key not in done:
            open_.add(key)
            stack.append((transformation, True))
            stack.extend((source, False) for source in reversed(transformation.inputs))
    return ordered


class _Generator:
    """Collects nodes and edges; transformations are added after their inputs."""

    def __init__(self, settings: GraphSettings) -> None:
        self.settings = settings
        self.nodes: list[StreamNode] = []
        self.edges: list[StreamEdge] = []
        self._ids = PositionIds()
        self._origins: dict[int, tuple[_Origin, ...]] = {}  # by id() of the transformation

    def add(self, transformation: Transformation) -> None:
        """Translate one transformation."""
        inputs = [self._origins[id(source)] for source in transformation.inputs]
        match transformation:
            case OperatorTransformation():
                origins: tuple[_Origin, ...] = (_Origin(self._add_node(transformation, inputs)),)
            case PartitionTransformation():
                # Only the last partitioning before the consumer counts: rebalance() after key_by() is a rebalance.
                origins = tuple(
                    dataclasses.replace(origin, partitioning=transformation.partitioning)
                    for origin in inputs[0]
                )
            case SideOutputTransformation():
                origins = tuple(
                    self._side_output(origin, transformation.tag_id) for origin in inputs[0]
                )
            case _:  # a union
                origins = tuple(origin for source in inputs for origin in source)
        self._origins[id(transformation)] = origins

    @staticmethod
    def _side_output(origin: _Origin, tag: str) -> _Origin:
        if origin.side_tag is not None:
            raise InvalidProgramError(
                f"the side output '{tag}' is taken from the side output '{origin.side_tag}'",
                hint="call get_side_output on the operator that emits under this tag",
            )
        return dataclasses.replace(origin, side_tag=tag)

    def _add_node(
        self, operator: OperatorTransformation, inputs: list[tuple[_Origin, ...]]
    ) -> StreamNode:
        feeds = [(index, origin) for index, origins in enumerate(inputs) for origin in origins]
        operator_id = self._operator_id(operator, feeds)
        parallelism = self._parallelism(operator, operator_id)
        node = StreamNode(
            id=len(self.nodes) + 1,
            operator_id=operator_id,
            name=_display_name(operator),
            spec=operator.spec,
            kind=operator.kind,
            parallelism=parallelism,
            max_parallelism=self._max_parallelism(operator, operator_id, parallelism),
            uid=operator.uid,
            description=operator.description,
            slot_sharing_group=_slot_sharing_group(operator, [origin.node for _, origin in feeds]),
            chaining=operator.chaining,
            output_type=operator.output_type,
            key_selectors=tuple(operator.key_selectors),
            buffer_timeout=operator.buffer_timeout,
            side_types=tuple(operator.side_types.items()),
            state_description=operator.state_description,
        )
        self.nodes.append(node)
        for index, origin in feeds:
            edge = StreamEdge(
                id=len(self.edges),
                source_id=origin.node.id,
                target_id=node.id,
                input_index=index,
                partitioning=origin.partitioning or _default_partitioning(origin.node, node),
                side_tag=origin.side_tag,
            )
            check_edge(origin.node, node, edge)
            self.edges.append(edge)
        return node

    def _operator_id(
        self, operator: OperatorTransformation, feeds: list[tuple[int, _Origin]]
    ) -> str:
        # Every operator gets a position, so that giving one of two siblings a uid does not change the other's id.
        by_position = self._ids.next_id(
            operator.kind,
            spec_name(operator.spec),
            [(index, origin.node.operator_id, origin.side_tag) for index, origin in feeds],
        )
        if operator.uid_hash is not None:
            return check_uid_hash(operator.uid_hash)
        return by_position if operator.uid is None else id_of_uid(operator.uid)

    def _parallelism(self, operator: OperatorTransformation, operator_id: str) -> int:
        parallelism = self.settings.rescaled.get(operator_id, operator.parallelism)
        if operator.parallelism_fixed and parallelism not in {None, 1}:
            raise InvalidProgramError(f"'{operator.name}' is not parallel and cannot be rescaled")
        if parallelism is None:
            return 1 if operator.parallelism_fixed else self.settings.parallelism
        check_parallelism(parallelism, f"the parallelism of '{operator.name}'")
        return parallelism

    def _max_parallelism(
        self, operator: OperatorTransformation, operator_id: str, parallelism: int
    ) -> int:
        chosen = operator.max_parallelism
        if chosen is None:
            chosen = self.settings.max_parallelism
        if chosen is None:
            chosen = self.settings.key_groups.get(operator_id)
        if chosen is None:
            return default_max_parallelism(parallelism)
        check_parallelism(chosen, f"the max parallelism of '{operator.name}'")
        if parallelism > chosen:
            raise InvalidProgramError(
                f"the parallelism of '{operator.name}' is higher than its max parallelism",
                detail=f"{parallelism} subtasks would share {chosen} key groups",
                hint="raise the max parallelism, or lower the parallelism",
            )
        return chosen


def _default_partitioning(source: StreamNode, target: StreamNode) -> Partitioning:
    return Forward() if source.parallelism == target.parallelism else Rebalance()


def _slot_sharing_group(operator: OperatorTransformation, inputs: list[StreamNode]) -> str:
    if operator.slot_sharing_group is not None:
        return operator.slot_sharing_group
    groups = {node.slot_sharing_group for node in inputs}
    return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP


def _display_name(operator: OperatorTransformation) -> str:
    """Return the name with the prefix that Flink's plans give to sources and sinks."""
    prefix = {"source": "Source: ", "sink": "Sink: "}.get(operator.kind, "")
    return operator.name if operator.name.startswith(prefix) else prefix + operator.name
