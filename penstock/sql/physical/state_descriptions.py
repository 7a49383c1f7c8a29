"""Descriptions of the state of a query's operators, which a restore compares.

A description has what decides the meaning or the layout of the state. It leaves out what may change between two runs: names of columns,
filters, the kinds of changes that are sent on, how long state is kept (but not whether it expires), and whether an aggregation has one
phase or two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.graph.operator_specs.columnar.aggregates import (
    GroupAggregateSpec,
    OverAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.changes import (
    ChangelogNormalizeSpec,
    FinalTableSpec,
    MatchRecognizeSpec,
    UpsertMaterializeSpec,
)
from penstock.graph.operator_specs.columnar.joins import (
    ColumnarIntervalJoinSpec,
    JoinSpec,
    LookupJoinSpec,
    TemporalJoinSpec,
    WindowJoinSpec,
)
from penstock.graph.operator_specs.columnar.ranks import (
    DeduplicateSpec,
    RankSpec,
    SortSpec,
    WindowRankSpec,
)
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.graph.state_description import (
    ColumnOrigin,
    StateDescription,
    Text,
    joined,
    text_of,
)
from penstock.sql.logical.nodes import RowPattern
from penstock.sql.physical.lineage import (
    Lineage,
    aggregate_input,
    storage_type,
    text_of_call,
    text_of_frame,
    text_of_order,
    text_of_rex,
    text_of_window,
    window_of,
)
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator, PhysicalTableScan
from penstock.sql.physical.texts import show_millis

Parts = Mapping[str, Text]


def has_state(spec: Any) -> bool:
    """Whether operators of this kind keep something that checkpoints hold."""
    return bool(spec.state_tables or spec.operator_states)


def describe_state(node: PhysicalOperator, lineage: Lineage) -> StateDescription | None:
    """Return the description of an operator's state; None if it has none."""
    spec = node.spec
    if not has_state(spec):
        return None
    kind = type(spec).__name__.removeprefix("Columnar").removesuffix("Spec")
    made = DESCRIPTIONS[type(spec)](node, spec, lineage)
    parts = {name: text for name, text in made.items() if text}
    read = {
        each.table for text in parts.values() for each in text if isinstance(each, ColumnOrigin)
    }
    # Of other tables it is enough to know that they are there.
    tables = {name: of if name in read else () for name, of in lineage.tables.items()}
    return StateDescription(kind, parts, tables)


def describe_source(
    node: PhysicalTableScan, scans: Sequence[PhysicalTableScan]
) -> StateDescription:
    """Return which table the positions of a source belong to; `scans` are all sources of the query."""
    tables = {_path(each): () for each in scans}
    return StateDescription("Source", {"table": (ColumnOrigin(_path(node)),)}, tables)


def _path(node: PhysicalTableScan) -> str:
    path = node.table.path
    return f"{path.catalog}.{path.database}.{path.name}"


def _typed(node: PhysicalNode, columns: Sequence[int], lineage: Lineage) -> Text:
    texts = lineage.columns(node)
    return joined([text_of(texts[at], f" {storage_type(node.schema[at].type)}") for at in columns])


def _rows(node: PhysicalNode, lineage: Lineage) -> Text:
    """Return rows that are kept as a whole."""
    return _typed(node, range(len(node.schema)), lineage)


def _expires(ttl_ms: int) -> Text:
    return ("yes",) if ttl_ms else ()


def _group(node: PhysicalOperator, spec: GroupAggregateSpec, lineage: Lineage) -> Parts:
    source, keys = aggregate_input(node)
    below = lineage.columns(source)
    return {
        "keys": _typed(source, keys, lineage),
        "aggregates": joined([text_of_call(each, below, spec.zone) for each in spec.aggregates]),
        "input": ("with updates",) if spec.retracts else ("inserts only",),
        "expires": _expires(spec.ttl_ms),
    }


def _window(node: PhysicalOperator, spec: WindowAggregateSpec, lineage: Lineage) -> Parts:
    source, keys = aggregate_input(node)
    below = lineage.columns(source)
    return {
        "keys": _typed(source, keys, lineage),
        "window": window_of(spec, below),
        "aggregates": joined([text_of_call(each, below, spec.zone) for each in spec.aggregates]),
        "input": ("with updates",) if spec.retracts else ("inserts only",),
    }


