"""WATERMARK FOR, where the scan does not emit the watermarks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.stateless import WatermarkSpec
from penstock.options import table as options
from penstock.sql.logical.nodes import LogicalWatermarkAssigner
from penstock.sql.logical.texts import show
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalWatermarkAssigner(PhysicalOperator):
    """Emits watermarks of a column."""

    passes_changes = True

    spec: WatermarkSpec

    def describe(self) -> list[str]:
        """Return the time attribute and its watermark."""
        watermark = show(self.spec.expression, self.input_names)
        return [f"rowtime=[{self.names[self.spec.rowtime]}]", f"watermark=[{watermark}]"]

    def with_all_versions(self) -> PhysicalNode:
        """Return the node above an input that emits each version."""
        return replace(self, inputs=(self.inputs[0].with_all_versions(),))

    @property
    def has_watermarks(self) -> bool:
        """Whether it emits watermarks: it does."""
        return True


@implements(LogicalWatermarkAssigner)
def implement_watermark(
    node: LogicalWatermarkAssigner, context: PhysicalPlanContext
) -> PhysicalNode:
    """Emit watermarks where the scan below does not."""
    below = context.implement(node.input)
    schema = tuple(
        replace(field, time="rowtime") if at == node.rowtime else field
        for at, field in enumerate(below.schema)
    )
    if node.pushed:
        return replace(below, schema=schema)
    idle = context.settings.millis(options.IDLE_TIMEOUT)
    spec = WatermarkSpec(below.types, node.rowtime, node.expression, idle, context.zone)
    return PhysicalWatermarkAssigner.of(spec, (below,), schema, below.traits)
