"""Scans of DataStreams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.graph.state_description import Text
from penstock.graph.transformations import Transformation
from penstock.sql.logical.nodes import LogicalStreamScan
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import EVERYTHING, INSERTS, PhysicalNode, PhysicalTraits
from penstock.sql.physical.operators.changelog_normalize import normalized
from penstock.sql.physical.operators.rows_to_columns import PhysicalRowsToColumns

if TYPE_CHECKING:
    from penstock.sql.physical.translate import Translation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalStreamScan(PhysicalNode):
    """Reads a DataStream."""

    transformation: Any

    @property
    def name(self) -> str:
        """Its name in plans."""
        return "DataStreamScan"

    def describe(self) -> list[str]:
        """Return the columns."""
        return [f"fields=[{', '.join(self.names)}]"]

    def parallelism(self, of_inputs: Sequence[int | None]) -> int | None:
        """Return that of the stream."""
        return self.transformation.parallelism  # type: ignore[no-any-return]

    @property
    def has_watermarks(self) -> bool:
        """Whether one of its columns is a rowtime attribute."""
        return any(field.time == "rowtime" for field in self.schema)

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return columns of a table DataStream."""
        return lineage.table("DataStream", self)

    def translate(self, job: Translation, inputs: Sequence[Transformation]) -> Transformation:
        """Return the stream."""
        stream: Transformation = self.transformation
        return stream


@implements(LogicalStreamScan)
def implement_stream_scan(node: LogicalStreamScan, context: PhysicalPlanContext) -> PhysicalNode:
    """Read a DataStream."""
    changes = EVERYTHING if node.changes else INSERTS
    keys = frozenset([frozenset(node.primary_key)] if node.primary_key else [])
    if node.changes and node.primary_key:
        changes = replace(changes, before=not node.upserts)
    traits = PhysicalTraits(changes, keys, bounded=node.bounded)
    stream: PhysicalNode = PhysicalStreamScan(
        schema=node.schema, traits=traits, transformation=node.transformation
    )
    if not node.columnar:
        names = tuple(field.name for field in node.schema)
        spec = RowsToColumnsSpec(stream.types, names, node.changes, node.timestamp, node.single)
        stream = PhysicalRowsToColumns.of(spec, (stream,), node.schema, traits)
    return normalized(stream, "of a changelog stream", context)
