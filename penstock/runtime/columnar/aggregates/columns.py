"""Aggregate functions whose accumulators are a few columns that can be added up, in any order and number of steps.

`partial` folds rows (inside of `group_by`), `merged` folds accumulators, `aligned` adds accumulators to older ones row by row: the older ones' columns have
the names that `older` gives. `finish` makes the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import polars as pl

from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.sql import types as t
from penstock.sql.expr.nodes import AggregateCall, InputRef, Rex

SIGN: Final = "$sign"  # Int64: 1 for accumulated rows, -1 for retracted rows
_DIGITS = Context(prec=76)


def older(name: str) -> str:
    """Return the name of an accumulator's column as it was before.

    >>> older("a0")
    'a0|before'
    """
    return f"{name}|before"


@dataclass(slots=True)
class ColumnAggregate:
    """A call of an aggregate function, in columns."""

    accumulators: dict[str, pl.DataType] = field(default_factory=dict)
    prepared: dict[str, pl.Expr] = field(default_factory=dict)  # computed before rows are grouped
    partial: list[pl.Expr] = field(default_factory=list)
    merged: list[pl.Expr] = field(default_factory=list)
    aligned: list[pl.Expr] = field(default_factory=list)
    neutral: list[Any] = field(default_factory=list)  # initial values of accumulators
    finish: pl.Expr = field(default_factory=lambda: pl.lit(None))

    def add_sum(self, name: str, dtype: pl.DataType, partial: pl.Expr, zero: object = 0) -> pl.Expr:
        """Add an accumulator that is a sum."""
        before = pl.col(older(name))
        return self._add(name, dtype, partial, pl.col(name).sum(), pl.col(name) + before, zero)

    def add_choice(
        self, name: str, dtype: pl.DataType, partial: pl.Expr, merged: pl.Expr, aligned: pl.Expr
    ) -> pl.Expr:
        """Add an accumulator that is one of the values, NULL if there are none."""
        return self._add(name, dtype, partial, merged, aligned, None)

    def _add(
        self,
        name: str,
        dtype: pl.DataType,
        partial: pl.Expr,
        merged: pl.Expr,
        aligned: pl.Expr,
        neutral: Any,
    ) -> pl.Expr:
        self.accumulators[name] = dtype
        self.partial.append(partial.cast(dtype).alias(name))
        self.merged.append(merged.cast(dtype).alias(name))
        self.aligned.append(aligned.cast(dtype).alias(name))
        self.neutral.append(neutral)
        return pl.col(name)


class _Making:
    """Builder of a ColumnAggregate: holds the call and, for retracting inputs, the sign."""

    def __init__(self, call: AggregateCall, index: int, signed: bool, zone: str) -> None:
        self.call = call
        self.index = index
        self.signed = signed
        self.zone = zone
        self.made = ColumnAggregate()
        self.filter = None if call.filter is None else compile_expression(call.filter, zone)

    def name(self, part: str) -> str:
        return f"a{self.index}{part}"

    @property
    def operand(self) -> Rex:
        return self.call.operands[0]

    @property
    def always_there(self) -> bool:
        """Whether every group has a value, so that values need no count. A global group may be empty."""
        nullable = self.operand.type.is_nullable or self.call.type.is_nullable
        return not (self.signed or self.filter is not None or nullable)

    def value(self) -> pl.Expr:
        """The operand of each row, NULL where the filter excludes it."""
        return self._mask(compile_expression(self.operand, self.zone))

    def _mask(self, value: pl.Expr) -> pl.Expr:
        return value if self.filter is None else pl.when(self.filter).then(value)

    def prepare(self, part: str, value: pl.Expr) -> pl.Expr:
        """Compute a column before rows are grouped; a plain column is taken as it is."""
        if value.meta.is_column():
            return value
        name = f"${self.name(part)}"
        self.made.prepared[name] = value
        return pl.col(name)

    def signed_value(self, value: pl.Expr) -> pl.Expr:
        return pl.when(pl.col(SIGN) < 0).then(-value).otherwise(value) if self.signed else value

    def count(self, part: str = "n") -> pl.Expr:
        """Add an accumulator: the number of rows whose operands are all non-NULL."""
        name, operands = self.name(part), self.call.operands
        if not self.signed and self.filter is None and _plain_count(operands):
            column = compile_expression(operands[0], self.zone) if operands else None
            partial = pl.len() if column is None else column.count()
            return self.made.add_sum(name, pl.Int64(), partial)
        there = [compile_expression(each, self.zone).is_not_null() for each in operands]
        if self.filter is not None:
            there.append(self.filter.fill_null(value=False))
        if not there:
            return self.made.add_sum(name, pl.Int64(), pl.col(SIGN).sum())
        mask = pl.all_horizontal(there) if len(there) > 1 else there[0]
        counted = pl.when(mask).then(pl.col(SIGN)).otherwise(0) if self.signed else mask
        return self.made.add_sum(name, pl.Int64(), self.prepare(part, counted).sum())

    def sum(self, part: str, value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
        """Add an accumulator: the sum of a value."""
        taken = self.prepare(part, self.signed_value(value))
        zero = Decimal(0) if dtype.is_decimal() else 0
        return self.made.add_sum(self.name(part), dtype, taken.cast(dtype).sum(), zero)


def _plain_count(operands: tuple[Rex, ...]) -> bool:
    return not operands or (len(operands) == 1 and isinstance(operands[0], InputRef))


def sum_dtype(data_type: t.DataType) -> pl.DataType:
    """Return how a sum of values of this type is kept."""
    if isinstance(data_type, t.DecimalType):
        return pl.Decimal(38, data_type.scale)
    if isinstance(data_type, t.FloatType | t.DoubleType):
        return pl.Float64()
    return pl.Int64()


def _finish_number(value: pl.Expr, data_type: t.DataType) -> pl.Expr:
    """Return a number as the type of the result; whole numbers that do not fit wrap around, as in Java."""
    dtype = dtype_of(data_type)
    return value.cast(dtype, wrap_numerical=True) if dtype.is_integer() else value.cast(dtype)


def _count(making: _Making) -> pl.Expr:
    return making.count().cast(dtype_of(making.call.type))


def _sum(making: _Making) -> pl.Expr:
    total = making.sum("s", making.value(), sum_dtype(making.operand.type))
    if making.call.function != "SUM" or making.always_there:
        return _finish_number(total, making.call.type)
    count = making.count()
    return _finish_number(pl.when(count > 0).then(total), making.call.type)


def _average(making: _Making) -> pl.Expr:
    total = making.sum("s", making.value(), sum_dtype(making.operand.type))
    count = making.count()
    result = making.call.type
    if isinstance(result, t.DecimalType):
        return _decimal_average(total, count, result)
    if isinstance(result, t.IntegralType):
        quotient = (total.abs() // count) * total.sign()
        return pl.when(count > 0).then(_finish_number(quotient, result))
    return pl.when(count > 0).then(total.cast(pl.Float64) / count).cast(dtype_of(result))


def _decimal_average(total: pl.Expr, count: pl.Expr, result: t.DecimalType) -> pl.Expr:
    unit = Decimal(1).scaleb(-result.scale)
    dtype = dtype_of(result)

    def divide(pair: pl.Series) -> pl.Series:
        sums, counts = pair.struct.field("s").to_list(), pair.struct.field("n").to_list()
        values = [
            _DIGITS.divide(Decimal(s), n).quantize(unit, ROUND_HALF_UP, _DIGITS) if n > 0 else None
            for s, n in zip(sums, counts, strict=True)
        ]
        return pl.Series(pair.name, values, dtype=dtype)

    both = pl.struct(total.alias("s"), count.alias("n"))
    return both.map_batches(divide, return_dtype=dtype, is_elementwise=True)


def _spread(making: _Making) -> pl.Expr:
    """VAR_POP, VAR_SAMP and their roots, of the sums of values and of their squares."""
    value = making.value().cast(pl.Float64)
    total = making.sum("s", value, pl.Float64())
    squares = making.sum("q", value * value, pl.Float64())
    count = making.count()
    function = making.call.function
    sample = function in {"VAR_SAMP", "STDDEV_SAMP", "VARIANCE", "STDDEV"}
    apart = (squares - total * total / count).clip(lower_bound=0)
    least = 1 if sample else 0
    found: pl.Expr = pl.when(count > least).then(apart / (count - least))
    if function.startswith("STDDEV"):
        found = found.sqrt()
    return found.cast(dtype_of(making.call.type))


def _extreme(making: _Making) -> pl.Expr:
    name = making.name("m")
    dtype = dtype_of(making.operand.type)
    value = making.prepare("m", making.value())
    pair = [pl.col(name), pl.col(older(name))]
    if making.call.function == "MIN":
        steps = value.min(), pl.col(name).min(), pl.min_horizontal(pair)
    else:
        steps = value.max(), pl.col(name).max(), pl.max_horizontal(pair)
    return making.made.add_choice(name, dtype, *steps).cast(dtype_of(making.call.type))


def _first_or_last(making: _Making) -> pl.Expr:
    name = making.name("v")
    dtype = dtype_of(making.operand.type)
    value = making.prepare("v", making.value())
    new, before = pl.col(name), pl.col(older(name))
    if making.call.function == "FIRST_VALUE":
        steps = value.drop_nulls().first(), new.drop_nulls().first(), pl.coalesce(before, new)
    else:
        steps = value.drop_nulls().last(), new.drop_nulls().last(), pl.coalesce(new, before)
    return making.made.add_choice(name, dtype, *steps).cast(dtype_of(making.call.type))


# function -> its builder, and whether it supports retraction
_FUNCTIONS: Final[dict[str, tuple[Callable[[_Making], pl.Expr], bool]]] = {
    "COUNT": (_count, True),
    "SUM": (_sum, True),
    "SUM0": (_sum, True),
    "$SUM0": (_sum, True),
    "AVG": (_average, True),
    "STDDEV_POP": (_spread, True),
    "STDDEV_SAMP": (_spread, True),
    "STDDEV": (_spread, True),
    "VAR_POP": (_spread, True),
    "VAR_SAMP": (_spread, True),
    "VARIANCE": (_spread, True),
    "MIN": (_extreme, False),
    "MAX": (_extreme, False),
    "FIRST_VALUE": (_first_or_last, False),
    "LAST_VALUE": (_first_or_last, False),
}


def is_in_columns(call: AggregateCall, retracts: bool) -> bool:
    """Whether a call, ignoring DISTINCT, can be computed in columns."""
    known = _FUNCTIONS.get(call.function)
    if known is None or call.user is not None or (retracts and not known[1]):
        return False
    # Intervals are numbers; other non-numeric values have no sum.
    if call.function in {"MIN", "MAX"}:
        return not isinstance(call.operands[0].type, t.BinaryType | t.VarBinaryType)
    return not call.order


def is_mergeable(call: AggregateCall, retracts: bool) -> bool:
    """Whether a call can be computed in two phases: accumulators before the exchange, their sums after it."""
    return is_in_columns(call, retracts) and not call.distinct


def column_aggregate(
    call: AggregateCall, index: int, *, signed: bool, zone: str
) -> ColumnAggregate:
    """Return a call in columns; its accumulators have names with its index."""
    making = _Making(call, index, signed, zone)
    making.made.finish = _FUNCTIONS[call.function][0](making)
    return making.made
