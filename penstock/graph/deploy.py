"""Turns the StagePlan into the deployment descriptors of its vertices."""

from __future__ import annotations

from typing import Any

from penstock.graph.deployment import (
    ChainedOperatorInfo,
    InputGate,
    ResultEdge,
    VertexCode,
    VertexDeployment,
)
from penstock.graph.job_graph import ChainedNode
from penstock.graph.stage_plan import StagePlan, StageVertex
from penstock.pickling import cloudpickling


def deploy(plan: StagePlan) -> tuple[VertexDeployment, ...]:
    """Describe every vertex of the plan for its tasks; user code is pickled here, once per job."""
    return tuple(_deploy_vertex(plan, vertex) for vertex in plan.vertices)


def _output_types(operator: ChainedNode) -> dict[str | None, Any]:
    types: dict[str | None, Any] = dict(operator.side_types)
    if operator.spec.checks_output:
        types[None] = operator.output_type
    return {tag: kind for tag, kind in types.items() if kind is not None}


def _deploy_vertex(plan: StagePlan, vertex: StageVertex) -> VertexDeployment:
    code = VertexCode(
        specs=tuple(operator.spec for operator in vertex.operators),
        partitionings=tuple(output.partitioning for output in vertex.outputs),
        types=tuple(map(_output_types, vertex.operators)),
    )
    return VertexDeployment(
        vertex=vertex.index,
        id=vertex.id,
        name=vertex.name,
        level=vertex.level,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        operators=tuple(
            ChainedOperatorInfo(
                operator_id=operator.operator_id,
                name=operator.name,
                chained=tuple((output.target, output.side_tag) for output in operator.outputs),
                untimed_inputs=operator.untimed_inputs,
            )
            for operator in vertex.operators
        ),
        gates=tuple(
            InputGate(
                gate=gate.gate,
                source_id=plan.vertices[gate.source_vertex].id,
                input_index=gate.input_index,
                source_parallelism=gate.source_parallelism,
                partitioning=gate.partitioning.NAME,
                local=gate.local,
            )
            for gate in vertex.inputs
        ),
        edges=tuple(
            ResultEdge(
                index=index,
                operator=output.operator,
                side_tag=output.side_tag,
                target_vertex=output.target_vertex,
                target_gate=output.target_gate,
                target_parallelism=output.target_parallelism,
                target_max_parallelism=output.target_max_parallelism,
                partitioning=output.partitioning.NAME,
                local=output.local,
                target_id=plan.vertices[output.target_vertex].id,
            )
            for index, output in enumerate(vertex.outputs)
        ),
        keyed=frozenset(
            position
            for position, operator in enumerate(vertex.operators)
            if operator.is_keyed or operator.spec.keyed_without_keys
        ),
        code=cloudpickling.dumps(code, 5),
        slot_offset=vertex.slot_offset,
        buffer_timeout_ms=_buffer_timeout(vertex),
    )


def _buffer_timeout(vertex: StageVertex) -> int | None:
    """Return the shortest buffer timeout of the operators that send to other vertices; None if none is set."""
    senders = {output.operator for output in vertex.outputs}
    set_timeouts = [vertex.operators[position].buffer_timeout for position in senders]
    return min((each for each in set_timeouts if each is not None), default=None)
