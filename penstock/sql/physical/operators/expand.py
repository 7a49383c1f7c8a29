"""Expansion: each row once per projection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.stateless import ExpandSpec
from penstock.graph.state_description import Text, joined
from penstock.sql.logical.nodes import LogicalExpand
from penstock.sql.logical.texts import show
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.keys import project_window
from penstock.sql.physical.lineage import Lineage, text_of_rex
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator, WindowAttributes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalExpand(PhysicalOperator):
    """Gives each row once per projection."""

    spec: ExpandSpec

    def describe(self) -> list[str]:
        """Return the projections."""
        below = self.input_names
        shown = [
            f"{{{', '.join(show(each, below) for each in row)}}}" for row in self.spec.projections
        ]
        return [f"projects=[{', '.join(shown)}]"]

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return what the projections compute."""
        below = lineage.columns(self.inputs[0])
        found = []
        for column in zip(*self.spec.projections, strict=True):
            texts = list(dict.fromkeys(text_of_rex(each, below, self.spec.zone) for each in column))
            found.append(texts[0] if len(texts) == 1 else joined(texts, " or "))
        return found


@implements(LogicalExpand)
def implement_expand(node: LogicalExpand, context: PhysicalPlanContext) -> PhysicalNode:
    """Give each row once per projection."""
    below = context.implement(node.input)
    spec = ExpandSpec(below.types, node.projections, context.zone)
    traits = replace(below.traits, keys=frozenset(), window=_kept_window(node, below))
    return PhysicalExpand.of(spec, (below,), node.schema, traits)


def _kept_window(node: LogicalExpand, below: PhysicalNode) -> WindowAttributes | None:
    """Where all projections have the window's columns at the same place, rows still carry it."""
    found = {project_window(below.traits.window, each) for each in node.projections}
    return found.pop() if len(found) == 1 else None
