"""Who needs -U rows, from the ends of a plan to its beginnings; and the plan in which only they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from penstock.graph.operator_specs.columnar.changes import (
    ChangelogNormalizeSpec,
    DropKindsSpec,
    NotNullSpec,
)
from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.graph.operator_specs.columnar.stateless import (
    CalcSpec,
    RowsToColumnsSpec,
    WatermarkSpec,
)
from penstock.sql.expr.nodes import inputs_of
from penstock.sql.physical.make import operator
from penstock.sql.physical.nodes import (
    ChangelogTraits,
    PhysicalExchange,
    PhysicalNode,
    PhysicalOperator,
    PhysicalResult,
    PhysicalTableSink,
    PhysicalUnion,
)

_PASS_ON = (WatermarkSpec, RowsToColumnsSpec, NotNullSpec)


def inputs_first(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    """Return all nodes of a plan, each once and after its inputs."""
    ordered: list[PhysicalNode] = []
    seen: set[int] = set()

    def visit(node: PhysicalNode) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for each in node.inputs:
            visit(each)
        ordered.append(node)

    for root in roots:
        visit(root)
    return ordered


def needs_before(node: PhysicalNode, wanted: bool) -> bool:
    """Whether a node needs the -U rows of its inputs; `wanted`: a downstream node needs its own."""
    if isinstance(node, PhysicalExchange | PhysicalUnion):
        return wanted
    if isinstance(node, PhysicalTableSink):
        return node.takes_before or node.deletes_by is not None
    if isinstance(node, PhysicalResult):
        return node.before
    if not isinstance(node, PhysicalOperator):
        return True
    spec = node.spec
    if isinstance(spec, CalcSpec):
        return wanted or not _filters_by_key(node, spec)
    if isinstance(spec, _PASS_ON):
        return wanted
    if isinstance(spec, ChangelogNormalizeSpec | DropKindsSpec):
        return False
    if isinstance(spec, RankSpec):
        return spec.strategy != "UPDATE"
    return True


def _filters_by_key(node: PhysicalOperator, spec: CalcSpec) -> bool:
    """Whether all changes of a row pass a filter or none does: else rows that passed before must be retracted."""
    if spec.condition is None:
        return True
    read = inputs_of(spec.condition)
    return any(read <= key for key in node.inputs[0].traits.keys)


def prune_update_before(roots: Sequence[PhysicalNode]) -> list[PhysicalNode]:
    """Return a plan whose operators emit -U rows only where they are needed, and drop them before operators that must not get them."""
    ordered = inputs_first(roots)
    wanted: dict[int, bool] = {}
    for node in reversed(ordered):
        asks = needs_before(node, wanted.get(id(node), False))
        for each in node.inputs:
            wanted[id(each)] = wanted.get(id(each), False) or asks
    made: dict[int, PhysicalNode] = {}
    for node in ordered:
        inputs = tuple(made[id(each)] for each in node.inputs)
        made[id(node)] = _settled(node, inputs, wanted.get(id(node), False))
    return [made[id(root)] for root in roots]


def _settled(node: PhysicalNode, inputs: tuple[PhysicalNode, ...], wanted: bool) -> PhysicalNode:
    changes = node.traits.changes
    if isinstance(node, PhysicalOperator) and _makes_updates(node.spec):
        # The changes of the input are final now: an aggregate may not need retraction.
        spec: Any = replace(node.spec, update_before=wanted)  # type: ignore[call-arg]
        # An update of a joined row may leave no pair: without -U rows the former one is deleted.
        alone = isinstance(spec, JoinSpec) and changes.updates and not wanted
        changes = replace(changes, before=wanted, deletes=changes.deletes or alone)
        traits = replace(node.traits, changes=changes)
        return replace(node, inputs=inputs, spec=spec, traits=traits)
    if not changes.updates or not inputs:
        return replace(node, inputs=inputs)
    if isinstance(node, PhysicalTableSink) and not node.takes_before and _has_before(inputs[0]):
        inputs = (_without_before(inputs[0], node.deletes_by),)
    if isinstance(node, PhysicalResult) and not node.before and _has_before(inputs[0]):
        inputs = (_without_before(inputs[0]),)
    before = changes.before and any(_has_before(each) for each in inputs)
    # Rows that change pass through all that is left, of two inputs those of the first.
    sources = inputs if isinstance(node, PhysicalUnion) else inputs[:1]
    deletes = any(each.traits.changes.deletes for each in sources)
    changes = replace(changes, before=before, deletes=deletes)
    traits = replace(node.traits, changes=changes)
    return replace(node, inputs=inputs, traits=traits)


def _makes_updates(spec: Any) -> bool:
    return any(each.name == "update_before" for each in fields(spec)) and not isinstance(
        spec, DropKindsSpec
    )


def _has_before(node: PhysicalNode) -> bool:
    changes: ChangelogTraits = node.traits.changes
    return changes.updates and changes.before


def loses_updates(node: PhysicalNode) -> bool:
    """Whether a filter may leave out the +U row of an update and not its -U row, which then stands for a delete."""
    if isinstance(node, PhysicalExchange | PhysicalUnion):
        return any(map(loses_updates, node.inputs))
    if not isinstance(node, PhysicalOperator) or not node.traits.changes.updates:
        return False
    if isinstance(node.spec, CalcSpec):
        return not _filters_by_key(node, node.spec) or loses_updates(node.inputs[0])
    return isinstance(node.spec, _PASS_ON) and loses_updates(node.inputs[0])


def _without_before(node: PhysicalNode, keys: tuple[int, ...] | None = None) -> PhysicalNode:
    if keys is None and loses_updates(node):
        known = min(node.traits.keys, key=lambda key: (len(key), sorted(key)), default=None)
        keys = tuple(range(len(node.schema)) if known is None else sorted(known))
    deletes = node.traits.changes.deletes or keys is not None
    changes = replace(node.traits.changes, before=False, deletes=deletes)
    traits = replace(node.traits, changes=changes)
    return operator(DropKindsSpec(keys=keys), (node,), node.schema, traits)
