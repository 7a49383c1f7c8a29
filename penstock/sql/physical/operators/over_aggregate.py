"""Aggregates over the rows around a row: OVER."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.aggregates import OverAggregateSpec
from penstock.graph.state_description import Text, joined, text_of
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import AggregateCall, InputRef, Literal, Rex
from penstock.sql.logical.nodes import Field, LogicalOverAggregate
from penstock.sql.logical.texts import show_as, show_call, show_columns, show_millis, show_order
from penstock.sql.logical.transform import refs
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.keys import smallest
from penstock.sql.physical.lineage import Lineage, expires, text_of_call, text_of_order
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    PhysicalNode,
    PhysicalTraits,
    PhysicalUpdatingOperator,
)
from penstock.sql.physical.operators.calc import calc, project
from penstock.sql.physical.operators.exchange import exchange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalOverAggregate(PhysicalUpdatingOperator):
    """Appends aggregates over a window of rows."""

    spec: OverAggregateSpec

    def describe(self) -> list[str]:
        """Return the window and the calls."""
        spec, below = self.spec, self.input_names
        unit = "ROWS" if spec.rows else "RANGE"
        if spec.preceding is None:
            start = "UNBOUNDED"
        else:
            start = str(spec.preceding) if spec.rows else show_millis(spec.preceding)
        parts = [f"partitionBy=[{show_columns(spec.keys, below)}]"] if spec.keys else []
        parts.append(f"orderBy=[{show_order(spec.order, below)}]")
        parts.append(f"window=[{unit} BETWEEN {start} PRECEDING AND CURRENT ROW]")
        calls = [
            show_as(show_call(call, below), name)
            for call, name in zip(spec.aggregates, self.names[len(below) :], strict=False)
        ]
        return [*parts, f"select=[{', '.join([*below, *calls])}]"]

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the columns of the input, and the calls with their window."""
        spec, below = self.spec, lineage.columns(self.inputs[0])
        keys = joined([below[at] for at in spec.keys])
        frame = text_of(" OVER (", keys, " ", text_of_order(spec.order, below), ")")
        calls = [text_of_call(each, below, spec.zone) for each in spec.aggregates]
        return [*below, *(text_of(each, frame) for each in calls)]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the window, the accumulators and the rows, where they are kept."""
        spec, below = self.spec, self.inputs[0]
        columns = lineage.columns(below)
        keeps_rows = spec.rowtime or spec.mode != "TIME"
        running = spec.mode == "TIME" and spec.preceding is None
        calls = [text_of_call(each, columns, spec.zone) for each in spec.aggregates]
        return {
            "keys": lineage.typed(below, spec.keys),
            "order": text_of_order(spec.order, columns),
            "frame": (_frame(spec),),
            "aggregates": joined(calls),
            "computed": (spec.mode,),
            "rows": lineage.rows(below) if keeps_rows else (),
            "expires": () if running else expires(spec.ttl_ms),
        }


def _frame(spec: OverAggregateSpec) -> str:
    """Return the frame of OVER as text."""
    bounds = [
        "UNBOUNDED" if bound is None else str(bound) if spec.rows else show_millis(bound)
        for bound in (spec.preceding, spec.following)
    ]
    unit = "ROWS" if spec.rows else "RANGE"
    return f"{unit} {bounds[0]} PRECEDING TO {bounds[1]} FOLLOWING"


# Functions that look at rows behind the current one.
_LOOK_AHEAD = frozenset({"LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST"})


@implements(LogicalOverAggregate)
def implement_over(node: LogicalOverAggregate, context: PhysicalPlanContext) -> PhysicalNode:
    """Aggregate over the rows around a row: in the order of time, at the end of the input, or again with every change."""
    below = context.implement(node.input)
    window = node.window
    mode = _over_mode(node, below, context)
    wide, calls = _with_operands(below, node.calls, context)
    sent = exchange(wide, window.partition)
    changes = sent.traits.changes
    unique = None
    if changes.retracts and sent.traits.keys:
        known = sorted(sent.traits.keys, key=lambda key: (len(key), sorted(key)))
        unique = tuple(sorted(known[0])) or None
    spec = OverAggregateSpec(
        sent.types,
        window.partition,
        window.order,
        calls,
        rowtime=bool(window.order) and below.schema[window.order[0].index].time == "rowtime",
        rows=window.rows,
        preceding=window.preceding,
        ttl_ms=context.settings.ttl_ms,
        zone=context.zone,
        following=window.following,
        mode=mode,
        unique=unique,
    )
    added = node.schema[len(below.schema) :]
    schema, traits = (*wide.schema, *added), sent.traits
    if mode == "CHANGES":
        part = frozenset(window.partition)
        known_by = smallest([key | part for key in sent.traits.keys])
        traits = PhysicalTraits(ChangelogTraits(updates=True, deletes=changes.retracts), known_by)
    elif mode == "END":
        traits = replace(traits, changes=INSERTS)
    if mode != "TIME":
        schema = tuple(Field(field.name, field.type) for field in schema)
    whole = PhysicalOverAggregate.of(spec, (sent,), schema, traits, single=not window.partition)
    if len(wide.schema) == len(below.schema):
        return whole
    columns = [*range(len(below.schema)), *range(len(wide.schema), len(whole.schema))]
    return project(whole, columns, zone=context.zone)


def _over_mode(
    node: LogicalOverAggregate, below: PhysicalNode, context: PhysicalPlanContext
) -> str:
    """Return how OVER is run (see OverAggregateSpec)."""
    window = node.window
    times = [below.schema[key.index].time for key in window.order]
    ahead = any(call.function in _LOOK_AHEAD and call.user is None for call in node.calls)
    if (
        len(times) == 1
        and times[0] is not None
        and window.order[0].ascending
        and window.following == 0
        and not ahead
        and not below.traits.changes.retracts
    ):
        return "TIME"
    if context.settings.batch:
        return "END"
    if "proctime" in times:
        raise ValidationError(
            "processing-time OVER windows need an append-only input, ascending order and a frame that ends at the current row",
            hint="remove DESC and other columns; for the latest rows filter on ROW_NUMBER()",
        )
    if not window.rows and {window.preceding, window.following} - {None, 0} and len(times) != 1:
        raise ValidationError("a RANGE frame with an interval needs exactly one ORDER BY column")
    return "CHANGES"


def _with_operands(
    below: PhysicalNode, calls: Sequence[AggregateCall], context: PhysicalPlanContext
) -> tuple[PhysicalNode, tuple[AggregateCall, ...]]:
    """Append the operands of calls as columns, so that calls only read columns."""
    added: list[Rex] = []

    def place(rex: Rex) -> Rex:
        if isinstance(rex, InputRef | Literal):
            return rex
        if rex not in added:
            added.append(rex)
        return InputRef(rex.type, len(below.schema) + added.index(rex))

    placed = tuple(
        replace(
            call,
            operands=tuple(map(place, call.operands)),
            filter=None if call.filter is None else place(call.filter),
        )
        for call in calls
    )
    if not added:
        return below, placed
    fields = tuple(Field(f"$o{at}", each.type) for at, each in enumerate(added))
    columns = [*refs(below.schema), *added]
    return calc(below, (*below.schema, *fields), columns, zone=context.zone), placed
