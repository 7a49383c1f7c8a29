"""The final table of a changelog, in BATCH mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.changes import FinalTableSpec
from penstock.graph.state_description import Text
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import INSERTS, PhysicalNode, PhysicalOperator
from penstock.sql.physical.operators.exchange import exchange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalFinalTable(PhysicalOperator):
    """Gives the rows of the final table when the input has ended."""

    spec: FinalTableSpec

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the key and the rows that are kept by it."""
        below = self.inputs[0]
        return {"keys": lineage.typed(below, self.spec.keys), "rows": lineage.rows(below)}


def final_table(node: PhysicalNode) -> PhysicalNode:
    """Emit the final table of a changelog at the end, as inserts; an append-only node is unchanged."""
    traits = node.traits
    if not traits.changes.retracts:
        return node
    known = min(traits.keys, key=lambda key: (len(key), sorted(key)), default=frozenset())
    keys = tuple(sorted(known)) or tuple(range(len(node.schema)))
    sent = exchange(node, keys)
    spec = FinalTableSpec(sent.types, keys)
    return PhysicalFinalTable.of(spec, (sent,), node.schema, replace(traits, changes=INSERTS))
