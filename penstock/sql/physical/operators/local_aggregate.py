"""The first of two phases of an aggregation: batches are folded before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.aggregates import ColumnarLocalAggregateSpec
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.options import table as options
from penstock.runtime.columnar.aggregates.columns import is_mergeable
from penstock.sql.expr.nodes import AggregateCall
from penstock.sql.logical.nodes import Field
from penstock.sql.logical.texts import show_window
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.nodes import INSERTS, PhysicalNode
from penstock.sql.physical.operators.aggregate_input import PhysicalAggregate
from penstock.sql.types import BigIntType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalLocalAggregate(PhysicalAggregate):
    """Folds each batch by key, and by slice of a window."""

    spec: ColumnarLocalAggregateSpec

    @property
    def name(self) -> str:
        """Its name in plans."""
        return "LocalGroupAggregate" if self.spec.window is None else "LocalWindowAggregate"

    def describe(self) -> list[str]:
        """Return keys, window and calls."""
        parts, window = self.describe_keys(), self.spec.window
        if window is not None:
            parts.append(f"window=[{show_window(window, self.input_names)}]")
        first = len(self.spec.keys) + (window is not None)  # behind keys and the end of a slice
        return [*parts, self.describe_calls(first)]

    def accumulated(self) -> tuple[PhysicalNode, tuple[int, ...]]:
        """Return its input and its keys."""
        return self.inputs[0], self.spec.keys


def local_aggregate(
    source: PhysicalNode,
    keys: Sequence[int],
    calls: Sequence[AggregateCall],
    context: PhysicalPlanContext,
    window: WindowDefinition | None = None,
) -> PhysicalNode | None:
    """Fold batches by key, and by slice of a window; None where accumulators cannot be put together afterwards, or the options forbid it.

    Output: the keys, the end of the slice if there are windows, accumulators: one or more per call.
    """
    retracts = source.traits.changes.retracts
    if context.settings.configuration.get(options.AGG_PHASE) == "ONE_PHASE":
        return None
    if len(set(keys)) < len(keys) or not all(is_mergeable(each, retracts) for each in calls):
        return None
    spec = ColumnarLocalAggregateSpec(
        source.types, tuple(keys), tuple(calls), retracts, window, context.zone
    )
    fields = [Field(source.schema[key].name, source.schema[key].type) for key in keys]
    if window is not None:
        fields.append(Field("$slice_end", BigIntType(False)))
    fields += [Field(f"$acc{at}", each.type) for at, each in enumerate(calls)]
    traits = replace(source.traits, changes=INSERTS, keys=frozenset(), window=None)
    return PhysicalLocalAggregate.of(spec, (source,), tuple(fields), traits)
