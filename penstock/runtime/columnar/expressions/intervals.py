"""Dates and times plus and minus intervals, and arithmetic of intervals."""

from __future__ import annotations

import polars as pl

from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions.compiler import ExpressionCompiler
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import Call

_DAY_MS = 86_400_000


def time_arithmetic(
    compiler: ExpressionCompiler, call: Call, left: pl.Expr, right: pl.Expr
) -> pl.Expr | None:
    """Return the result if the operands are times or intervals, None if they are numbers."""
    first, second = (each.type for each in call.operands)
    if ty.is_interval(first):
        return _of_intervals(call, left, right, second)
    if not ty.is_time_point(first):
        return None
    if ty.is_interval(second):
        amount = right if call.function == "+" else -right
        return shifted(compiler, left, first, amount, second, call.type)
    return _difference(left, right, first, call.type)


def _of_intervals(call: Call, left: pl.Expr, right: pl.Expr, second: t.DataType) -> pl.Expr:
    if call.function in {"+", "-"}:
        return left + right if call.function == "+" else left - right
    months = isinstance(call.type, t.YearMonthIntervalType)
    numbers = left if months else left.to_physical()
    dtype = pl.Int32() if months else pl.Int64()
    if ty.is_integer(second):
        factor = right.cast(dtype)
        made = numbers * factor if call.function == "*" else numbers.truncdiv(factor)
    else:
        factor = right.cast(pl.Float64())
        real = numbers.cast(pl.Float64()) * factor if call.function == "*" else numbers / factor
        made = real.truncate().cast(dtype)
    return made if months else made.cast(pl.Duration("ms"))


def shifted(
    compiler: ExpressionCompiler,
    point: pl.Expr,
    point_type: t.DataType,
    amount: pl.Expr,
    interval: t.DataType,
    target: t.DataType,
) -> pl.Expr:
    """Return a date or time plus an interval. Points in time are shifted by months in local time."""
    dtype = dtype_of(target)
    if isinstance(interval, t.DayTimeIntervalType):
        if isinstance(point_type, t.TimeType):
            nanos = amount.dt.total_milliseconds() * 1_000_000
            return ((point.to_physical() + nanos) % (_DAY_MS * 1_000_000)).cast(pl.Time())
        if isinstance(target, t.DateType):
            days = amount.dt.total_milliseconds().truncdiv(_DAY_MS)
            return (point.to_physical() + days).cast(pl.Int32()).cast(pl.Date())
        if isinstance(point_type, t.DateType):
            point = point.cast(pl.Datetime("ms"))
        return (point.cast(dtype) + amount.cast(pl.Duration(dtype.time_unit))).cast(dtype)  # type: ignore[attr-defined]
    if isinstance(point_type, t.TimeType):
        return point
    offset = pl.concat_str([amount.cast(pl.String()), pl.lit("mo")])
    if isinstance(point_type, t.LocalZonedTimestampType):
        return compiler.zone.to_instant(compiler.zone.to_local(point).dt.offset_by(offset))
    return point.dt.offset_by(offset)


def _difference(left: pl.Expr, right: pl.Expr, kind: t.DataType, target: t.DataType) -> pl.Expr:
    if isinstance(target, t.YearMonthIntervalType):
        return months_between(right, left, kind).cast(pl.Int32())
    if isinstance(kind, t.TimeType):
        nanos = left.to_physical() - right.to_physical()
        return nanos.truncdiv(1_000_000).cast(pl.Duration("ms"))
    if isinstance(kind, t.DateType):
        days = (left.to_physical() - right.to_physical()).cast(pl.Int64())
        return (days * _DAY_MS).cast(pl.Duration("ms"))
    return (left - right).cast(pl.Duration("ms"))


def months_between(start: pl.Expr, end: pl.Expr, kind: t.DataType) -> pl.Expr:
    """Return how many months lie between two points, negative if the end is before the start."""
    if isinstance(kind, t.LocalZonedTimestampType):
        start, end = start.dt.replace_time_zone(None), end.dt.replace_time_zone(None)
    if isinstance(kind, t.DateType):
        start, end = start.cast(pl.Datetime("ms")), end.cast(pl.Datetime("ms"))

    days = [each.dt.truncate("1d") for each in (start, end)]
    backwards = days[1] < days[0]
    first = pl.when(backwards).then(days[1]).otherwise(days[0])
    last = pl.when(backwards).then(days[0]).otherwise(days[1])
    months = _months(last) - _months(first)
    whole = months - (_months_later(first, months) > last).cast(pl.Int64())
    between = pl.when(backwards).then(-whole).otherwise(whole)
    # Flink looks at the time of day only where months lead from one day to the other, and then counts down, backwards too.
    same_day = _months_later(days[0], between) == days[1]
    return between - (same_day & (end.dt.time() < start.dt.time())).cast(pl.Int64())


def _months(point: pl.Expr) -> pl.Expr:
    return point.dt.year().cast(pl.Int64()) * 12 + point.dt.month().cast(pl.Int64())


def _months_later(point: pl.Expr, months: pl.Expr) -> pl.Expr:
    return point.dt.offset_by(pl.concat_str([months.cast(pl.String()), pl.lit("mo")]))
