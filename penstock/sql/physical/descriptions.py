"""Descriptions of operators in plans, one text per kind of operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.graph.operator_specs.columnar.aggregates import (
    ColumnarLocalAggregateSpec,
    GroupAggregateSpec,
    OverAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.changes import (
    ChangelogNormalizeSpec,
    DropKindsSpec,
    FinalTableSpec,
    MatchRecognizeSpec,
    NotNullSpec,
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
from penstock.graph.operator_specs.columnar.stateless import (
    CalcSpec,
    CorrelateSpec,
    ExpandSpec,
    RowsToColumnsSpec,
    WatermarkSpec,
    WindowTableFunctionSpec,
)
from penstock.sql.physical.nodes import PhysicalNode
from penstock.sql.physical.texts import (
    show,
    show_call,
    show_millis,
    show_order,
    show_window,
)

_KINDS: dict[type[Any], str] = {
    CalcSpec: "Calc",
    WatermarkSpec: "WatermarkAssigner",
    RowsToColumnsSpec: "RowsToColumns",
    ExpandSpec: "Expand",
    WindowTableFunctionSpec: "WindowTableFunction",
    SessionTableFunctionSpec: "WindowTableFunction",
    CorrelateSpec: "Correlate",
    GroupAggregateSpec: "GroupAggregate",
    ColumnarLocalAggregateSpec: "LocalGroupAggregate",
    WindowAggregateSpec: "WindowAggregate",
    OverAggregateSpec: "OverAggregate",
    ChangelogNormalizeSpec: "ChangelogNormalize",
    UpsertMaterializeSpec: "SinkMaterializer",
    DropKindsSpec: "DropUpdateBefore",
    FinalTableSpec: "FinalTable",
    NotNullSpec: "ConstraintEnforcer",
    MatchRecognizeSpec: "Match",
    JoinSpec: "Join",
    ColumnarIntervalJoinSpec: "IntervalJoin",
    WindowJoinSpec: "WindowJoin",
    TemporalJoinSpec: "TemporalJoin",
    LookupJoinSpec: "LookupJoin",
    RankSpec: "Rank",
    DeduplicateSpec: "Deduplicate",
    WindowRankSpec: "WindowRank",
    SortSpec: "Sort",
}
_JOINS = {"INNER": "InnerJoin", "LEFT": "LeftOuterJoin", "RIGHT": "RightOuterJoin"}
_JOINS |= {"FULL": "FullOuterJoin", "SEMI": "LeftSemiJoin", "ANTI": "LeftAntiJoin"}


@dataclass(frozen=True, slots=True)
class DescriptionContext:
    """Context of a description: the names of an operator's columns and of its inputs' columns, one after another."""

    names: list[str]
    below: list[str]
    inputs: tuple[PhysicalNode, ...]


def operator_kind(spec: Any) -> str:
    """Return the name of an operator."""
    if isinstance(spec, GroupAggregateSpec) and spec.merges:
        return "GlobalGroupAggregate"
    if isinstance(spec, WindowAggregateSpec) and spec.merges:
        return "GlobalWindowAggregate"
    if isinstance(spec, ColumnarLocalAggregateSpec) and spec.window is not None:
        return "LocalWindowAggregate"
    if isinstance(spec, RankSpec) and not spec.keys:
        return "SortLimit" if spec.order else "Limit"
    return _KINDS.get(type(spec), type(spec).__name__.removesuffix("Spec"))


def describe(spec: Any, at: DescriptionContext) -> list[str]:
    """Return the description of an operator."""
    for kinds, text in _DESCRIPTIONS:
        if isinstance(spec, kinds):
            return text(spec, at)
    return []


def _columns(columns: Sequence[int], names: Sequence[str]) -> str:
    return ", ".join(names[each] for each in columns)


def _as(text: str, name: str) -> str:
    return text if text == name else f"{text} AS {name}"


def _ttl(ttl_ms: int) -> list[str]:
    return [f"stateTtl=[{show_millis(ttl_ms)}]"] if ttl_ms else []


def _calc(spec: CalcSpec, at: DescriptionContext) -> list[str]:
    shown = (
        at.below if spec.projection is None else [show(each, at.below) for each in spec.projection]
    )
    parts = [f"select=[{', '.join(map(_as, shown, at.names))}]"]
    if spec.condition is not None:
        parts.append(f"where=[{show(spec.condition, at.below)}]")
    return parts


def _watermark(spec: WatermarkSpec, at: DescriptionContext) -> list[str]:
    return [f"rowtime=[{at.names[spec.rowtime]}]", f"watermark=[{show(spec.expression, at.below)}]"]


def _expand(spec: ExpandSpec, at: DescriptionContext) -> list[str]:
    shown = [f"{{{', '.join(show(each, at.below) for each in row)}}}" for row in spec.projections]
    return [f"projects=[{', '.join(shown)}]"]


def _window_table(
    spec: WindowTableFunctionSpec | SessionTableFunctionSpec, at: DescriptionContext
) -> list[str]:
    return [f"window=[{show_window(spec.window, at.below)}]"]


def _correlate(spec: CorrelateSpec, at: DescriptionContext) -> list[str]:
    called = f"{spec.function}({', '.join(show(each, at.below) for each in spec.operands)})"
    return [
        f"invocation=[{called}]",
        f"select=[{', '.join(at.names)}]",
        f"joinType=[{'LEFT' if spec.outer else 'INNER'}]",
    ]


def _aggregate(spec: Any, at: DescriptionContext) -> list[str]:
    parts = [f"groupBy=[{_columns(spec.keys, at.below)}]"] if spec.keys else []
    window = getattr(spec, "window", None)
    if window is not None:
        parts.append(f"window=[{show_window(window, at.below)}]")
    if getattr(spec, "assigned", None) is not None:
        start, end = spec.assigned
        parts.append(f"window=[win_start=[{at.below[start]}], win_end=[{at.below[end]}]]")
    merges = getattr(spec, "merges", False)
    local = isinstance(spec, ColumnarLocalAggregateSpec)
    first = len(spec.keys) + (local and window is not None)  # behind keys and the end of a slice
    calls = [
        _as(str(call.function) + "(...)" if merges else show_call(call, at.below), name)
        for call, name in zip(spec.aggregates, at.names[first:], strict=False)
    ]
    rest = at.names[first + len(calls) :]
    shown = [*at.names[:first], *calls, *rest]
    return [*parts, f"select=[{', '.join(shown)}]", *_ttl(getattr(spec, "ttl_ms", 0))]


def _over(spec: OverAggregateSpec, at: DescriptionContext) -> list[str]:
    unit = "ROWS" if spec.rows else "RANGE"
    if spec.preceding is None:
        start = "UNBOUNDED"
    else:
        start = str(spec.preceding) if spec.rows else show_millis(spec.preceding)
    parts = [f"partitionBy=[{_columns(spec.keys, at.below)}]"] if spec.keys else []
    parts.append(f"orderBy=[{show_order(spec.order, at.below)}]")
    parts.append(f"window=[{unit} BETWEEN {start} PRECEDING AND CURRENT ROW]")
    calls = [
        _as(show_call(call, at.below), name)
        for call, name in zip(spec.aggregates, at.names[len(at.below) :], strict=False)
    ]
    return [*parts, f"select=[{', '.join([*at.below, *calls])}]"]


def _join(spec: Any, at: DescriptionContext) -> list[str]:
    left, right = (each.schema for each in at.inputs)
    pairs = [
        f"{left[a].name} = {right[b].name}"
        for a, b in zip(spec.left_keys, spec.right_keys, strict=True)
    ]
    parts = [f"joinType=[{_JOINS[spec.kind]}]"]
    match spec:
        case ColumnarIntervalJoinSpec():
            time = "rowtime" if spec.left_time is not None else "proctime"
            bounds = f"leftLowerBound={spec.lower}, leftUpperBound={spec.upper}"
            parts.append(f"windowBounds=[is{time.capitalize()}=true, {bounds}]")
        case WindowJoinSpec():
            one, other = spec.left_window, spec.right_window
            parts.append(f"leftWindow=[{left[one[0]].name}, {left[one[1]].name}]")
            parts.append(f"rightWindow=[{right[other[0]].name}, {right[other[1]].name}]")
        case TemporalJoinSpec():
            time = "event" if spec.left_time is not None else "processing"
            parts.append(f"time=[{time}]")
    where = [*pairs, *([show(spec.condition, at.below)] if spec.condition is not None else [])]
    parts.append(f"where=[{' AND '.join(where)}]" if where else "where=[true]")
    parts.append(f"select=[{', '.join(at.names)}]")
    if isinstance(spec, JoinSpec):
        parts.append(f"leftInputSpec=[{_side(spec.left_unique, spec.left_keys)}]")
        parts.append(f"rightInputSpec=[{_side(spec.right_unique, spec.right_keys)}]")
        if spec.left_ttl_ms or spec.right_ttl_ms:
            ttls = f"{show_millis(spec.left_ttl_ms)}, {show_millis(spec.right_ttl_ms)}"
            parts.append(f"stateTtl=[{ttls}]")
    return parts


def _side(unique: tuple[int, ...] | None, keys: tuple[int, ...]) -> str:
    if unique is None:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if set(unique) <= set(keys) else "HasUniqueKey"


def _lookup(spec: LookupJoinSpec, at: DescriptionContext) -> list[str]:
    table = at.names[len(at.below) :]
    pairs = [f"{table[to]}={show(each, at.below)}" for each, to in spec.keys]
    parts = [
        f"joinType=[{_JOINS[spec.kind]}]",
        f"lookup=[{', '.join(pairs)}]",
        f"select=[{', '.join(at.names)}]",
    ]
    if spec.condition is not None:
        parts.insert(2, f"where=[{show(spec.condition, at.names)}]")
    if spec.asynchronous:
        order = "ORDERED" if spec.ordered else "UNORDERED"
        parts.append(f"async=[{order}, {show_millis(spec.timeout_ms)}, {spec.capacity}]")
    return parts


def _rank(spec: Any, at: DescriptionContext) -> list[str]:
    end = at.below[spec.end_column] if getattr(spec, "end_column", None) is not None else spec.end
    parts = []
    if isinstance(spec, RankSpec):
        parts += [f"strategy=[{spec.strategy}]", f"rankType=[{spec.function}]"]
    else:
        parts.append(f"window=[{_columns(spec.window, at.below)}]")
    parts.append(f"rankRange=[rankStart={spec.start}, rankEnd={end}]")
    parts.append(f"partitionBy=[{_columns(spec.keys, at.below)}]")
    parts.append(f"orderBy=[{show_order(spec.order, at.below)}]")
    return [*parts, f"select=[{', '.join(at.names)}]", *_ttl(getattr(spec, "ttl_ms", 0))]


def _deduplicate(spec: DeduplicateSpec, at: DescriptionContext) -> list[str]:
    order = "PROCTIME" if spec.time is None else "ROWTIME"
    kept = "LastRow" if spec.last else "FirstRow"
    key = _columns(spec.keys, at.below)
    return [f"keep=[{kept}]", f"key=[{key}]", f"order=[{order}]", *_ttl(spec.ttl_ms)]


def _sort(spec: SortSpec, at: DescriptionContext) -> list[str]:
    return [f"orderBy=[{show_order(spec.order, at.below)}]"]


def _by_key(spec: Any, at: DescriptionContext) -> list[str]:
    return [f"key=[{_columns(spec.keys, at.below)}]", *_ttl(spec.ttl_ms)]


def _not_null(spec: NotNullSpec, _: DescriptionContext) -> list[str]:
    return [f"NotNullEnforcer(fields=[{', '.join(spec.names)}])"]


def _match(spec: MatchRecognizeSpec, at: DescriptionContext) -> list[str]:
    return [
        f"partitionBy=[{_columns(spec.keys, at.below)}]",
        f"orderBy=[{show_order(spec.order, at.below)}]",
        f"measures=[{', '.join(name for name, _ in spec.measures)}]",
        f"define=[{', '.join(name for name, _ in spec.definitions)}]",
    ]


_DESCRIPTIONS: tuple[tuple[Any, Callable[..., list[str]]], ...] = (
    (CalcSpec, _calc),
    (WatermarkSpec, _watermark),
    (ExpandSpec, _expand),
    ((WindowTableFunctionSpec, SessionTableFunctionSpec), _window_table),
    (CorrelateSpec, _correlate),
    ((GroupAggregateSpec, ColumnarLocalAggregateSpec, WindowAggregateSpec), _aggregate),
    (OverAggregateSpec, _over),
    ((JoinSpec, ColumnarIntervalJoinSpec, WindowJoinSpec, TemporalJoinSpec), _join),
    (LookupJoinSpec, _lookup),
    ((RankSpec, WindowRankSpec), _rank),
    (DeduplicateSpec, _deduplicate),
    (SortSpec, _sort),
    ((ChangelogNormalizeSpec, UpsertMaterializeSpec), _by_key),
    (NotNullSpec, _not_null),
    (MatchRecognizeSpec, _match),
)
