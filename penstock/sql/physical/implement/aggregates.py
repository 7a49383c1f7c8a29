"""Aggregation: by key, in windows, over the rows before a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.graph.operator_specs.columnar.aggregates import (
    GroupAggregateSpec,
    OverAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import (
    AggregateCall,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.logical.nodes import Field, LogicalAggregate, LogicalOverAggregate
from penstock.sql.physical.implement.context import PhysicalPlanContext
from penstock.sql.physical.implement.local import local_aggregate
from penstock.sql.physical.implement.slices import unwindowed
from penstock.sql.physical.keys import smallest
from penstock.sql.physical.make import (
    calc,
    exchange,
    operator,
    project,
    ref,
)
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    PhysicalNode,
    PhysicalTraits,
    WindowAttributes,
)
from penstock.sql.rules.expressions import refs
from penstock.sql.rules.prune_columns import calls_read, placed_call


class AggregateInput:
    """An input of an aggregate that has the columns it needs and no others: keys first, then operands."""

    def __init__(self, below: PhysicalNode, keys: Sequence[int], extra: Sequence[int] = ()) -> None:
        self._below = below
        self._fields: list[Field] = []
        self._columns: list[Rex] = []
        self.keys = tuple(self.column(ref(below, key)) for key in keys)
        self.extra = tuple(self.column(ref(below, each)) for each in extra)

    def column(self, expression: Rex) -> int:
        """Return where an expression stands."""
        for at, known in enumerate(self._columns):
            if known == expression:
                return at
        if isinstance(expression, InputRef):
            field = self._below.schema[expression.index]
        else:
            field = Field(f"$f{len(self._columns)}", expression.type)
        self._fields.append(field)
        self._columns.append(expression)
        return len(self._columns) - 1

    def call(self, call: AggregateCall) -> AggregateCall:
        """Return a call whose expressions are columns of the prepared input, and literals."""

        def place(rex: Rex) -> Rex:
            return rex if isinstance(rex, Literal) else InputRef(rex.type, self.column(rex))

        return replace(
            call,
            operands=tuple(map(place, call.operands)),
            filter=None if call.filter is None else place(call.filter),
            order=tuple((place(each), ascends) for each, ascends in call.order),
        )

    def node(self, context: PhysicalPlanContext) -> PhysicalNode:
        """Return the input; at least one column, for rows without any could not be counted."""
        if not self._columns:
            self.column(ref(self._below, 0))
        return calc(self._below, tuple(self._fields), self._columns, zone=context.zone)


def implement_aggregate(node: LogicalAggregate, context: PhysicalPlanContext) -> PhysicalNode:
    """Group rows: by a window if there is one among the keys, else for good."""
    below = context.implement(node.input)
    if node.window is not None:
        return _group_window(node, below, node.window, context)
    window = below.traits.window
    if window is not None and window.start in node.keys and window.end in node.keys:
        return _by_window(node, below, window, context)
    return _group(node, below, context)


def _group(
    node: LogicalAggregate, below: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    prepared = AggregateInput(below, node.keys)
    calls = tuple(prepared.call(each) for each in node.aggregates)
    source = prepared.node(context)
    keys = tuple(range(len(node.keys)))
    retracts = below.traits.changes.retracts
    ttl = context.settings.ttl_ms if node.ttl_ms is None else node.ttl_ms
    first = local_aggregate(source, prepared.keys, calls, context)
    sent = exchange(source if first is None else first, prepared.keys if first is None else keys)
    spec = GroupAggregateSpec(
        sent.types,
        sent.columns,
        calls,
        retracts,
        merges=first is not None,
        ttl_ms=ttl,
        zone=context.zone,
    )
    schema = _materialized(node)
    # In BATCH mode results come at the end.
    batch = context.settings.batch
    changes = INSERTS if batch else ChangelogTraits(updates=bool(calls), deletes=retracts)
    traits = PhysicalTraits(changes, frozenset([frozenset(keys)]))
    return operator(spec, (sent,), schema, traits, single=not keys)


def _materialized(node: LogicalAggregate) -> tuple[Field, ...]:
    """Times that are grouped by without a window are times no more."""
    return tuple(Field(field.name, field.type) for field in node.schema)


def _group_window(
    node: LogicalAggregate,
    below: PhysicalNode,
    window: WindowDefinition,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    """Run TUMBLE(ts, ...), HOP and SESSION in GROUP BY."""
    extra = () if window.time is None else (window.time,)
    prepared = AggregateInput(below, node.keys, extra)
    calls = tuple(prepared.call(each) for each in node.aggregates)
    sent = exchange(prepared.node(context), prepared.keys)
    moved = replace(window, time=prepared.extra[0] if extra else None, partition=prepared.keys)
    spec = WindowAggregateSpec(
        sent.types,
        prepared.keys,
        calls,
        moved,
        None,
        node.properties,
        retracts=below.traits.changes.retracts,
        zone=context.zone,
    )
    return operator(spec, (sent,), node.schema, _window_traits(node, moved), single=not node.keys)


def _window_traits(node: LogicalAggregate, window: WindowDefinition) -> PhysicalTraits:
    first = len(node.keys) + len(node.aggregates)
    places = {name: first + at for at, name in enumerate(node.properties)}
    keys = frozenset(range(len(node.keys)))
    bounds = [places[each] for each in ("start", "end", "rowtime") if each in places]
    known = frozenset(keys | {bound} for bound in bounds)
    columns = None
    if "start" in places and "end" in places:
        differ = window.kind != "SESSION" or not node.keys
        columns = WindowAttributes(
            places["start"], places["end"], window.zone, "rowtime" in places, differ, differ
        )
    return PhysicalTraits(keys=known, window=columns)


def _by_window(
    node: LogicalAggregate,
    below: PhysicalNode,
    window: WindowAttributes,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    """Run GROUP BY window_start, window_end: rows have their windows already."""
    times = [at for at in node.keys if below.schema[at].window == "time"]
    keys = [at for at in node.keys if at not in {window.start, window.end, *times}]
    sliced = _sliced(node, below, window, keys, times, context)
    if sliced is not None:
        return sliced
    prepared = AggregateInput(below, keys, (window.start, window.end))
    calls = tuple(prepared.call(each) for each in node.aggregates)
    sent = exchange(prepared.node(context), prepared.keys)
    spec = WindowAggregateSpec(
        sent.types,
        prepared.keys,
        calls,
        None,
        (prepared.extra[0], prepared.extra[1]),
        _properties(window, times),
        retracts=below.traits.changes.retracts,
        zone=window.zone or "UTC",
    )
    return _ordered(node, below, sent, spec, keys, window, context)


def _sliced(
    node: LogicalAggregate,
    below: PhysicalNode,
    window: WindowAttributes,
    keys: Sequence[int],
    times: Sequence[int],
    context: PhysicalPlanContext,
) -> PhysicalNode | None:
    """Let the aggregate assign windows itself, if no node between it and the window function uses them."""
    found = unwindowed(below, context.zone)
    if found is None or any(key not in found.places for key in keys):
        return None
    read = {at for call in node.aggregates for at in calls_read((call,))}
    if not read <= set(found.places):
        return None
    moved_keys = [found.places[key] for key in keys]
    session = found.window.kind == "SESSION"
    if session and set(found.window.partition) != set(moved_keys):
        return None
    time = found.window.time
    prepared = AggregateInput(found.node, moved_keys, () if time is None else (time,))
    calls = tuple(prepared.call(placed_call(call, found.places)) for call in node.aggregates)
    definition = replace(
        found.window,
        time=None if time is None else prepared.extra[0],
        partition=prepared.keys if session else (),
    )
    source = prepared.node(context)
    first = None
    if definition.time is not None and not session:
        first = local_aggregate(source, prepared.keys, calls, context, definition)
    by = prepared.keys if first is None else tuple(range(len(keys)))
    sent = exchange(source if first is None else first, by)
    spec = WindowAggregateSpec(
        sent.types,
        by,
        calls,
        definition,
        None,
        _properties(window, times),
        retracts=below.traits.changes.retracts,
        merges=first is not None,
        zone=context.zone,
    )
    return _ordered(node, below, sent, spec, keys, window, context)


def _properties(window: WindowAttributes, times: Sequence[int]) -> tuple[str, ...]:
    last = ("rowtime" if window.rowtime else "proctime",) if times else ()
    return ("start", "end", *last)


def _ordered(
    node: LogicalAggregate,
    below: PhysicalNode,
    sent: PhysicalNode,
    spec: WindowAggregateSpec,
    keys: Sequence[int],
    window: WindowAttributes,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    """Put the columns of a window aggregate into the order of the keys in the query."""
    count, calls = len(keys), len(node.aggregates)
    start = count + calls
    fields = [below.schema[at] for at in keys]
    fields += [Field(f"$a{at}", call.type) for at, call in enumerate(node.aggregates)]
    fields += [below.schema[window.start], below.schema[window.end]]
    key = frozenset(range(count))
    if len(spec.properties) > 2:
        time = next(at for at in node.keys if below.schema[at].window == "time")
        fields.append(below.schema[time])
    columns = replace(window, start=start, end=start + 1)
    found = columns
    if spec.window is not None and spec.window.kind == "SESSION":
        # Sessions are grouped by the key that they were built with.
        found = replace(columns, starts_differ=True, ends_differ=True)
    traits = PhysicalTraits(keys=smallest(found.keys(key)), window=columns)
    whole = operator(spec, (sent,), tuple(fields), traits, single=not keys)
    places = {window.start: start, window.end: start + 1}
    places |= {at: index for index, at in enumerate(keys)}
    order = [places.get(at, start + 2) for at in node.keys]
    order += range(count, start)
    named = project(whole, order, zone=context.zone)
    return calc(named, node.schema, zone=context.zone)


# Functions that look at rows behind the current one.
_LOOK_AHEAD = frozenset({"LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST"})


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
    whole = operator(spec, (sent,), schema, traits, single=not window.partition)
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
