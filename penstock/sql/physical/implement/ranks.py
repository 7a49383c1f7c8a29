"""Top-N, deduplication and ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.graph.operator_specs.columnar.ranks import (
    DeduplicateSpec,
    RankSpec,
    SortSpec,
    WindowRankSpec,
)
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import Literal
from penstock.sql.logical.nodes import Field, LogicalSort
from penstock.sql.physical.implement.context import PhysicalPlanContext
from penstock.sql.physical.keys import smallest
from penstock.sql.physical.make import (
    calc,
    exchange,
    final_table,
    operator,
)
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    Keys,
    PhysicalNode,
    PhysicalTraits,
)
from penstock.sql.rules.expressions import refs
from penstock.sql.rules.nodes import LogicalRank
from penstock.sql.types import BigIntType

_NUMBER = BigIntType(False)


def implement_rank(node: LogicalRank, context: PhysicalPlanContext) -> PhysicalNode:
    """Keep the first rows of each partition: within windows, by time, or by anything."""
    below = context.implement(node.input)
    window = below.traits.window
    if window is not None and {window.start, window.end} <= set(node.partition):
        return _window_rank(node, below)
    if _is_deduplication(node, below):
        return _deduplicate(node, below, context)
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


def _is_deduplication(node: LogicalRank, below: PhysicalNode) -> bool:
    return (
        node.function == "ROW_NUMBER"
        and (node.start, node.end) == (1, 1)
        and len(node.order) == 1
        and below.schema[node.order[0].index].time is not None
        and not below.traits.changes.retracts
    )


def _deduplicate(
    node: LogicalRank, below: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    by = node.order[0]
    rowtime = below.schema[by.index].time == "rowtime"
    last = not by.ascending
    sent = exchange(below, node.partition)
    spec = DeduplicateSpec(
        sent.types,
        node.partition,
        by.index if rowtime else None,
        last,
        ttl_ms=context.settings.ttl_ms,
    )
    changes = ChangelogTraits(updates=True) if last or rowtime else INSERTS
    traits = replace(sent.traits, changes=changes, keys=frozenset([frozenset(node.partition)]))
    kept = operator(spec, (sent,), below.schema, traits, single=not node.partition)
    return _with_first(node, kept, context)


def _with_first(
    node: LogicalRank, kept: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    """Append the rank, which is 1 for all rows."""
    if not node.with_rank:
        return kept
    schema = (*kept.schema, node.schema[-1])
    return calc(kept, schema, [*refs(kept.schema), Literal(_NUMBER, 1)], zone=context.zone)


def _window_rank(node: LogicalRank, below: PhysicalNode) -> PhysicalNode:
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
    return operator(spec, (sent,), schema, traits, single=not keys)


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
    return operator(spec, (sent,), fields, PhysicalTraits(changes, known), single=not keys)


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
    return operator(spec, (sent,), below.schema, sent.traits, single=True)
