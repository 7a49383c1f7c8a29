"""Deduplication: the first or the last row of each key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.ranks import DeduplicateSpec
from penstock.graph.state_description import Text, text_of
from penstock.sql.expr.nodes import Literal
from penstock.sql.logical.nodes import LogicalRank
from penstock.sql.logical.texts import show_columns, show_ttl
from penstock.sql.logical.transform import refs
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.lineage import Lineage, expires
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    Columns,
    PhysicalNode,
    PhysicalUpdatingOperator,
)
from penstock.sql.physical.operators.calc import calc
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.types import BigIntType

_NUMBER = BigIntType(False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalDeduplicate(PhysicalUpdatingOperator):
    """Keeps the first or the last row of each key by its time."""

    spec: DeduplicateSpec

    def describe(self) -> list[str]:
        """Return which row is kept."""
        spec = self.spec
        order = "PROCTIME" if spec.time is None else "ROWTIME"
        kept = "LastRow" if spec.last else "FirstRow"
        key = show_columns(spec.keys, self.input_names)
        return [f"keep=[{kept}]", f"key=[{key}]", f"order=[{order}]", *show_ttl(spec.ttl_ms)]

    def with_all_versions(self) -> PhysicalNode:
        """Return the operator that emits each row that it keeps."""
        return replace(self, spec=replace(self.spec, every=True))

    @property
    def hashed_by(self) -> set[Columns]:
        """The keys."""
        return {self.spec.keys} if self.spec.keys else set()

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the keys and which row is kept."""
        spec, below = self.spec, self.inputs[0]
        by = ("arrival",) if spec.time is None else lineage.columns(below)[spec.time]
        return {
            "keys": lineage.typed(below, spec.keys),
            "kept": text_of("last" if spec.last else "first", " by ", by),
            "rows": lineage.rows(below),
            "expires": expires(spec.ttl_ms),
        }


def is_deduplication(node: LogicalRank, below: PhysicalNode) -> bool:
    """Whether a rank keeps the first or the last row by time."""
    return (
        node.function == "ROW_NUMBER"
        and (node.start, node.end) == (1, 1)
        and len(node.order) == 1
        and below.schema[node.order[0].index].time is not None
        and not below.traits.changes.retracts
    )


def deduplicate(
    node: LogicalRank, below: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    """Keep the first or the last row of each partition by time."""
    by = node.order[0]
    rowtime = below.schema[by.index].time == "rowtime"
    last = not by.ascending
    sent = exchange(below, node.partition)
    spec = DeduplicateSpec(
        sent.types,
        node.partition,
        by.index if rowtime else None,
        last,
        ttl_ms=context.settings.ttl_ms,
    )
    changes = ChangelogTraits(updates=True) if last or rowtime else INSERTS
    traits = replace(sent.traits, changes=changes, keys=frozenset([frozenset(node.partition)]))
    kept = PhysicalDeduplicate.of(spec, (sent,), below.schema, traits, single=not node.partition)
    return _with_first(node, kept, context)


def _with_first(
    node: LogicalRank, kept: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    """Append the rank, which is 1 for all rows."""
    if not node.with_rank:
        return kept
    schema = (*kept.schema, node.schema[-1])
    return calc(kept, schema, [*refs(kept.schema), Literal(_NUMBER, 1)], zone=context.zone)
