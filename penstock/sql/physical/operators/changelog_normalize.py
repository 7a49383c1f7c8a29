"""Changelog normalization: full changes of upserts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.changes import ChangelogNormalizeSpec
from penstock.graph.state_description import Text
from penstock.options import table as options
from penstock.sql.errors import ValidationError
from penstock.sql.logical.texts import show_columns, show_ttl
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.lineage import Lineage, expires
from penstock.sql.physical.nodes import EVERYTHING, PhysicalNode, PhysicalUpdatingOperator
from penstock.sql.physical.operators.exchange import exchange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalChangelogNormalize(PhysicalUpdatingOperator):
    """Makes a full changelog of upserts, or of changes that may come twice."""

    spec: ChangelogNormalizeSpec

    def describe(self) -> list[str]:
        """Return the key."""
        key = show_columns(self.spec.keys, self.input_names)
        return [f"key=[{key}]", *show_ttl(self.spec.ttl_ms)]

    def needs_update_before(self, wanted: bool) -> bool:
        """Whether it needs -U rows: it has the former row of each key in its state."""
        return False

    def with_all_versions(self) -> PhysicalNode:
        """Return the operator that emits each change of a key."""
        return replace(self, spec=replace(self.spec, every=True))

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the key and the rows that are kept by it."""
        below = self.inputs[0]
        return {
            "keys": lineage.typed(below, self.spec.keys),
            "rows": lineage.rows(below),
            "expires": expires(self.spec.ttl_ms),
        }


def normalized(node: PhysicalNode, path: object, context: PhysicalPlanContext) -> PhysicalNode:
    """Make a full changelog of upserts; and of changes that may come twice, if the options say so."""
    changes = node.traits.changes
    duplicates = context.settings.configuration.get(options.DUPLICATES)
    upserts = changes.updates and not changes.before
    if not upserts and not (duplicates and changes.retracts):
        return node
    if not node.traits.keys:
        raise ValidationError(
            f"table {path} produces upserts but has no primary key",
            detail="an update without UPDATE_BEFORE needs a key",
            hint="declare PRIMARY KEY (...) NOT ENFORCED and select its columns",
        )
    key = tuple(sorted(min(node.traits.keys, key=sorted)))
    spec = ChangelogNormalizeSpec(node.types, key, ttl_ms=context.settings.ttl_ms)
    sent = exchange(node, key)
    traits = replace(sent.traits, changes=EVERYTHING, keys=frozenset([frozenset(key)]))
    return PhysicalChangelogNormalize.of(spec, (sent,), node.schema, traits)
