"""-U rows left out, before readers that must not get them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.changes import DropKindsSpec
from penstock.sql.physical.nodes import Columns, PhysicalNode, PhysicalOperator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalDropUpdateBefore(PhysicalOperator):
    """Drops -U rows."""

    spec: DropKindsSpec

    def needs_update_before(self, wanted: bool) -> bool:
        """Whether it needs -U rows: it drops them."""
        return False


def without_update_before(node: PhysicalNode, keys: Columns | None = None) -> PhysicalNode:
    """Return a node without -U rows.

    Where a filter may leave out the +U row of an update, its -U row becomes a delete by `keys`, or by the key that rows are known by.
    """
    if keys is None and node.loses_updates:
        known = min(node.traits.keys, key=lambda key: (len(key), sorted(key)), default=None)
        keys = tuple(range(len(node.schema)) if known is None else sorted(known))
    deletes = node.traits.changes.deletes or keys is not None
    changes = replace(node.traits.changes, before=False, deletes=deletes)
    traits = replace(node.traits, changes=changes)
    return PhysicalDropUpdateBefore.of(DropKindsSpec(keys=keys), (node,), node.schema, traits)
