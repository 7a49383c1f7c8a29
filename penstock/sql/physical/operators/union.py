"""UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.graph.state_description import Text, joined, text_of
from penstock.graph.transformations import Transformation, UnionTransformation
from penstock.sql.logical.nodes import Field, LogicalSetOperation
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import ChangelogTraits, PhysicalNode, PhysicalTraits

if TYPE_CHECKING:
    from penstock.sql.physical.translate import Translation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalUnion(PhysicalNode):
    """The rows of all inputs."""

    passes_changes = True

    def describe(self) -> list[str]:
        """Return the columns."""
        return ["all=[true]", f"union=[{', '.join(self.names)}]"]

    def changing(self, inputs: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
        """Return all inputs."""
        return inputs

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return that of the inputs if they have the same. Else changes come together in one subtask, in their order."""
        widths = set(of_inputs)
        if len(widths) == 1:
            return widths.pop()
        return 1 if any(each.traits.changes.retracts for each in self.inputs) else None

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the columns of all inputs."""
        branches = [lineage.columns(each) for each in self.inputs]
        return [
            text_of("UNION(", joined(list(column), " | "), ")")
            for column in zip(*branches, strict=True)
        ]

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Return a union."""
        return UnionTransformation("Union", list(inputs), parallelism=job.parallelism(self))


@implements(LogicalSetOperation)
def implement_union(node: LogicalSetOperation, context: PhysicalPlanContext) -> PhysicalNode:
    """Give the rows of all parts; the other set operations were rewritten before."""
    parts = [context.implement(each) for each in node.parts]
    return union(parts, [field.name for field in node.schema])


def union(parts: list[PhysicalNode], names: list[str]) -> PhysicalNode:
    """Give the rows of all parts, which have the same types."""
    first = parts[0]
    fields = []
    for at, name in enumerate(names):
        times = {part.schema[at].time for part in parts}
        time = first.schema[at].time if len(times) == 1 else None
        nullable = any(part.schema[at].type.is_nullable for part in parts)
        kind = first.schema[at].type
        fields.append(Field(name, kind.nullable() if nullable else kind, time))
    all_changes = [part.traits.changes for part in parts]
    changes = ChangelogTraits(
        updates=any(each.updates for each in all_changes),
        deletes=any(each.deletes for each in all_changes),
    )
    traits = PhysicalTraits(changes, bounded=all(part.traits.bounded for part in parts))
    return PhysicalUnion(schema=tuple(fields), traits=traits, inputs=tuple(parts))
