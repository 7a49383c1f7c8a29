"""VALUES: rows that the query has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.collection import CollectionSource
from penstock.graph.operator_specs import SourceSpec
from penstock.graph.operator_specs.columnar.stateless import ExpandSpec, RowsToColumnsSpec
from penstock.graph.state_description import Text
from penstock.graph.transformations import Transformation
from penstock.sql.expr.nodes import Literal, Rex
from penstock.sql.logical.nodes import LogicalValues
from penstock.sql.logical.texts import show
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import PhysicalNode, PhysicalTraits
from penstock.sql.types import IntType

if TYPE_CHECKING:
    from penstock.sql.physical.translate import Translation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalValues(PhysicalNode):
    """Rows that the query has."""

    rows: tuple[tuple[Rex, ...], ...]

    def describe(self) -> list[str]:
        """Return the first rows."""
        rows = [f"{{ {', '.join(show(each, ()) for each in row)} }}" for row in self.rows[:20]]
        more = ", ..." if len(self.rows) > 20 else ""
        return [f"tuples=[[{', '.join(rows)}{more}]]"]

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return 1."""
        return 1

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return columns of a table VALUES."""
        return lineage.table("VALUES", self)

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Send constants with the source; expressions are computed from one row, in a task."""
        constant = all(isinstance(each, Literal) for row in self.rows for each in row)
        types = self.types if constant else (IntType(),)
        rows: list[Any] = (
            [tuple(each.value for each in row) for row in self.rows]  # type: ignore[attr-defined]
            if constant
            else [(0,)]
        )
        source: Any = CollectionSource(rows)
        source.carries_timestamps = False
        begin = job.source(self, SourceSpec(source, WatermarkStrategy.no_watermarks()), "Values")
        names = tuple(f"f{at}" for at in range(len(types)))
        columns = job.operator(self, RowsToColumnsSpec(types, names), [begin], suffix="_columns")
        if constant:
            return columns
        return job.operator(
            self, ExpandSpec(types, self.rows, job.zone), [columns], suffix="_expand"
        )


@implements(LogicalValues)
def implement_values(node: LogicalValues, _: PhysicalPlanContext) -> PhysicalNode:
    """Give the query's own rows."""
    return PhysicalValues(schema=node.schema, traits=PhysicalTraits(bounded=True), rows=node.rows)
