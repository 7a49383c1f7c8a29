"""The end of a query whose rows are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.sql.physical.nodes import PhysicalNode
from penstock.sql.physical.operators.drop_update_before import without_update_before


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalResult(PhysicalNode):
    """The end of a query whose rows are asked for. `before`: -U rows are asked for, too."""

    before: bool = True

    @property
    def shown(self) -> PhysicalNode:
        """The input."""
        return self.inputs[0]

    def needs_update_before(self, wanted: bool) -> bool:
        """Whether -U rows are asked for."""
        return self.before

    def settle_inputs(self, inputs: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
        """Return the input without -U rows if they are not asked for."""
        if self.before or not inputs[0].emits_update_before:
            return inputs
        return (without_update_before(inputs[0]),)
