"""Walking and rebuilding logical plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from penstock.sql.expr.nodes import AggregateCall, InputRef, Rex
from penstock.sql.logical.nodes import (
    LogicalAggregate,
    LogicalCorrelate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalOverAggregate,
    LogicalProject,
    LogicalSetOperation,
    LogicalSingleInput,
    LogicalValues,
    Schema,
)


def with_inputs(node: LogicalNode, inputs: Sequence[LogicalNode]) -> LogicalNode:
    """Return a node with other inputs; the same object if they are the same."""
    if all(old is new for old, new in zip(node.inputs, inputs, strict=True)):
        return node
    if isinstance(node, LogicalJoin):
        return replace(node, left=inputs[0], right=inputs[1])
    if isinstance(node, LogicalSetOperation):
        return replace(node, parts=tuple(inputs))
    assert isinstance(node, LogicalSingleInput)
    return replace(node, input=inputs[0])


def transform(node: LogicalNode, change: Callable[[LogicalNode], LogicalNode]) -> LogicalNode:
    """Return a plan with each node replaced by what `change` makes of it, inputs first. Shared nodes stay shared."""
    made: dict[int, tuple[LogicalNode, LogicalNode]] = {}

    def visit(each: LogicalNode) -> LogicalNode:
        known = made.get(id(each))
        if known is None:
            inputs = [visit(source) for source in each.inputs]
            known = made[id(each)] = (each, change(with_inputs(each, inputs)))
        return known[1]

    return visit(node)


def with_expressions(node: LogicalNode, change: Callable[[Rex], Rex]) -> LogicalNode:
    """Return a node with each of its expressions replaced by what `change` makes of it."""

    def call(each: AggregateCall) -> AggregateCall:
        return replace(
            each,
            operands=tuple(map(change, each.operands)),
            filter=None if each.filter is None else change(each.filter),
        )

    match node:
        case LogicalProject():
            return replace(node, expressions=tuple(map(change, node.expressions)))
        case LogicalFilter() | LogicalJoin():
            return replace(node, condition=change(node.condition))
        case LogicalAggregate():
            return replace(node, aggregates=tuple(map(call, node.aggregates)))
        case LogicalOverAggregate():
            return replace(node, calls=tuple(map(call, node.calls)))
        case LogicalCorrelate():
            return replace(node, operands=tuple(map(change, node.operands)))
        case LogicalValues():
            return replace(node, rows=tuple(tuple(map(change, row)) for row in node.rows))
    return node


def fields_of(node: object) -> dict[str, Any]:
    """Return the fields of a node besides its inputs and its place."""
    skipped = {"input", "left", "right", "parts", "place"}
    return {
        name: getattr(node, name)
        for kind in reversed(type(node).__mro__)
        for name in getattr(kind, "__dataclass_fields__", ())
        if name not in skipped
    }


def refs(schema: Schema) -> tuple[InputRef, ...]:
    """Return all columns."""
    return tuple(InputRef(field.type, at) for at, field in enumerate(schema))
