"""Typed expressions as Polars expressions over the columns of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context
from typing import Any

import polars as pl

from penstock.errors import UnsupportedOperationError
from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions.zones import Zone
from penstock.runtime.columnar.values import column_of, has_nanoseconds, listed
from penstock.sql import types as t
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
    UserCall,
    walk,
)
from penstock.time.nanoseconds import to_nanos

EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
Watermark = Callable[[], int | None]
Compiled = Callable[["ExpressionCompiler", Call], pl.Expr]
COMPILERS: dict[str, Compiled] = {}
# functions that fail for some values: only computed where CASE, AND, OR and COALESCE need them
FALLIBLE: set[str] = {"CAST", "/", "%"}


def compiles(*names: str, fallible: bool = False) -> Callable[[Compiled], Compiled]:
    """Register the compiler of calls of these functions into Polars expressions."""

    def register(compiled: Compiled) -> Compiled:
        for name in names:
            COMPILERS[name] = compiled
        if fallible:
            FALLIBLE.update(names)
        return compiled

    return register


def simply(name: str, build: Callable[..., pl.Expr], *, fallible: bool = False) -> None:
    """Register a function of the operands' expressions alone."""

    def compiled(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
        return build(*compiler.operands(call))

    compiles(name, fallible=fallible)(compiled)


class ExpressionCompiler:
    """Compiles expressions for one session time zone.

    With a `guard`, expressions that may fail are computed only for rows where the guard is true. `watermark` gives the operator's watermark, if it has one.
    """

    __slots__ = ("guard", "watermark", "zone")

    def __init__(
        self, zone: Zone, guard: pl.Expr | None = None, watermark: Watermark | None = None
    ) -> None:
        self.zone = zone
        self.guard = guard
        self.watermark = watermark

    def under(self, condition: pl.Expr) -> ExpressionCompiler:
        """Return a compiler for expressions that are only needed where the condition is true."""
        guard = condition if self.guard is None else self.guard & condition
        return ExpressionCompiler(self.zone, guard, self.watermark)

    def compile(self, rex: Rex) -> pl.Expr:
        """Return the Polars expression."""
        if isinstance(rex, InputRef):
            return pl.col(column(rex.index))
        if isinstance(rex, Literal):
            return literal(rex.value, rex.type)
        if isinstance(rex, Call):
            compiled = COMPILERS.get(rex.function)
            if compiled is None:
                raise UnsupportedOperationError(f"function {rex.function} is not supported yet")
            return compiled(self, rex)
        if isinstance(rex, UserCall):
            from penstock.runtime.columnar.expressions.user import compile_user_call

            return compile_user_call(self, rex)
        raise UnsupportedOperationError(f"{rex} is not a scalar expression")

    def operands(self, call: Call) -> list[pl.Expr]:
        """Return the expressions of the operands, without symbols. Expressions that may fail get NULL where the guard is not true."""
        values = [self.compile(each) for each in call.operands if not isinstance(each, Symbol)]
        if self.guard is not None and values and call.function in FALLIBLE:
            values[0] = pl.when(self.guard).then(values[0])
        return values


def literal(value: Any, data_type: t.DataType) -> pl.Expr:
    """Return a constant as an expression of its type."""
    dtype = dtype_of(data_type)
    if value is None:
        return pl.lit(None, dtype=dtype)
    if isinstance(data_type, t.DecimalType):
        unscaled = int(value.scaleb(data_type.scale, EXACT))
        return pl.lit(unscaled, dtype=pl.Int128()).reinterpret(dtype=dtype)
    if isinstance(data_type, t.BinaryType | t.VarBinaryType | t.BitmapType):
        return pl.lit(bytes(value))
    if has_nanoseconds(data_type):
        return pl.lit(to_nanos(value), dtype=pl.Int64()).cast(dtype)
    return (
        pl.lit(pl.Series([value], dtype=dtype).first(), dtype=dtype)
        if _is_time(data_type)
        else pl.lit(value, dtype=dtype)
    )


def _is_time(data_type: t.DataType) -> bool:
    return isinstance(
        data_type,
        t.TimestampType
        | t.LocalZonedTimestampType
        | t.DateType
        | t.TimeType
        | t.DayTimeIntervalType,
    )


def can_fail(rex: Rex) -> bool:
    """Whether the expression fails for some values."""
    return any(
        isinstance(each, UserCall) or (isinstance(each, Call) and each.function in FALLIBLE)
        for each in walk(rex)
    )


def mostly(
    quick: pl.Expr, slow: Callable[[Any], Any], operand: pl.Expr, data_type: t.DataType
) -> pl.Expr:
    """Return `quick`, which knows most values; those that it leaves NULL though there is an operand are computed one by one."""
    dtype = dtype_of(data_type)

    def apply(columns: Sequence[pl.Series]) -> pl.Series:
        made, given = columns
        left = made.is_null() & given.is_not_null()
        if not left.any():
            return made
        found = pl.Series([slow(each) for each in given.filter(left)], dtype=dtype, strict=False)
        return made.scatter(left.arg_true(), found)

    return pl.map_batches([quick, operand], apply, return_dtype=dtype, is_elementwise=True)


def rowwise(
    function: Callable[..., Any],
    operands: Sequence[pl.Expr],
    data_type: t.DataType,
    *,
    nulls: bool = False,
) -> pl.Expr:
    """Return the result of a Python function for each row; NULL where an operand is, unless `nulls` are passed to it."""
    dtype = dtype_of(data_type)

    def apply(columns: Sequence[pl.Series]) -> pl.Series:
        length = max(map(len, columns), default=1)
        if length and any(len(each) == 0 for each in columns):
            length = 0
        lists = [listed(each) for each in columns]
        values = [each if len(each) == length else each * length for each in lists]
        rows = zip(*values, strict=True)
        if nulls:
            results = [function(*row) for row in rows]
        else:
            results = [None if None in row else function(*row) for row in rows]
        return column_of("", results, dtype)

    return pl.map_batches(list(operands), apply, return_dtype=dtype, is_elementwise=True)
