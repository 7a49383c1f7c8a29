"""Leaves of expressions over a match: FIRST, LAST and aggregates of the rows of some variables.

Expressions over a single row are computed in columns when the row arrives; an event is the tuple of these values, after a number
that says which of two events came first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import polars as pl

from penstock.runtime.columnar.aggregates.rowwise import RowAggregate, row_aggregate
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.store.groups import Numbers
from penstock.sql.expr.functions import is_aggregate
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
    UserCall,
    rewrite,
    walk,
)

REFERENCE: Final = "PATTERN REF"
ANY_VARIABLE: Final = "*"

Event = tuple[Any, ...]
EventsOf = Callable[[str], list[Event]]  # of a variable


@dataclass(slots=True)
class PatternLeaf:
    """A value of the rows of some variables (None: of all). `slots` are the places of what it reads in an event."""

    kind: str  # FIRST, LAST, AGGREGATE, PROCTIME
    rex: Rex
    variables: tuple[str, ...] | None
    slots: tuple[int, ...]
    offset: int = 0
    function: RowAggregate | None = None

    @property
    def dtype(self) -> pl.DataType:
        """The type of its column."""
        return dtype_of(self.rex.type)

    def is_current(self, variable: str) -> bool:
        """Whether it is of the row that is looked at, while that is to become one of the variable."""
        return self.kind == "LAST" and not self.offset and self.includes(variable)

    def includes(self, variable: str) -> bool:
        """Whether the rows of a variable are among its rows."""
        return self.variables is None or variable in self.variables

    def value(self, rows: Sequence[Event]) -> Any:
        """Return its value, of rows in their order."""
        if self.kind == "AGGREGATE":
            function = self.function
            assert function is not None
            accumulator = function.create()
            for row in rows:
                function.add(accumulator, tuple(row[slot] for slot in self.slots))
            return function.result(accumulator)
        if len(rows) <= self.offset:
            return None
        return rows[self.offset if self.kind == "FIRST" else -1 - self.offset][self.slots[0]]


@dataclass(slots=True)
class PatternLeaves:
    """All values that the expressions of a MATCH_RECOGNIZE read."""

    variables: tuple[str, ...]
    subsets: Mapping[str, tuple[str, ...]]
    zone: str
    rowtime: Rex | None = None
    rows: list[Rex] = field(default_factory=list)  # expressions over a row, by slot - 1

    def slot(self, rex: Rex) -> int:
        """Return the place that the value of an expression over a row has in events."""
        plain = rewrite(rex, _of_row)
        if plain not in self.rows:
            self.rows.append(plain)
        return self.rows.index(plain) + 1

    def split(self, rex: Rex) -> tuple[Rex, list[PatternLeaf]]:
        """Return an expression over leaves, which are its columns, and the leaves."""
        leaves: list[PatternLeaf] = []

        def place(leaf: PatternLeaf) -> Rex:
            known = [each.rex for each in leaves]
            if leaf.rex not in known:
                leaves.append(leaf)
                known.append(leaf.rex)
            return InputRef(leaf.rex.type, known.index(leaf.rex))

        def change(part: Rex) -> Rex:
            leaf = self._leaf(part)
            if leaf is not None:
                return place(leaf)
            if isinstance(part, Call | UserCall) and part.operands:
                return replace(part, operands=tuple(map(change, part.operands)))
            return part

        return change(rex), leaves

    def _leaf(self, rex: Rex) -> PatternLeaf | None:
        if not isinstance(rex, Call):
            return None
        function = rex.function
        if function == REFERENCE:
            return PatternLeaf("LAST", rex, self._variables(rex), (self.slot(rex),))
        if function in {"FIRST", "LAST"} and len(rex.operands) == 2:
            offset = rex.operands[1]
            assert isinstance(offset, Literal)
            value = rex.operands[0]
            slots = (self.slot(value),)
            return PatternLeaf(function, rex, self._variables(value), slots, int(offset.value))
        if function == "MATCH_ROWTIME":
            assert self.rowtime is not None
            return PatternLeaf("LAST", rex, None, (self.slot(self.rowtime),))
        if function == "MATCH_PROCTIME":
            return PatternLeaf("PROCTIME", rex, None, ())
        if is_aggregate(function) and any(map(_is_reference, walk(rex))):
            operands = tuple(each for each in rex.operands if not isinstance(each, Symbol))
            call = AggregateCall(function, rex.operands, rex.type)
            return PatternLeaf(
                "AGGREGATE",
                rex,
                self._variables(rex),
                tuple(map(self.slot, operands)),
                function=row_aggregate(call),
            )
        return None

    def _variables(self, rex: Rex) -> tuple[str, ...] | None:
        names = {
            each.operands[0].name
            for each in walk(rex)
            if isinstance(each, Call)
            and _is_reference(each)
            and isinstance(each.operands[0], Symbol)
        }
        if ANY_VARIABLE in names:
            return None
        found = [each for name in sorted(names) for each in self.subsets.get(name, (name,))]
        return tuple(dict.fromkeys(found))

    def rows_of(self, leaf: PatternLeaf, events_of: EventsOf) -> list[Event]:
        """Return the rows that a leaf reads, in their order."""
        names = self.variables if leaf.variables is None else leaf.variables
        if len(names) == 1:
            return events_of(names[0])
        return sorted((each for name in names for each in events_of(name)), key=_number)


def _number(event: Event) -> Any:
    return event[0]


def _is_reference(rex: Rex) -> bool:
    return isinstance(rex, Call) and rex.function == REFERENCE


def _of_row(rex: Rex) -> Rex:
    return rex.operands[1] if isinstance(rex, Call) and rex.function == REFERENCE else rex


class EventMaker:
    """Makes events of rows: numbers, then what expressions make of each row, as plain values."""

    def __init__(self, rows: Sequence[Rex], flags: Sequence[pl.Expr], zone: str) -> None:
        self._expressions = [
            compile_expression(each, zone).alias(f"s{at}") for at, each in enumerate(rows)
        ]
        self._expressions += [
            each.fill_null(value=False).alias(f"f{at}") for at, each in enumerate(flags)
        ]
        self._names = [f"s{at}" for at in range(len(rows))] + [f"f{at}" for at in range(len(flags))]

    def events(self, frame: pl.DataFrame, numbers: Numbers) -> list[Event]:
        """Return the events of rows."""
        made = frame.with_columns(self._expressions).select(self._names)
        return list(zip(numbers.tolist(), *map(plain_values, made.get_columns()), strict=True))


def plain_values(series: pl.Series) -> list[Any]:
    """Return a column as events have it: times are numbers."""
    return (series.to_physical() if series.dtype.is_temporal() else series).to_list()


def column_of(name: str, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Return values of events as a column."""
    if not dtype.is_temporal():
        return pl.Series(name, values, dtype=dtype, strict=False)
    return pl.Series(name, values, dtype=pl.Series([], dtype=dtype).to_physical().dtype).cast(dtype)


def numbers_from(start: int, count: int) -> Numbers:
    """Return this many consecutive numbers."""
    return np.arange(start, start + count)
