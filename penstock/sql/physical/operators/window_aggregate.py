"""GROUP BY a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.aggregates import WindowAggregateSpec
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.graph.state_description import Text, joined, text_of
from penstock.sql.logical.nodes import Field, LogicalAggregate
from penstock.sql.logical.texts import show_window
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.keys import smallest
from penstock.sql.physical.lineage import Lineage, text_of_window
from penstock.sql.physical.nodes import PhysicalNode, PhysicalTraits, WindowAttributes
from penstock.sql.physical.operators.aggregate_input import AggregateInput, PhysicalAggregate
from penstock.sql.physical.operators.calc import calc, project
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.physical.operators.local_aggregate import local_aggregate
from penstock.sql.rules.prune_columns import calls_read, placed_call


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalWindowAggregate(PhysicalAggregate):
    """Groups rows by key and window; results are emitted when their window ends."""

    spec: WindowAggregateSpec

    @property
    def name(self) -> str:
        """Its name in plans."""
        return "GlobalWindowAggregate" if self.spec.merges else "WindowAggregate"

    def describe(self) -> list[str]:
        """Return keys, window and calls."""
        spec, below, parts = self.spec, self.input_names, self.describe_keys()
        if spec.window is not None:
            parts.append(f"window=[{show_window(spec.window, below)}]")
        if spec.assigned is not None:
            start, end = spec.assigned
            parts.append(f"window=[win_start=[{below[start]}], win_end=[{below[end]}]]")
        return [*parts, self.describe_calls(len(spec.keys), merges=spec.merges)]

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the keys, the calls and the properties of the window."""
        window = self._window(lineage)
        properties = (text_of(f"{each} of ", window) for each in self.spec.properties)
        return [*self.calls_lineage(lineage), *properties]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the keys, the window and the accumulators."""
        rows, keys = self.accumulated()
        return {
            "keys": lineage.typed(rows, keys),
            "window": self._window(lineage),
            "aggregates": joined(self.calls_lineage(lineage)[len(keys) :]),
            "input": ("with updates",) if self.spec.retracts else ("inserts only",),
        }

    def _window(self, lineage: Lineage) -> Text:
        """Return the windows as text: its own, or those that rows have got before."""
        spec = self.spec
        below = lineage.columns(self.accumulated()[0])
        if spec.assigned is not None:
            return text_of(joined([below[at] for at in spec.assigned]), f" in {spec.zone}")
        assert spec.window is not None
        return text_of_window(spec.window, below)


def group_window(
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
    traits = _window_traits(node, moved)
    return PhysicalWindowAggregate.of(spec, (sent,), node.schema, traits, single=not node.keys)


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


def by_window(
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
    found = below.before_windows(context.zone)
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
    whole = PhysicalWindowAggregate.of(spec, (sent,), tuple(fields), traits, single=not keys)
    places = {window.start: start, window.end: start + 1}
    places |= {at: index for index, at in enumerate(keys)}
    order = [places.get(at, start + 2) for at in node.keys]
    order += range(count, start)
    named = project(whole, order, zone=context.zone)
    return calc(named, node.schema, zone=context.zone)