def _over(node: PhysicalOperator, spec: OverAggregateSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    columns = lineage.columns(below)
    keeps_rows = spec.rowtime or spec.mode != "TIME"
    running = spec.mode == "TIME" and spec.preceding is None
    return {
        "keys": _typed(below, spec.keys, lineage),
        "order": text_of_order(spec.order, columns),
        "frame": (text_of_frame(spec),),
        "aggregates": joined([text_of_call(each, columns, spec.zone) for each in spec.aggregates]),
        "computed": (spec.mode,),
        "rows": _rows(below, lineage) if keeps_rows else (),
        "expires": () if running else _expires(spec.ttl_ms),
    }


def _rank(node: PhysicalOperator, spec: RankSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    columns = lineage.columns(below)
    end: str | Text = "the end" if spec.end is None else str(spec.end)
    if spec.end_column is not None:
        end = columns[spec.end_column]
    # Without an order and an end, rows need not be kept unless their numbers are asked for.
    counted = spec.end is None and not spec.order and spec.with_rank
    return {
        "keys": _typed(below, spec.keys, lineage),
        "order": text_of_order(spec.order, columns),
        "ranks": text_of(f"{spec.function} {spec.start} to ", end, ", counted" if counted else ""),
        "strategy": (spec.strategy,),
        "rows": _rows(below, lineage),
        "expires": _expires(spec.ttl_ms),
    }


def _deduplicate(node: PhysicalOperator, spec: DeduplicateSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    by = ("arrival",) if spec.time is None else lineage.columns(below)[spec.time]
    return {
        "keys": _typed(below, spec.keys, lineage),
        "kept": text_of("last" if spec.last else "first", " by ", by),
        "rows": _rows(below, lineage),
        "expires": _expires(spec.ttl_ms),
    }


def _window_rank(node: PhysicalOperator, spec: WindowRankSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    columns = lineage.columns(below)
    return {
        "keys": _typed(below, spec.keys, lineage),
        "window": text_of(
            joined([columns[at] for at in spec.window]), f" in {spec.zone}" if spec.zone else ""
        ),
        "order": text_of_order(spec.order, columns),
        "ranks": (f"{spec.start} to {spec.end}",),
        "rows": _rows(below, lineage),
    }


def _sort(node: PhysicalOperator, spec: SortSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    columns = lineage.columns(below)
    return {
        "order": text_of_order(spec.order, columns),
        "time": () if spec.rowtime is None else columns[spec.rowtime],
        "rows": _rows(below, lineage),
    }


def _session(node: PhysicalOperator, spec: SessionTableFunctionSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    return {
        "window": text_of_window(spec.window, lineage.columns(below)),
        "rows": _rows(below, lineage),
    }


def _normalize(node: PhysicalOperator, spec: ChangelogNormalizeSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    return {
        "keys": _typed(below, spec.keys, lineage),
        "rows": _rows(below, lineage),
        "expires": _expires(spec.ttl_ms),
    }


def _materialize(node: PhysicalOperator, spec: UpsertMaterializeSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    columns = lineage.columns(below)
    return {
        "keys": _typed(below, spec.keys, lineage),
        "upsert key": joined([columns[at] for at in spec.upsert or ()]),
        "rows": _rows(below, lineage),
    }


def _final(node: PhysicalOperator, spec: FinalTableSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    return {"keys": _typed(below, spec.keys, lineage), "rows": _rows(below, lineage)}


def _match(node: PhysicalOperator, spec: MatchRecognizeSpec, lineage: Lineage) -> Parts:
    below = node.inputs[0]
    columns = lineage.columns(below)
    after, variable = spec.after_match
    return {
        "keys": _typed(below, spec.keys, lineage),
        "order": text_of_order(spec.order, columns),
        "pattern": (_pattern(spec.pattern),),
        "subsets": tuple(
            [", ".join(f"{name} = ({', '.join(of)})" for name, of in spec.subsets)]
            if spec.subsets
            else []
        ),
        "define": joined(
            [
                text_of(f"{name} AS ", text_of_rex(rex, columns, spec.zone))
                for name, rex in spec.definitions
            ]
        ),
        # Rows of partial matches have the columns that the measures read.
        "measures": joined([text_of_rex(rex, columns, spec.zone) for _, rex in spec.measures]),
        "after match": (f"SKIP {after}" + (f" {variable}" if variable else ""),),
        "within": () if spec.within_ms is None else (show_millis(spec.within_ms),),
        "rows": _rows(below, lineage),
    }


def _pattern(node: RowPattern) -> str:
    """Return a row pattern as text.

    >>> least = RowPattern("VARIABLE", "B", least=1, most=None, greedy=False)
    >>> _pattern(RowPattern("CONCAT", parts=(RowPattern("VARIABLE", "A"), least)))
    '(A B{1,}?)'
    """
    inner = node.variable or f"({f' {_SEPARATORS[node.kind]}'.join(map(_pattern, node.parts))})"
    if node.excluded:
        inner = f"{{- {inner} -}}"
    if (node.least, node.most) == (1, 1):
        return inner
    most = "" if node.most is None else node.most
    return f"{inner}{{{node.least},{most}}}" + ("" if node.greedy else "?")


_SEPARATORS = {"CONCAT": "", "ALTER": "| ", "PERMUTE": ", "}


def _sides(node: PhysicalOperator, spec: Any, lineage: Lineage) -> dict[str, Text]:
    """Return the description common to all joins: kind, keys, rows of both sides."""
    left, right = node.inputs
    ours, theirs = lineage.columns(left), lineage.columns(right)
    safe = getattr(spec, "null_safe", ()) or (False,) * len(spec.left_keys)
    pairs = [
        text_of(
            ours[a],
            " IS NOT DISTINCT FROM " if null_safe else " = ",
            theirs[b],
            f" {storage_type(left.schema[a].type)}",
        )
        for a, b, null_safe in zip(spec.left_keys, spec.right_keys, safe, strict=True)
    ]
    return {
        "join": (spec.kind,),
        "keys": joined(pairs, " AND "),
        "left rows": _rows(left, lineage),
        "right rows": _rows(right, lineage),
    }


def _condition(node: PhysicalOperator, spec: Any, lineage: Lineage) -> Text:
    if spec.condition is None:
        return ()
    columns = [text for each in node.inputs for text in lineage.columns(each)]
    return text_of_rex(spec.condition, columns, spec.zone)


def _join(node: PhysicalOperator, spec: JoinSpec, lineage: Lineage) -> Parts:
    # An inner join of inserts does not look back at pairs that it has found: the condition is about rows to come.
    forgets = spec.kind == "INNER" and not (spec.left_retracts or spec.right_retracts)
    # Partners that have expired cannot be counted after a restore.
    counts = spec.kind != "INNER" and (spec.left_ttl_ms or spec.right_ttl_ms)
    return {
        **_sides(node, spec, lineage),
        "condition": () if forgets else _condition(node, spec, lineage),
        "left expires": _expires(spec.left_ttl_ms),
        "right expires": _expires(spec.right_ttl_ms),
        "partners": ("counted",) if counts else (),
    }


def _interval(node: PhysicalOperator, spec: ColumnarIntervalJoinSpec, lineage: Lineage) -> Parts:
    left, right = (lineage.columns(each) for each in node.inputs)
    times: Text = ("processing time",)
    if spec.left_time is not None and spec.right_time is not None:
        times = text_of(left[spec.left_time], " and ", right[spec.right_time])
    return {
        **_sides(node, spec, lineage),
        "interval": text_of(times, f" from {show_millis(spec.lower)} to {show_millis(spec.upper)}"),
        "condition": () if spec.kind == "INNER" else _condition(node, spec, lineage),
    }


def _window_join(node: PhysicalOperator, spec: WindowJoinSpec, lineage: Lineage) -> Parts:
    left, right = (lineage.columns(each) for each in node.inputs)
    windows = [*(left[at] for at in spec.left_window), *(right[at] for at in spec.right_window)]
    return {
        **_sides(node, spec, lineage),
        "windows": text_of(joined(windows), f" in {spec.zone}"),
    }


def _temporal(node: PhysicalOperator, spec: TemporalJoinSpec, lineage: Lineage) -> Parts:
    left, right = (lineage.columns(each) for each in node.inputs)
    times: Text = ("processing time",)
    if spec.left_time is not None and spec.right_time is not None:
        times = text_of(left[spec.left_time], " and ", right[spec.right_time])
    parts = {**_sides(node, spec, lineage), "times": times}
    if spec.left_time is None:  # left rows do not wait, and versions may expire
        parts |= {"left rows": (), "expires": _expires(spec.ttl_ms)}
    return parts


def _lookup(node: PhysicalOperator, spec: LookupJoinSpec, lineage: Lineage) -> Parts:  # noqa: ARG001
    # Rows that wait for an answer are asked for again.
    return {"rows": _rows(node.inputs[0], lineage)}


DESCRIPTIONS: dict[type[Any], Callable[[PhysicalOperator, Any, Lineage], Parts]] = {
    GroupAggregateSpec: _group,
    WindowAggregateSpec: _window,
    OverAggregateSpec: _over,
    RankSpec: _rank,
    DeduplicateSpec: _deduplicate,
    WindowRankSpec: _window_rank,
    SortSpec: _sort,
    SessionTableFunctionSpec: _session,
    ChangelogNormalizeSpec: _normalize,
    UpsertMaterializeSpec: _materialize,
    FinalTableSpec: _final,
    MatchRecognizeSpec: _match,
    JoinSpec: _join,
    ColumnarIntervalJoinSpec: _interval,
    WindowJoinSpec: _window_join,
    TemporalJoinSpec: _temporal,
    LookupJoinSpec: _lookup,
}
