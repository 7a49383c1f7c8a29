"""UNNEST and LATERAL TABLE."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.stateless import CorrelateSpec
from penstock.graph.state_description import Text, joined, text_of
from penstock.sql.logical.nodes import LogicalCorrelate
from penstock.sql.logical.texts import show
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage, text_of_rex
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator
from penstock.sql.udf.runners import name_of_user_code


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalCorrelate(PhysicalOperator):
    """Gives each row with the rows that a function makes of it."""

    spec: CorrelateSpec

    def describe(self) -> list[str]:
        """Return the call."""
        spec, below = self.spec, self.input_names
        called = f"{spec.function}({', '.join(show(each, below) for each in spec.operands)})"
        return [
            f"invocation=[{called}]",
            f"select=[{', '.join(self.names)}]",
            f"joinType=[{'LEFT' if spec.outer else 'INNER'}]",
        ]

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the columns of the input, and the call."""
        spec, below = self.spec, lineage.columns(self.inputs[0])
        operands = joined([text_of_rex(each, below, spec.zone) for each in spec.operands])
        name = spec.function
        if spec.user is not None:
            name += f":{name_of_user_code(spec.user.function)}"
        count = len(self.schema) - len(below)
        return [*below, *(text_of(f"{name}(", operands, f")[{at}]") for at in range(count))]


@implements(LogicalCorrelate)
def implement_correlate(node: LogicalCorrelate, context: PhysicalPlanContext) -> PhysicalNode:
    """Give each row with the rows that a function makes of it."""
    below = context.implement(node.input)
    added = node.schema[len(below.schema) :]
    spec = CorrelateSpec(
        below.types,
        node.function,
        node.operands,
        tuple(field.type for field in added),
        node.user,
        node.outer,
        node.condition,
        context.zone,
    )
    traits = replace(below.traits, keys=frozenset())
    return PhysicalCorrelate.of(spec, (below,), (*below.schema, *added), traits)
