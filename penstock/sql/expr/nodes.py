"""Typed expressions over the columns of an input: what plans and operators hold, without behaviour.

They are made by the validation of a query, changed by rules, sent to tasks, and turned into Polars expressions there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Rex:
    """Base of all expressions; `type` is the type of its value, including nullability."""

    type: DataType


@dataclass(frozen=True, slots=True)
class InputRef(Rex):
    """A column of the input by its position. Of two inputs, those of the right one follow those of the left one."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True, slots=True)
class Literal(Rex):
    """A constant, as the Python value that a row would hold; None is NULL.

    DECIMAL: Decimal; DATE, TIME: datetime.date and time; TIMESTAMP: datetime without time zone; TIMESTAMP_LTZ: datetime in UTC;
    INTERVAL of days and seconds: timedelta; INTERVAL of years and months: int (months). ARRAY, MAP, ROW are calls of their constructors.
    """

    value: Any

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True, slots=True)
class Symbol(Rex):
    """A keyword of a function's syntax, such as YEAR in EXTRACT or BOTH in TRIM."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call(Rex):
    """A call of a built-in function by its canonical name in upper case.

    Operators have these names: `=`, `<>`, `<`, `<=`, `>`, `>=`, `+`, `-`, `*`, `/`, `%`, `AND`, `OR`, `NOT`, `IS NULL`, `IS NOT NULL`, `IS TRUE`,
    `IS FALSE`, `IS NOT TRUE`, `IS NOT FALSE`, `IS UNKNOWN`, `IS NOT UNKNOWN`, `IS DISTINCT FROM`, `IS NOT DISTINCT FROM`, `LIKE`, `SIMILAR TO`,
    `BETWEEN` (rewritten as comparisons), `IN` (operands: value, then choices), `CASE` (condition, value, ..., else), `CAST` and `TRY_CAST` (to `type`),
    `ROW`, `ARRAY`, `MAP`, `ITEM` (access by index or key), `FIELD` (operands: a row and a Literal with the field's position), `||`, `NEGATE`.
    All others have the name of Flink's documentation, such as `DATE_FORMAT` or `JSON_VALUE`.
    """

    function: str
    operands: tuple[Rex, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.operands))
        if self.function in {"CAST", "TRY_CAST"}:
            return f"{self.function}({shown} AS {self.type})"
        return f"{self.function}({shown})"


@dataclass(frozen=True, slots=True)
class UserCall(Rex):
    """A call of a user's scalar function. `pandas`: it takes and returns pandas.Series."""

    name: str
    function: Any
    operands: tuple[Rex, ...]
    pandas: bool = False
    deterministic: bool = True

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of an aggregate function in GROUP BY, a window, OVER or MATCH_RECOGNIZE.

    `operands` are expressions over the aggregate's input; after the rules they are InputRefs and Literals only. `filter` is the condition of
    FILTER (WHERE ...). `order` is what WITHIN GROUP and ORDER BY say: pairs of a column and whether it ascends. `separator` and the like are operands.
    `function` is the canonical name: COUNT (without operands: of rows), SUM, AVG, MIN, MAX, LISTAGG, ... A user's function is in `user`.
    """

    function: str
    operands: tuple[Rex, ...]
    type: DataType
    distinct: bool = False
    filter: Rex | None = None
    order: tuple[tuple[Rex, bool], ...] = ()
    ignore_nulls: bool = False
    user: Any = None

    def __str__(self) -> str:
        shown = ("DISTINCT " if self.distinct else "") + (", ".join(map(str, self.operands)) or "*")
        return f"{self.function}({shown})" + (
            f" FILTER {self.filter}" if self.filter is not None else ""
        )


def children(rex: Rex) -> tuple[Rex, ...]:
    """Return the expressions directly inside of another one."""
    return rex.operands if isinstance(rex, Call | UserCall) else ()


def walk(rex: Rex) -> Iterator[Rex]:
    """Go through an expression and all inside of it, outer ones first."""
    yield rex
    for each in children(rex):
        yield from walk(each)


def rewrite(rex: Rex, change: Callable[[Rex], Rex]) -> Rex:
    """Return an expression with each part replaced by what `change` makes of it, inner ones first."""
    if isinstance(rex, Call | UserCall):
        rex = replace(rex, operands=tuple(rewrite(each, change) for each in rex.operands))
    return change(rex)


def inputs_of(rex: Rex) -> set[int]:
    """Return the positions of the columns that an expression reads."""
    return {each.index for each in walk(rex) if isinstance(each, InputRef)}
