"""Top-N: the rows with the first ranks of each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.graph.state_description import Text, text_of
from penstock.sql.logical.nodes import Field, LogicalRank
from penstock.sql.logical.texts import show_columns, show_order, show_ttl
from penstock.sql.physical.advice import single_subtask
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.keys import smallest
from penstock.sql.physical.lineage import Lineage, expires, text_of_order
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    Columns,
    Keys,
    PhysicalNode,
    PhysicalTraits,
    PhysicalUpdatingOperator,
)
from penstock.sql.physical.operators.deduplicate import deduplicate, is_deduplication
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.physical.operators.window_rank import window_rank


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalRank(PhysicalUpdatingOperator):
    """Keeps the rows with some ranks, as a changelog. Without keys it is ORDER BY with LIMIT, or LIMIT alone."""

    spec: RankSpec

    @property
    def name(self) -> str:
        """Its name in plans."""
        if self.spec.keys:
            return "Rank"
        return "SortLimit" if self.spec.order else "Limit"

    def describe(self) -> list[str]:
        """Return the ranks, keys and order."""
        spec, below = self.spec, self.input_names
        end = spec.end if spec.end_column is None else below[spec.end_column]
        return [
            f"strategy=[{spec.strategy}]",
            f"rankType=[{spec.function}]",
            f"rankRange=[rankStart={spec.start}, rankEnd={end}]",
            f"partitionBy=[{show_columns(spec.keys, below)}]",
            f"orderBy=[{show_order(spec.order, below)}]",
            f"select=[{', '.join(self.names)}]",
            *show_ttl(spec.ttl_ms),
        ]

    def advice(self) -> list[str]:
        """Return advice on a rank without keys."""
        return [single_subtask(self)] if self.single and not self.traits.bounded else []

    def needs_update_before(self, wanted: bool) -> bool:
        """Whether it needs -U rows: not where ranks of rows only rise."""
        return self.spec.strategy != "UPDATE"

    @property
    def hashed_by(self) -> set[Columns]:
        """The keys."""
        return {self.spec.keys} if self.spec.keys else set()

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return keys, order, ranks and rows."""
        spec, below = self.spec, self.inputs[0]
        columns = lineage.columns(below)
        end: str | Text = "the end" if spec.end is None else str(spec.end)
        if spec.end_column is not None:
            end = columns[spec.end_column]
        # Without an order and an end, rows need not be kept unless their numbers are asked for.
        counted = spec.end is None and not spec.order and spec.with_rank
        return {
            "keys": lineage.typed(below, spec.keys),
            "order": text_of_order(spec.order, columns),
            "ranks": text_of(
                f"{spec.function} {spec.start} to ", end, ", counted" if counted else ""
            ),
            "strategy": (spec.strategy,),
            "rows": lineage.rows(below),
            "expires": expires(spec.ttl_ms),
        }


@implements(LogicalRank)
def implement_rank(node: LogicalRank, context: PhysicalPlanContext) -> PhysicalNode:
    """Keep the first rows of each partition: within windows, by time, or by anything."""
    below = context.implement(node.input)
    window = below.traits.window
    if window is not None and {window.start, window.end} <= set(node.partition):
        return window_rank(node, below)
    if is_deduplication(node, below):
        return deduplicate(node, below, context)
    return rank(
        below,
        node.partition,
        node.order,
        context,
        start=node.start,
        end=node.end,
        end_column=node.end_column,
        function=node.function,
        number=node.schema[-1] if node.with_rank else None,
    )


def rank(
    below: PhysicalNode,
    keys: Sequence[int],
    order: Sequence[SortKey],
    context: PhysicalPlanContext,
    *,
    start: int = 1,
    end: int | None = None,
    end_column: int | None = None,
    function: str = "ROW_NUMBER",
    number: Field | None = None,
) -> PhysicalNode:
    """Keep the rows with these ranks, as a changelog."""
    sent = exchange(below, keys)
    strategy, unique = _strategy(below)
    spec = RankSpec(
        sent.types,
        tuple(keys),
        tuple(order),
        start,
        end,
        end_column,
        number is not None,
        strategy,
        unique,
        function=function,
        ttl_ms=context.settings.ttl_ms,
    )
    schema = (*below.schema, *((number,) if number is not None else ()))
    fields = tuple(Field(field.name, field.type) for field in schema)
    known = _rank_keys(below, keys, (start, end), number is not None, function)
    # The first rows of an input without order never change.
    grows = not order and not below.traits.changes.retracts
    changes = INSERTS if grows else ChangelogTraits(updates=True, deletes=True)
    return PhysicalRank.of(spec, (sent,), fields, PhysicalTraits(changes, known), single=not keys)


def _strategy(below: PhysicalNode) -> tuple[str, tuple[int, ...] | None]:
    if not below.traits.changes.retracts:
        return "APPEND", None
    known = sorted(below.traits.keys, key=lambda key: (len(key), sorted(key)))
    return "RETRACT", tuple(sorted(known[0])) if known and known[0] else None


def _rank_keys(
    below: PhysicalNode,
    partition: Sequence[int],
    bounds: tuple[int, int | None],
    numbered: bool,
    function: str,
) -> Keys:
    part = frozenset(partition)
    if function == "ROW_NUMBER" and bounds[0] == bounds[1]:
        return frozenset([part])
    if function == "ROW_NUMBER" and numbered:
        # Updates are of places: the row that had the place before is not deleted by its own key.
        return frozenset([part | {len(below.schema)}])
    return smallest(key | part for key in below.traits.keys)
