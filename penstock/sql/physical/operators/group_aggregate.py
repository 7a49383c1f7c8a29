"""GROUP BY without windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.graph.operator_specs.columnar.aggregates import GroupAggregateSpec
from penstock.graph.state_description import Text, joined
from penstock.sql.logical.nodes import Field, LogicalAggregate
from penstock.sql.logical.texts import show_ttl
from penstock.sql.physical.advice import growing_state, single_subtask
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage, expires
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    PhysicalNode,
    PhysicalTraits,
    PhysicalUpdatingOperator,
)
from penstock.sql.physical.operators.aggregate_input import AggregateInput, PhysicalAggregate
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.physical.operators.local_aggregate import local_aggregate
from penstock.sql.physical.operators.window_aggregate import by_window, group_window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalGroupAggregate(PhysicalAggregate, PhysicalUpdatingOperator):
    """Groups rows for good: results are updated."""

    spec: GroupAggregateSpec

    @property
    def name(self) -> str:
        """Its name in plans."""
        return "GlobalGroupAggregate" if self.spec.merges else "GroupAggregate"

    def describe(self) -> list[str]:
        """Return keys and calls."""
        spec = self.spec
        calls = self.describe_calls(len(spec.keys), merges=spec.merges)
        return [*self.describe_keys(), calls, *show_ttl(spec.ttl_ms)]

    def advice(self) -> list[str]:
        """Return advice on state per key, and on one state without keys."""
        if self.traits.bounded:
            return []
        found = [growing_state(self)] if self.spec.keys and not self.spec.ttl_ms else []
        return [*found, *([single_subtask(self)] if self.single else [])]

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the keys and the calls."""
        return self.calls_lineage(lineage)

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the keys and the accumulators."""
        rows, keys = self.accumulated()
        return {
            "keys": lineage.typed(rows, keys),
            "aggregates": joined(self.calls_lineage(lineage)[len(keys) :]),
            "input": ("with updates",) if self.spec.retracts else ("inserts only",),
            "expires": expires(self.spec.ttl_ms),
        }


@implements(LogicalAggregate)
def implement_aggregate(node: LogicalAggregate, context: PhysicalPlanContext) -> PhysicalNode:
    """Group rows: by a window if there is one among the keys, else for good."""
    below = context.implement(node.input)
    if node.window is not None:
        return group_window(node, below, node.window, context)
    window = below.traits.window
    if window is not None and window.start in node.keys and window.end in node.keys:
        return by_window(node, below, window, context)
    return _group(node, below, context)


def _group(
    node: LogicalAggregate, below: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    prepared = AggregateInput(below, node.keys)
    calls = tuple(prepared.call(each) for each in node.aggregates)
    source = prepared.node(context)
    keys = tuple(range(len(node.keys)))
    retracts = below.traits.changes.retracts
    ttl = context.settings.ttl_ms if node.ttl_ms is None else node.ttl_ms
    first = local_aggregate(source, prepared.keys, calls, context)
    sent = exchange(source if first is None else first, prepared.keys if first is None else keys)
    spec = GroupAggregateSpec(
        sent.types,
        sent.columns,
        calls,
        retracts,
        merges=first is not None,
        ttl_ms=ttl,
        zone=context.zone,
    )
    schema = _materialized(node)
    # In BATCH mode results come at the end. Where state expires, results that have not changed are emitted again, so that readers keep them.
    batch = context.settings.batch
    updates = bool(calls or ttl)
    changes = INSERTS if batch else ChangelogTraits(updates=updates, deletes=retracts)
    traits = PhysicalTraits(changes, frozenset([frozenset(keys)]))
    return PhysicalGroupAggregate.of(spec, (sent,), schema, traits, single=not keys)


def _materialized(node: LogicalAggregate) -> tuple[Field, ...]:
    """Return columns without time attributes: grouped by without a window, times are plain values."""
    return tuple(Field(field.name, field.type) for field in node.schema)
