"""Interval joins: rows whose times are near each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.graph.operator_specs.columnar.joins import ColumnarIntervalJoinSpec
from penstock.graph.state_description import Text, text_of
from penstock.sql.logical.nodes import LogicalJoin
from penstock.sql.logical.texts import show_millis
from penstock.sql.physical.conditions import Equalities, Interval
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import INSERTS, PhysicalNode, PhysicalTraits
from penstock.sql.physical.operators.join_inputs import (
    PhysicalTwoInputJoin,
    check_append_only,
    joined_keys,
    joined_schema,
    prepare,
    two_inputs,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalIntervalJoin(PhysicalTwoInputJoin):
    """Joins rows whose times are near each other."""

    spec: ColumnarIntervalJoinSpec

    def describe_times(self) -> list[str]:
        """Return the interval."""
        time = "Rowtime" if self.spec.left_time is not None else "Proctime"
        bounds = f"leftLowerBound={self.spec.lower}, leftUpperBound={self.spec.upper}"
        return [f"windowBounds=[is{time}=true, {bounds}]"]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return both sides and the interval."""
        spec = self.spec
        bounds = f" from {show_millis(spec.lower)} to {show_millis(spec.upper)}"
        return {
            **self.sides(lineage),
            "interval": text_of(self.times(lineage), bounds),
            "condition": () if spec.kind == "INNER" else self.condition(lineage),
        }


def interval_join(
    node: LogicalJoin,
    left: PhysicalNode,
    right: PhysicalNode,
    parts: Equalities,
    near: Interval,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    """Join rows whose times are `near` each other."""
    check_append_only("interval joins", left, right)
    sides = prepare(left, right, parts, near.rest, context)
    by_row = left.schema[near.left].time == "rowtime"
    spec = ColumnarIntervalJoinSpec(
        node.kind,
        sides.left.types,
        sides.right.types,
        sides.left_keys,
        sides.right_keys,
        near.left if by_row else None,
        near.right if by_row else None,
        near.lower,
        near.upper,
        sides.condition,
        sides.null_safe,
        context.zone,
    )
    schema = joined_schema(node.kind, sides.left, sides.right, timed=True)
    keys = joined_keys(node.kind, sides.left, sides.right, sides)
    traits = PhysicalTraits(INSERTS, keys)
    return two_inputs(PhysicalIntervalJoin, node, spec, sides, schema, traits, context)
