"""Exchange: rows go to the subtask of their key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.graph.partitioning import Global, Hash
from penstock.graph.transformations import PartitionTransformation, Transformation
from penstock.runtime.columnar.keys import ColumnsKey
from penstock.sql.logical.nodes import Schema
from penstock.sql.physical.keys import containing
from penstock.sql.physical.nodes import Columns, PhysicalNode

if TYPE_CHECKING:
    from penstock.sql.physical.translate import Translation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalExchange(PhysicalNode):
    """Rows go to the subtask of their key; without columns, all go to one."""

    passes_changes = True

    columns: tuple[int, ...]

    def renamed(self, schema: Schema) -> PhysicalNode:
        """Return the node as it is: rows are sent by the names of the input."""
        return self

    def describe(self) -> list[str]:
        """Return the distribution."""
        keys = ", ".join(self.names[at] for at in self.columns)
        return [f"distribution=[{f'hash[{keys}]' if self.columns else 'single'}]"]

    @property
    def key_columns(self) -> Columns:
        """The columns that rows are sent by."""
        return self.columns

    @property
    def before_exchange(self) -> PhysicalNode:
        """The input."""
        return self.inputs[0]

    @property
    def hashed_by(self) -> set[Columns]:
        """The columns that rows are sent by."""
        return {self.columns} if self.columns else set()

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return that of the job; 1 without columns."""
        return None if self.columns else 1

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Return a partitioning; nothing if rows are where they belong already."""
        below, width = self.inputs[0], job.parallelism(self)
        if width == job.parallelism(below) and below.is_hashed_by(self.columns):
            return inputs[0]
        partitioning = Hash(ColumnsKey(self.columns)) if self.columns else Global()
        return PartitionTransformation(
            "Exchange", [inputs[0]], partitioning=partitioning, parallelism=width
        )


def exchange(node: PhysicalNode, columns: Sequence[int]) -> PhysicalExchange:
    """Send rows to the subtask of their key; without columns, to one. Rows that are already there stay."""
    traits = node.traits
    keys = traits.keys if not traits.changes.retracts else containing(traits.keys, columns)
    return PhysicalExchange(
        schema=node.schema,
        traits=replace(traits, keys=keys),
        inputs=(node,),
        columns=tuple(columns),
    )
