"""Window joins: rows of the same window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.joins import WindowJoinSpec
from penstock.graph.state_description import Text, joined, text_of
from penstock.sql.expr.nodes import InputRef
from penstock.sql.logical.nodes import LogicalJoin
from penstock.sql.physical.conditions import Equalities
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import INSERTS, PhysicalNode, PhysicalTraits, WindowAttributes
from penstock.sql.physical.operators.join_inputs import (
    PhysicalTwoInputJoin,
    check_append_only,
    joined_schema,
    prepare,
    two_inputs,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalWindowJoin(PhysicalTwoInputJoin):
    """Joins rows of the same window."""

    spec: WindowJoinSpec

    def describe_times(self) -> list[str]:
        """Return the windows of both sides."""
        left, right = (each.names for each in self.inputs)
        one, other = self.spec.left_window, self.spec.right_window
        return [
            f"leftWindow=[{left[one[0]]}, {left[one[1]]}]",
            f"rightWindow=[{right[other[0]]}, {right[other[1]]}]",
        ]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return both sides and their windows."""
        spec = self.spec
        left, right = (lineage.columns(each) for each in self.inputs)
        windows = [*(left[at] for at in spec.left_window), *(right[at] for at in spec.right_window)]
        return {
            **self.sides(lineage),
            "windows": text_of(joined(windows), f" in {spec.zone}"),
        }


def window_pair(
    left: PhysicalNode, right: PhysicalNode, parts: Equalities
) -> tuple[WindowAttributes, WindowAttributes] | None:
    """Return the windows of both sides if the condition says that they are the same; they are taken out of the keys."""
    one, other = left.traits.window, right.traits.window
    if one is None or other is None:
        return None
    pairs = {
        (a.index, b.index): at
        for at, (a, b) in enumerate(zip(parts.left, parts.right, strict=True))
        if isinstance(a, InputRef) and isinstance(b, InputRef)
    }
    start, end = pairs.get((one.start, other.start)), pairs.get((one.end, other.end))
    if start is None or end is None:
        return None
    for at in sorted((start, end), reverse=True):
        del parts.left[at], parts.right[at], parts.null_safe[at]
    return one, other


def window_join(
    node: LogicalJoin,
    left: PhysicalNode,
    right: PhysicalNode,
    parts: Equalities,
    windows: tuple[WindowAttributes, WindowAttributes],
    context: PhysicalPlanContext,
) -> PhysicalNode:
    """Join rows of the same window."""
    check_append_only("window joins", left, right)
    sides = prepare(left, right, parts, parts.rest, context)
    one, other = windows
    spec = WindowJoinSpec(
        node.kind,
        sides.left.types,
        sides.right.types,
        sides.left_keys,
        sides.right_keys,
        (one.start, one.end),
        (other.start, other.end),
        sides.condition,
        sides.null_safe,
        one.zone or "UTC",
    )
    schema = joined_schema(node.kind, sides.left, sides.right, timed=True)
    window = other if node.kind == "RIGHT" else one
    if node.kind == "RIGHT":
        by = len(sides.left.schema)
        window = replace(window, start=window.start + by, end=window.end + by)
    traits = PhysicalTraits(INSERTS, window=None if node.kind == "FULL" else window)
    return two_inputs(PhysicalWindowJoin, node, spec, sides, schema, traits, context)
