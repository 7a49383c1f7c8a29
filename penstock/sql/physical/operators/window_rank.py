"""Top-N within windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.ranks import WindowRankSpec
from penstock.graph.state_description import Text, joined, text_of
from penstock.sql.errors import ValidationError
from penstock.sql.logical.nodes import LogicalRank
from penstock.sql.logical.texts import show_columns, show_order
from penstock.sql.physical.keys import smallest
from penstock.sql.physical.lineage import Lineage, text_of_order
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator
from penstock.sql.physical.operators.exchange import exchange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalWindowRank(PhysicalOperator):
    """Keeps the rows with some ranks of each window, and emits them when it ends."""

    spec: WindowRankSpec

    def describe(self) -> list[str]:
        """Return the window, ranks, keys and order."""
        spec, below = self.spec, self.input_names
        return [
            f"window=[{show_columns(spec.window, below)}]",
            f"rankRange=[rankStart={spec.start}, rankEnd={spec.end}]",
            f"partitionBy=[{show_columns(spec.keys, below)}]",
            f"orderBy=[{show_order(spec.order, below)}]",
            f"select=[{', '.join(self.names)}]",
        ]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return keys, window, order, ranks and rows."""
        spec, below = self.spec, self.inputs[0]
        columns = lineage.columns(below)
        windows = joined([columns[at] for at in spec.window])
        return {
            "keys": lineage.typed(below, spec.keys),
            "window": text_of(windows, f" in {spec.zone}" if spec.zone else ""),
            "order": text_of_order(spec.order, columns),
            "ranks": (f"{spec.start} to {spec.end}",),
            "rows": lineage.rows(below),
        }


def window_rank(node: LogicalRank, below: PhysicalNode) -> PhysicalNode:
    """Keep the first rows of each window."""
    window = below.traits.window
    assert window is not None
    if below.traits.changes.retracts:
        raise ValidationError(
            "window Top-N needs an append-only input",
            detail=f"its input has changes {below.traits.changes}; WindowRank doesn't support consuming update and delete changes",
        )
    if node.function != "ROW_NUMBER":
        raise ValidationError(
            f"window Top-N with {node.function}() is not supported",
            detail="RANK() and DENSE_RANK() on window Top-N are not supported",
            hint="use ROW_NUMBER()",
        )
    if node.end is None:
        raise ValidationError("window Top-N needs a constant number of rows")
    keys = tuple(at for at in node.partition if at not in {window.start, window.end})
    sent = exchange(below, keys)
    spec = WindowRankSpec(
        sent.types,
        keys,
        (window.start, window.end),
        node.order,
        node.start,
        node.end,
        node.with_rank,
        window.zone,
    )
    known = frozenset(keys)
    found = window.keys(known) if node.start == node.end else []
    schema = (*below.schema, *((node.schema[-1],) if node.with_rank else ()))
    traits = replace(sent.traits, keys=smallest([*sent.traits.keys, *found]))
    return PhysicalWindowRank.of(spec, (sent,), schema, traits, single=not keys)
