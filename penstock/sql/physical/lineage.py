"""Column lineage of a plan, down to the columns of the tables that it reads.

Filters have no part in it: which rows come does not change what a column of them means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.graph.operator_specs.columnar.aggregates import (
    ColumnarLocalAggregateSpec,
    GroupAggregateSpec,
    OverAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.changes import MatchRecognizeSpec
from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.joins import LookupJoinSpec
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.graph.operator_specs.columnar.stateless import (
    CalcSpec,
    CorrelateSpec,
    ExpandSpec,
    WindowTableFunctionSpec,
)
from penstock.graph.state_description import (
    ColumnOrigin,
    Text,
    joined,
    shortened,
    text_of,
)
from penstock.sql import types as t
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    Rex,
    walk,
)
from penstock.sql.physical.descriptions import operator_kind
from penstock.sql.physical.nodes import (
    PhysicalNode,
    PhysicalOperator,
    PhysicalStreamScan,
    PhysicalTableScan,
    PhysicalUnion,
    PhysicalValues,
)
from penstock.sql.physical.texts import show, show_millis, show_window
from penstock.sql.udf.runners import name_of_user_code

_TOKEN: Final = re.compile("\ue000(\\d+)\ue001")  # stands for a column while `show` writes a text
_WINDOW_COLUMNS: Final = ("window_start", "window_end", "window_time")
_LOCAL: Final = (t.TimestampType, t.DateType, t.CharType, t.VarCharType)
_WITHOUT_ZONE: Final = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "IS NULL", "IS NOT NULL", "CASE", "COALESCE", "IN"}
)


class Lineage:
    """The columns of the nodes of one plan. `tables` are the scanned tables, with all their columns."""

    def __init__(self) -> None:
        self.tables: dict[str, tuple[str, ...]] = {}
        self._known: dict[int, list[Text]] = {}

    def columns(self, node: PhysicalNode) -> list[Text]:
        """Return the lineage of each column of a node."""
        found = self._known.get(id(node))
        if found is None:
            found = self._known[id(node)] = [shortened(each) for each in self._columns(node)]
        return found

    def _columns(self, node: PhysicalNode) -> list[Text]:
        match node:
            case PhysicalTableScan():
                declared = [column.name for column in node.table.columns]
                return self._table(node.table.path.name, node, declared)
            case PhysicalStreamScan():
                return self._table("DataStream", node)
            case PhysicalValues():
                return self._table("VALUES", node)
            case PhysicalUnion():
                return self._union(node)
            case PhysicalOperator():
                return self._operator(node, node.spec)
        return self.columns(node.inputs[0])

    def _table(self, name: str, node: PhysicalNode, declared: Sequence[str] = ()) -> list[Text]:
        names = [field.name for field in node.schema]
        self.tables[name] = tuple(dict.fromkeys([*self.tables.get(name, ()), *declared, *names]))
        return [(ColumnOrigin(name, each),) for each in names]

    def _union(self, node: PhysicalUnion) -> list[Text]:
        branches = [self.columns(each) for each in node.inputs]
        return [
            text_of("UNION(", joined(list(column), " | "), ")")
            for column in zip(*branches, strict=True)
        ]

    def _operator(self, node: PhysicalOperator, spec: Any) -> list[Text]:
        make = _MADE.get(type(spec))
        if make is not None:
            return make(self, node, spec)
        below = [text for each in node.inputs for text in self.columns(each)]
        # All other operators append computed columns; a SEMI or ANTI join drops the columns of its right input.
        more = node.schema[len(below) :]
        return [*below[: len(node.schema)], *((operator_kind(spec),) for _ in more)]


def aggregate_input(node: PhysicalOperator) -> tuple[PhysicalNode, tuple[int, ...]]:
    """Return the rows that an aggregate is about, and the keys among their columns: with two phases, those of the first one."""
    spec: Any = node.spec
    below = node.inputs[0]
    if not spec.merges:
        return below, tuple(spec.keys)
    while not (
        isinstance(below, PhysicalOperator) and isinstance(below.spec, ColumnarLocalAggregateSpec)
    ):
        below = below.inputs[0]
    return below.inputs[0], tuple(below.spec.keys[at] for at in spec.keys)


# Texts of expressions, given those of the columns that they read


def text_of_rex(rex: Rex, columns: Sequence[Text], zone: str) -> Text:
    """Return an expression as text. The session time zone is part of it where it decides the value."""
    plain = show(rex, [f"\ue000{at}\ue001" for at in range(len(columns))])
    pieces = _TOKEN.split(plain)  # words, the number of a column, words, ...
    parts: list[str | Text] = [
        columns[int(piece)] if at % 2 else piece for at, piece in enumerate(pieces)
    ]
    if any(map(_reads_zone, walk(rex))):
        parts.append(f" in {zone}")
    return text_of(*parts)


def _reads_zone(rex: Rex) -> bool:
    """Whether a call converts between instants and local times."""
    if not isinstance(rex, Call) or rex.function in _WITHOUT_ZONE:
        return False
    moment = t.LocalZonedTimestampType
    if not isinstance(rex.type, moment):
        return any(isinstance(each.type, moment) for each in rex.operands)
    return any(isinstance(each.type, _LOCAL) for each in rex.operands)


def text_of_call(call: AggregateCall, columns: Sequence[Text], zone: str) -> Text:
    """Return a call of an aggregate function as text, with the types that it works on."""

    def operand(rex: Rex) -> Text:
        return text_of(text_of_rex(rex, columns, zone), f" {storage_type(rex.type)}")

    inner = joined([operand(each) for each in call.operands]) or ("*",)
    name = call.function if call.user is None else f"{call.function}:{name_of_user_code(call.user)}"
    parts: list[str | Text] = [f"{name}({'DISTINCT ' if call.distinct else ''}", inner, ")"]
    if call.order:
        ordered = [
            text_of(operand(each), " ASC" if ascends else " DESC") for each, ascends in call.order
        ]
        parts += [" WITHIN GROUP (", joined(ordered), ")"]
    if call.ignore_nulls:
        parts.append(" IGNORE NULLS")
    if call.filter is not None:
        parts += [" FILTER ", text_of_rex(call.filter, columns, zone)]
    return text_of(*parts, f" AS {storage_type(call.type)}")


def text_of_order(order: Sequence[SortKey], columns: Sequence[Text]) -> Text:
    """Return the columns of ORDER BY as text."""
    return joined(
        [
            text_of(
                columns[key.index],
                " ASC" if key.ascending else " DESC",
                " NULLS FIRST" if key.nulls_first else " NULLS LAST",
            )
            for key in order
        ]
    )


def text_of_window(window: WindowDefinition, columns: Sequence[Text]) -> Text:
    """Return a window function as text, with the time that it is about."""
    shape = show_window(replace(window, partition=()), ())
    time = ("processing time",) if window.time is None else columns[window.time]
    parts: list[str | Text] = [shape, " on ", time]
    if window.partition:
        parts += [" by ", joined([columns[at] for at in window.partition])]
    if window.zone is not None:
        parts.append(f" in {window.zone}")
    return text_of(*parts)


def text_of_frame(spec: OverAggregateSpec) -> str:
    """Return the frame of OVER as text."""
    bounds = [
        "UNBOUNDED" if bound is None else str(bound) if spec.rows else show_millis(bound)
        for bound in (spec.preceding, spec.following)
    ]
    unit = "ROWS" if spec.rows else "RANGE"
    return f"{unit} {bounds[0]} PRECEDING TO {bounds[1]} FOLLOWING"


def storage_type(given: t.DataType) -> str:
    """Return a type as its values are kept: lengths of texts and NOT NULL make no difference.

    >>> storage_type(t.VarCharType(10, nullable=False)), storage_type(t.DecimalType(10, 2))
    ('STRING', 'DECIMAL(38, 2)')
    >>> storage_type(t.ArrayType(t.TimestampType(1)))
    'ARRAY<TIMESTAMP(3)>'
    """
    match given:
        case t.CharType() | t.VarCharType():
            return "STRING"
        case t.BinaryType() | t.VarBinaryType():
            return "BYTES"
        case t.DecimalType():
            return f"DECIMAL(38, {given.scale})"
        case t.TimestampType() | t.LocalZonedTimestampType():
            digits = next(each for each in (3, 6, 9) if given.precision <= each)
            name = given.as_sql().partition("(")[0]
            return f"{name}({digits})"
        case t.ArrayType():
            return f"ARRAY<{storage_type(given.element_type)}>"
        case t.MultisetType():
            return f"MULTISET<{storage_type(given.element_type)}>"
        case t.MapType():
            return f"MAP<{storage_type(given.key_type)}, {storage_type(given.value_type)}>"
        case t.RowType():
            fields = (f"{each.name} {storage_type(each.data_type)}" for each in given.fields)
            return f"ROW<{', '.join(fields)}>"
    return given.nullable().as_sql()


# Output columns of operators in terms of their inputs


def _calc(lineage: Lineage, node: PhysicalOperator, spec: CalcSpec) -> list[Text]:
    below = lineage.columns(node.inputs[0])
    if spec.projection is None:
        return below
    return [text_of_rex(each, below, spec.zone) for each in spec.projection]


def _expand(lineage: Lineage, node: PhysicalOperator, spec: ExpandSpec) -> list[Text]:
    below = lineage.columns(node.inputs[0])
    found = []
    for column in zip(*spec.projections, strict=True):
        texts = list(dict.fromkeys(text_of_rex(each, below, spec.zone) for each in column))
        found.append(texts[0] if len(texts) == 1 else joined(texts, " or "))
    return found


def _window_table(
    lineage: Lineage,
    node: PhysicalOperator,
    spec: WindowTableFunctionSpec | SessionTableFunctionSpec,
) -> list[Text]:
    below = lineage.columns(node.inputs[0])
    window = text_of_window(spec.window, below)
    return [*below, *(text_of(f"{name} of ", window) for name in _WINDOW_COLUMNS)]


def _correlate(lineage: Lineage, node: PhysicalOperator, spec: CorrelateSpec) -> list[Text]:
    below = lineage.columns(node.inputs[0])
    operands = joined([text_of_rex(each, below, spec.zone) for each in spec.operands])
    name = spec.function
    if spec.user is not None:
        name += f":{name_of_user_code(spec.user.function)}"
    count = len(node.schema) - len(below)
    return [*below, *(text_of(f"{name}(", operands, f")[{at}]") for at in range(count))]


def _aggregate(
    lineage: Lineage, node: PhysicalOperator, spec: GroupAggregateSpec | WindowAggregateSpec
) -> list[Text]:
    source, places = aggregate_input(node)
    below = lineage.columns(source)
    keys = [below[at] for at in places]
    calls = [text_of_call(each, below, spec.zone) for each in spec.aggregates]
    if not isinstance(spec, WindowAggregateSpec):
        return [*keys, *calls]
    window = window_of(spec, below)
    return [*keys, *calls, *(text_of(f"{each} of ", window) for each in spec.properties)]


def window_of(spec: WindowAggregateSpec, below: Sequence[Text]) -> Text:
    """Return the windows of an aggregate as text: its own, or those that rows have got before."""
    if spec.assigned is not None:
        return text_of(joined([below[at] for at in spec.assigned]), f" in {spec.zone}")
    assert spec.window is not None
    return text_of_window(spec.window, below)


def _over(lineage: Lineage, node: PhysicalOperator, spec: OverAggregateSpec) -> list[Text]:
    below = lineage.columns(node.inputs[0])
    keys = joined([below[at] for at in spec.keys])
    frame = text_of(" OVER (", keys, " ", text_of_order(spec.order, below), ")")
    calls = [text_of_call(each, below, spec.zone) for each in spec.aggregates]
    return [*below, *(text_of(each, frame) for each in calls)]


def _lookup(lineage: Lineage, node: PhysicalOperator, spec: LookupJoinSpec) -> list[Text]:  # noqa: ARG001
    below = lineage.columns(node.inputs[0])
    names = [field.name for field in node.schema[len(below) :]]
    lineage.tables["LOOKUP"] = tuple(dict.fromkeys([*lineage.tables.get("LOOKUP", ()), *names]))
    return [*below, *((ColumnOrigin("LOOKUP", each),) for each in names)]


def _match(lineage: Lineage, node: PhysicalOperator, spec: MatchRecognizeSpec) -> list[Text]:
    below = lineage.columns(node.inputs[0])
    keys = [below[at] for at in spec.keys]
    return [*keys, *(text_of_rex(rex, below, spec.zone) for _, rex in spec.measures)]


_MADE: dict[type[Any], Callable[[Lineage, PhysicalOperator, Any], list[Text]]] = {
    CalcSpec: _calc,
    ExpandSpec: _expand,
    WindowTableFunctionSpec: _window_table,
    SessionTableFunctionSpec: _window_table,
    CorrelateSpec: _correlate,
    GroupAggregateSpec: _aggregate,
    WindowAggregateSpec: _aggregate,
    OverAggregateSpec: _over,
    LookupJoinSpec: _lookup,
    MatchRecognizeSpec: _match,
}
