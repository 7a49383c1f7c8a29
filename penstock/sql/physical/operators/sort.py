"""ORDER BY, with and without LIMIT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.graph.operator_specs.columnar.ranks import SortSpec
from penstock.graph.state_description import Text
from penstock.sql.errors import ValidationError
from penstock.sql.logical.nodes import LogicalSort
from penstock.sql.logical.texts import show_order
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.lineage import Lineage, text_of_order
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator
from penstock.sql.physical.operators.calc import calc
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.physical.operators.final_table import final_table
from penstock.sql.physical.operators.rank import rank


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalSort(PhysicalOperator):
    """Sorts rows, by time as they become complete or at the end of the input."""

    spec: SortSpec

    def describe(self) -> list[str]:
        """Return the order."""
        return [f"orderBy=[{show_order(self.spec.order, self.input_names)}]"]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the order and the rows that wait."""
        spec, below = self.spec, self.inputs[0]
        columns = lineage.columns(below)
        return {
            "order": text_of_order(spec.order, columns),
            "time": () if spec.rowtime is None else columns[spec.rowtime],
            "rows": lineage.rows(below),
        }


@implements(LogicalSort)
def implement_sort(node: LogicalSort, context: PhysicalPlanContext) -> PhysicalNode:
    """Run ORDER BY: with LIMIT as a Top-N of all rows, by time as they become complete."""
    below = context.implement(node.input)
    limited = node.limit is not None or node.offset
    if limited:
        end = None if node.limit is None else node.offset + node.limit
        first = rank(below, (), node.order, context, start=node.offset + 1, end=end)
        first = calc(first, node.schema, zone=context.zone)
        return _sorted(first, node.order, None) if context.settings.batch and node.order else first
    if not node.order:
        return below
    if context.settings.batch:
        return _sorted(below, node.order, None)
    by = node.order[0]
    time = below.schema[by.index].time
    if time is None or not by.ascending:
        raise ValidationError(
            "ORDER BY needs a time attribute in ascending order first, or LIMIT",
            detail="Sort on a non-time-attribute field is not supported: an unbounded table is never complete",
            hint="add LIMIT, order by the column with the watermark first, or run in batch mode",
        )
    if time == "proctime":
        if len(node.order) > 1:
            raise ValidationError(
                "ORDER BY with processing time and other columns is not supported"
            )
        return exchange(below, ())
    if below.traits.changes.retracts:
        raise ValidationError(
            "ORDER BY a time attribute needs an append-only input",
            detail=f"its input has changes {below.traits.changes}; TemporalSort doesn't support consuming update and delete changes",
        )
    return _sorted(below, node.order, by.index)


def _sorted(below: PhysicalNode, order: Sequence[SortKey], rowtime: int | None) -> PhysicalNode:
    if rowtime is None:
        below = final_table(below)
    sent = exchange(below, ())
    spec = SortSpec(sent.types, tuple(order), rowtime)
    return PhysicalSort.of(spec, (sent,), below.schema, sent.traits, single=True)
