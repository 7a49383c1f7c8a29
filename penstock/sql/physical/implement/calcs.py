"""Nodes that keep nothing: projection, filter, windows as columns, unions."""

from __future__ import annotations

from dataclasses import replace

from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.graph.operator_specs.columnar.stateless import (
    CorrelateSpec,
    ExpandSpec,
    WindowTableFunctionSpec,
)
from penstock.sql.logical.nodes import (
    Field,
    LogicalCorrelate,
    LogicalFilter,
    LogicalProject,
    LogicalSetOperation,
    LogicalTableFunctionScan,
)
from penstock.sql.physical.implement.context import PhysicalPlanContext
from penstock.sql.physical.keys import project_window, smallest
from penstock.sql.physical.make import calc, exchange, operator
from penstock.sql.physical.nodes import (
    ChangelogTraits,
    PhysicalNode,
    PhysicalTraits,
    PhysicalUnion,
    WindowAttributes,
)
from penstock.sql.rules.nodes import LogicalExpand


def implement_project(node: LogicalProject, context: PhysicalPlanContext) -> PhysicalNode:
    """Compute columns."""
    below = context.implement(node.input)
    return calc(below, node.schema, node.expressions, zone=context.zone)


def implement_filter(node: LogicalFilter, context: PhysicalPlanContext) -> PhysicalNode:
    """Leave out rows."""
    below = context.implement(node.input)
    return calc(below, node.schema, condition=node.condition, zone=context.zone)


def implement_window_table(
    node: LogicalTableFunctionScan, context: PhysicalPlanContext
) -> PhysicalNode:
    """Give rows their windows. Sessions are kept per partition."""
    below = context.implement(node.input)
    window = node.window
    if window.kind == "SESSION":
        below = exchange(below, window.partition)
    width = len(below.schema)
    session = window.kind == "SESSION"
    apart = session and bool(window.partition)
    columns = WindowAttributes(
        width,
        width + 1,
        window.zone,
        rowtime=not node.proctime,
        starts_differ=window.kind != "CUMULATE" and not apart,
        ends_differ=not apart,
    )
    schema = (*below.schema, *node.schema[width:])
    # A row is repeated per window, so its upsert keys need the window, too.
    keys = smallest(each for key in below.traits.keys for each in columns.keys(key))
    traits = replace(below.traits, keys=keys, window=columns)
    spec = (SessionTableFunctionSpec if session else WindowTableFunctionSpec)(below.types, window)
    return operator(spec, (below,), schema, traits, single=_is_alone(window.kind, window.partition))


def _is_alone(kind: str, partition: tuple[int, ...]) -> bool:
    return kind == "SESSION" and not partition


def implement_correlate(node: LogicalCorrelate, context: PhysicalPlanContext) -> PhysicalNode:
    """Give each row with the rows that a function makes of it."""
    below = context.implement(node.input)
    added = node.schema[len(below.schema) :]
    spec = CorrelateSpec(
        below.types,
        node.function,
        node.operands,
        tuple(field.type for field in added),
        node.user,
        node.outer,
        node.condition,
        context.zone,
    )
    traits = replace(below.traits, keys=frozenset())
    return operator(spec, (below,), (*below.schema, *added), traits)


def implement_union(node: LogicalSetOperation, context: PhysicalPlanContext) -> PhysicalNode:
    """Give the rows of all parts; the other set operations were rewritten before."""
    parts = [context.implement(each) for each in node.parts]
    return union(parts, [field.name for field in node.schema])


def union(parts: list[PhysicalNode], names: list[str]) -> PhysicalNode:
    """Give the rows of all parts, which have the same types."""
    first = parts[0]
    fields = []
    for at, name in enumerate(names):
        times = {part.schema[at].time for part in parts}
        time = first.schema[at].time if len(times) == 1 else None
        nullable = any(part.schema[at].type.is_nullable for part in parts)
        kind = first.schema[at].type
        fields.append(Field(name, kind.nullable() if nullable else kind, time))
    all_changes = [part.traits.changes for part in parts]
    changes = ChangelogTraits(
        updates=any(each.updates for each in all_changes),
        deletes=any(each.deletes for each in all_changes),
    )
    traits = PhysicalTraits(changes, bounded=all(part.traits.bounded for part in parts))
    return PhysicalUnion(schema=tuple(fields), traits=traits, inputs=tuple(parts))


def implement_expand(node: LogicalExpand, context: PhysicalPlanContext) -> PhysicalNode:
    """Give each row once per projection."""
    below = context.implement(node.input)
    spec = ExpandSpec(below.types, node.projections, context.zone)
    traits = replace(below.traits, keys=frozenset(), window=_kept_window(node, below))
    return operator(spec, (below,), node.schema, traits)


def _kept_window(node: LogicalExpand, below: PhysicalNode) -> WindowAttributes | None:
    """Where all projections have the window's columns at the same place, rows still carry it."""
    found = {project_window(below.traits.window, each) for each in node.projections}
    return found.pop() if len(found) == 1 else None
