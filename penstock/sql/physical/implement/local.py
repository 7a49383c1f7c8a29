"""The first of two phases of an aggregation: batches are folded before they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.graph.operator_specs.columnar.aggregates import ColumnarLocalAggregateSpec
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.options import table as options
from penstock.runtime.columnar.aggregates.columns import is_mergeable
from penstock.sql.expr.nodes import AggregateCall
from penstock.sql.logical.nodes import Field
from penstock.sql.physical.implement.context import PhysicalPlanContext
from penstock.sql.physical.make import operator
from penstock.sql.physical.nodes import INSERTS, PhysicalNode
from penstock.sql.types import BigIntType


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
    return operator(spec, (source,), tuple(fields), traits)
