"""Validates a program while its StreamGraph is generated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.connectors.base.sink import Sink
from penstock.connectors.base.source import Boundedness, Source
from penstock.errors import InvalidProgramError
from penstock.graph.partitioning import (
    Broadcast,
    Forward,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.graph.stream_graph import StreamEdge, StreamNode
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)

_KINDS = ("source", "operator", "sink")
_CHAINING = ("ALWAYS", "HEAD", "NEVER")
_KEY_BREAKING = (Rebalance, Rescale, Shuffle, Broadcast)


def check_transformation(transformation: Transformation) -> None:
    """Reject an inconsistent transformation."""
    name, inputs = transformation.name, len(transformation.inputs)
    match transformation:
        case OperatorTransformation():
            _check_operator(transformation)
        case PartitionTransformation():
            if inputs != 1:
                raise InvalidProgramError(
                    f"the partitioning '{name}' must have one input, not {inputs}"
                )
            if type(transformation.partitioning) is Partitioning:
                raise InvalidProgramError(f"the partitioning '{name}' has no kind")
        case SideOutputTransformation():
            if inputs != 1:
                raise InvalidProgramError(
                    f"the side output '{name}' must have one input, not {inputs}"
                )
            if isinstance(transformation.inputs[0], SideOutputTransformation):
                raise InvalidProgramError(
                    f"the side output '{transformation.tag_id}' is taken from a side output",
                    hint="call get_side_output on the operator that emits under this tag",
                )
        case UnionTransformation():
            if inputs == 0:
                raise InvalidProgramError(f"the union '{name}' has no inputs")
        case _:
            raise InvalidProgramError(f"unsupported transformation {type(transformation).__name__}")


def _check_operator(operator: OperatorTransformation) -> None:
    name, inputs = operator.name, len(operator.inputs)
    if operator.kind not in _KINDS:
        raise InvalidProgramError(f"the operator '{name}' has an unknown kind {operator.kind!r}")
    if operator.chaining not in _CHAINING:
        raise InvalidProgramError(
            f"the operator '{name}' has an unknown chaining strategy {operator.chaining!r}",
            hint="use one of " + ", ".join(_CHAINING),
        )
    is_source = operator.kind == "source"
    if is_source != (operator.spec.reads_from is not None):
        raise InvalidProgramError(
            f"the {operator.kind} '{name}' has a spec of the wrong kind, {type(operator.spec).__name__}",
            detail="a source needs the spec of a source, and no other operator may have one",
        )
    if is_source and (inputs or any(key is not None for key in operator.key_selectors)):
        raise InvalidProgramError(
            f"the source '{name}' has an input", hint="sources have no inputs"
        )
    if not is_source and not inputs:
        raise InvalidProgramError(
            f"the {operator.kind} '{name}' has no input", hint="start the stream with a source"
        )
    if operator.key_selectors and len(operator.key_selectors) != inputs:
        raise InvalidProgramError(
            f"the {operator.kind} '{name}' has {inputs} inputs and "
            f"{len(operator.key_selectors)} key selectors",
            hint="pass one entry per input, None where the input is not keyed",
        )


def check_edge(source: StreamNode, target: StreamNode, edge: StreamEdge) -> None:
    """Reject an edge that is not valid."""
    if source.kind == "sink":
        raise InvalidProgramError(
            f"'{target.name}' reads from the sink '{source.name}'",
            hint="sinks have no output: connect to the input stream of the sink",
        )
    partitioning = edge.partitioning
    if isinstance(partitioning, Forward) and source.parallelism != target.parallelism:
        raise InvalidProgramError(
            "forward partitioning does not allow a change of parallelism",
            detail=f"'{source.name}' has parallelism {source.parallelism}, "
            f"'{target.name}' has {target.parallelism}",
            hint="use rebalance(), rescale(), shuffle(), broadcast() or global_() instead of forward(), "
            "or give both the same parallelism",
        )
    keyed = bool(target.key_selectors) and target.key_selectors[edge.input_index] is not None
    if keyed and target.parallelism > 1 and isinstance(partitioning, _KEY_BREAKING):
        raise InvalidProgramError(
            f"the keyed input {edge.input_index} of '{target.name}' is not partitioned by key",
            detail=f"its records come from '{source.name}' with {partitioning.NAME}",
            hint="call key_by() directly before the operator",
        )


def check_unique(nodes: Sequence[StreamNode]) -> None:
    """Reject duplicate uids and operator ids, and two sinks that write to the same path."""
    uids: dict[str, str] = {}
    ids: dict[str, str] = {}
    paths: dict[str, str] = {}
    for node in nodes:
        if node.uid is not None:
            if node.uid in uids:
                raise _duplicate(f"the uid '{node.uid}' is used twice", uids[node.uid], node.name)
            uids[node.uid] = node.name
        if node.operator_id in ids:
            raise _duplicate(
                f"the operator id {node.operator_id} is used twice",
                ids[node.operator_id],
                node.name,
            )
        ids[node.operator_id] = node.name
        sink = node.spec.writes_to
        if isinstance(sink, Sink):
            path = sink.output_path()
            if path is not None and path in paths:
                raise InvalidProgramError(
                    f"two sinks write to '{path}'",
                    detail=f"'{paths[path]}' and '{node.name}'",
                    hint="give each sink its own path, or union the streams before one sink",
                )
            if path is not None:
                paths[path] = node.name


def _duplicate(message: str, first: str, second: str) -> InvalidProgramError:
    return InvalidProgramError(
        message,
        detail=f"by '{first}' and '{second}'",
        hint="state in checkpoints is found by it: give every operator its own uid",
    )


def resolve_runtime_mode(mode: str, nodes: Iterable[StreamNode]) -> str:
    """Return STREAMING or BATCH; reject BATCH if a source is unbounded."""
    unbounded = [node for node in nodes if not _is_bounded(node)]
    if mode == "AUTOMATIC":
        return "STREAMING" if unbounded else "BATCH"
    if mode == "BATCH" and unbounded:
        raise InvalidProgramError(
            f"the source '{unbounded[0].name}' is unbounded, but the runtime mode is BATCH",
            hint="set the runtime mode to STREAMING or AUTOMATIC",
        )
    return mode


def _is_bounded(node: StreamNode) -> bool:
    source = node.spec.reads_from
    if not isinstance(source, Source):
        return True
    return source.get_boundedness() is Boundedness.BOUNDED
