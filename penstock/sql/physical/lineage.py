"""Column lineage of a plan, down to the columns of the tables that it reads: what descriptions of state are made of.

Filters have no part in it: which rows come does not change what a column of them means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.state_description import ColumnOrigin, Text, joined, shortened, text_of
from penstock.sql import types as t
from penstock.sql.expr.nodes import AggregateCall, Call, Rex, walk
from penstock.sql.logical.texts import show, show_window
from penstock.sql.udf.runners import name_of_user_code

if TYPE_CHECKING:
    from penstock.sql.physical.nodes import PhysicalNode

_TOKEN: Final = re.compile("\ue000(\\d+)\ue001")  # stands for a column while `show` writes a text
_LOCAL: Final = (t.TimestampType, t.DateType, t.CharType, t.VarCharType)
_WITHOUT_ZONE: Final = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "IS NULL", "IS NOT NULL", "CASE", "COALESCE", "IN"}
)


class Lineage:
    """The columns of the nodes of one plan.

    `tables` are the tables that are read, with all their columns; `scanned` the paths of those of catalogs.
    """

    def __init__(self) -> None:
        self.tables: dict[str, tuple[str, ...]] = {}
        self.scanned: list[str] = []
        self._known: dict[int, list[Text]] = {}

    def columns(self, node: PhysicalNode) -> list[Text]:
        """Return what each column of a node is computed from."""
        found = self._known.get(id(node))
        if found is None:
            made = node.column_lineage(self)
            found = self._known[id(node)] = [shortened(each) for each in made]
        return found

    def table(
        self, name: str, node: PhysicalNode, declared: Sequence[str] = (), *, first: int = 0
    ) -> list[Text]:
        """Return the columns of a node, from the first one on, as columns of a table; `declared`: all that the table has."""
        names = node.names[first:]
        known = self.tables.get(name, ())
        self.tables[name] = tuple(dict.fromkeys([*known, *declared, *names]))
        return [(ColumnOrigin(name, each),) for each in names]

    def tables_of(self, texts: Iterable[Text]) -> dict[str, tuple[str, ...]]:
        """Return all tables, with the columns of those that some texts name: of others it is enough to know that they are there."""
        read = {part.table for text in texts for part in text if isinstance(part, ColumnOrigin)}
        return {name: of if name in read else () for name, of in self.tables.items()}

    def typed(self, node: PhysicalNode, columns: Iterable[int]) -> Text:
        """Return some columns of a node with their types."""
        texts = self.columns(node)
        return joined(
            [text_of(texts[at], f" {storage_type(node.schema[at].type)}") for at in columns]
        )

    def rows(self, node: PhysicalNode) -> Text:
        """Return all columns of a node with their types: rows that are kept as a whole."""
        return self.typed(node, range(len(node.schema)))


def expires(ttl_ms: int) -> Text:
    """Return whether state expires."""
    return ("yes",) if ttl_ms else ()


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
