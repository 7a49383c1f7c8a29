"""CAST and TRY_CAST between all types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from penstock.errors import RecordError
from penstock.runtime.columnar.dtypes import dtype_of, time_unit
from penstock.runtime.columnar.expressions import from_text
from penstock.runtime.columnar.expressions.as_text import double_text, text_expression
from penstock.runtime.columnar.expressions.compiler import (
    ExpressionCompiler,
    compiles,
    mostly,
    rowwise,
)
from penstock.runtime.columnar.expressions.decimals import (
    decimal_result,
    fitting,
    rescaled,
    scale_of,
    scaled,
)
from penstock.runtime.columnar.values import MICROS
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import Call
from penstock.time.nanoseconds import FIRST_MICROS, LAST_MICROS

_MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}
_EXACT = 1e12  # up to here, the error of a product is far below what counts as clear
_LIMITS = {pl.Int32(): 2**31, pl.Int64(): 2**63}


@compiles("CAST", "TRY_CAST")
def _cast(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    (value,) = compiler.operands(call)
    safe = call.function == "TRY_CAST"
    return cast_expression(compiler, value, call.operands[0].type, call.type, safe=safe)


def cast_expression(
    compiler: ExpressionCompiler,
    value: pl.Expr,
    source: t.DataType,
    target: t.DataType,
    *,
    safe: bool,
) -> pl.Expr:
    """Cast values from one type to another. Values that cannot be cast fail, or become NULL if `safe`."""
    if source.nullable() == target.nullable():
        return value
    if isinstance(source, t.NullType):
        return pl.lit(None, dtype=dtype_of(target))
    if ty.is_text(target):
        return _to_text(compiler, value, source, target)
    if ty.is_text(source):
        return _from_text(compiler, value, target, safe)
    if ty.is_binary(target):
        return _sized_bytes(value, target)
    if isinstance(source, t.NumericType | t.BooleanType):
        return _from_number(value, source, target)
    if ty.is_time_point(source):
        return _from_time(compiler, value, source, target)
    if ty.is_interval(source):
        return value
    return _of_parts(compiler, value, source, target, safe)


# --- text and bytes ----------------------------------------------------------------------------------


def _to_text(
    compiler: ExpressionCompiler, value: pl.Expr, source: t.DataType, target: t.DataType
) -> pl.Expr:
    text = text_expression(compiler, value, source)
    length: int = target.length  # type: ignore[attr-defined]
    longest = source.length if isinstance(source, t.CharType | t.VarCharType) else t.LONGEST
    if length < longest:
        text = text.str.slice(0, length)
    if isinstance(target, t.CharType) and not (
        isinstance(source, t.CharType) and source.length >= length
    ):
        text = text.str.pad_end(length)
    return text


def _sized_bytes(value: pl.Expr, target: t.DataType) -> pl.Expr:
    length: int = target.length  # type: ignore[attr-defined]
    if length == t.LONGEST:
        return value
    fixed = isinstance(target, t.BinaryType)

    def sized(given: bytes) -> bytes:
        return given[:length].ljust(length, b"\0") if fixed else given[:length]

    return rowwise(sized, [value], target)


def _from_text(
    compiler: ExpressionCompiler, text: pl.Expr, target: t.DataType, safe: bool
) -> pl.Expr:
    if ty.is_binary(target):
        return _sized_bytes(text.cast(pl.Binary()), target)
    made = _read(compiler, text, target)
    return made if safe else _checked(made, text, target)


def _read(compiler: ExpressionCompiler, text: pl.Expr, target: t.DataType) -> pl.Expr:
    if ty.is_integer(target):
        return from_text.integers(text, dtype_of(target))
    if isinstance(target, t.DecimalType):
        quick = from_text.plain_decimals(text, target)
        return mostly(quick, lambda value: from_text.decimal(value, target), text, target)
    if isinstance(target, t.DateType):
        return mostly(from_text.plain_dates(text), from_text.date, text, target)
    if ty.is_approximate(target):
        reals = mostly(from_text.plain_reals(text), from_text.real, text, ty.DOUBLE)
        return reals.cast(dtype_of(target))
    if ty.is_timestamp(target):
        return _read_timestamp(compiler, text, target)
    readers: dict[type[t.DataType], Callable[[str], Any]] = {
        t.BooleanType: from_text.boolean,
        t.TimeType: from_text.time,
    }
    made = rowwise(readers[type(target)], [text], target)
    return _time_of_precision(made, target) if isinstance(target, t.TimeType) else made


def _read_timestamp(compiler: ExpressionCompiler, text: pl.Expr, target: t.DataType) -> pl.Expr:
    precision: int = target.precision  # type: ignore[attr-defined]
    if isinstance(target, t.TimestampType):
        return _to_precision(local_times(text, precision), precision)

    def with_offset(value: str) -> int | None:
        found = from_text.zoned(value)
        if found is None:
            return None
        nanos = from_text.nanoseconds(found[0])
        return None if nanos is None else (nanos - found[1] * 1_000_000_000) // size

    unit: Any = "ns" if precision > MICROS else "us"
    size = 1 if precision > MICROS else 1000
    local = compiler.zone.to_instant(local_times(text, precision))
    left = pl.when(local.is_null()).then(text)
    exact = rowwise(with_offset, [left], ty.BIGINT).cast(pl.Datetime(unit, "UTC"))
    return _to_precision(pl.coalesce(exact, local), precision)


def local_times(text: pl.Expr, precision: int = 6) -> pl.Expr:
    """Parse texts as timestamps; NULL for those that are invalid."""
    fine = precision > MICROS
    quick = from_text.plain_times(text, "ns" if fine else "us")
    slow = from_text.nanoseconds if fine else from_text.microseconds
    return mostly(quick, slow, text, ty.BIGINT).cast(pl.Datetime("ns" if fine else "us"))


def _checked(made: pl.Expr, given: pl.Expr, target: t.DataType) -> pl.Expr:
    """Return `made`; computing it fails where it is NULL though something was given."""
    shown = target.nullable()

    def check(columns: Sequence[pl.Series]) -> pl.Series:
        result, texts = columns
        failed = result.is_null() & texts.is_not_null()
        if failed.any():
            text = (texts.filter(failed) if len(texts) == len(failed) else texts)[0]
            raise RecordError(
                f"cannot cast {text!r} to {shown}",
                hint=f"TRY_CAST(... AS {shown}) returns NULL instead",
            )
        return result

    return pl.map_batches([made, given], check, return_dtype=dtype_of(target), is_elementwise=True)


# --- numbers -----------------------------------------------------------------------------------------


def _from_number(value: pl.Expr, source: t.DataType, target: t.DataType) -> pl.Expr:
    if isinstance(target, t.BooleanType):
        return value != 0
    if isinstance(target, t.DayTimeIntervalType):
        unit = _MILLIS[target.resolution.name.rpartition("_")[2]]
        return (value.cast(pl.Int64()) * unit).cast(pl.Duration("ms"))
    if isinstance(target, t.YearMonthIntervalType):
        months = 12 if target.resolution.name == "YEAR" else 1
        return value.cast(pl.Int32(), wrap_numerical=True) * months
    if isinstance(target, t.DecimalType):
        return _to_decimal(value, source, target)
    dtype = dtype_of(target)
    if ty.is_approximate(target) or isinstance(source, t.BooleanType):
        return value.cast(dtype)
    if ty.is_approximate(source):
        return _cut_off(value, dtype)
    if isinstance(source, t.DecimalType):
        value = value.to_physical().truncdiv(pl.lit(10 ** scale_of(source), dtype=pl.Int128()))
    return value.cast(dtype, strict=False, wrap_numerical=True)


def _cut_off(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return floating-point numbers as whole ones as Java does: the nearest if they are too big, zero for NaN."""
    wide: Any = pl.Int64() if dtype == pl.Int64() else pl.Int32()
    limit = _LIMITS[wide]
    made = (
        pl.when(value.is_nan())
        .then(pl.lit(0, dtype=wide))
        .when(value >= float(limit))
        .then(pl.lit(limit - 1, dtype=wide))
        .when(value < -float(limit))
        .then(pl.lit(-limit, dtype=wide))
        .otherwise(value.cast(wide, strict=False))
    )
    return made if dtype == wide else made.cast(dtype, wrap_numerical=True)


def _to_decimal(value: pl.Expr, source: t.DataType, target: t.DecimalType) -> pl.Expr:
    if isinstance(source, t.BooleanType):
        return rescaled(value.cast(pl.Int8()), t.TinyIntType(), target)
    if not ty.is_approximate(source):
        return rescaled(value, source, target)

    def exact(number: float) -> Decimal | None:
        if not math.isfinite(number):
            return None
        return decimal_result(Decimal(double_text(number)), target)

    quick = scaled(
        fitting(clear_rounding(value, target.scale).cast(pl.Int128()), target.precision),
        target.scale,
    )
    return mostly(quick, exact, value, target)


def clear_rounding(value: pl.Expr, digits: int) -> pl.Expr:
    """Return numbers times a power of ten, rounded half up; NULL where the nearest whole number is not beyond doubt, or too big."""
    moved = value.cast(pl.Float64()) * 10.0**digits
    size = moved.abs()
    part = size - size.floor()
    clear = ((part - 0.5).abs() > size * 1e-14 + 1e-9) & (size < _EXACT)
    return pl.when(clear).then(((size + 0.5).floor() * moved.sign()).cast(pl.Int64(), strict=False))


# --- times -------------------------------------------------------------------------------------------


def _from_time(
    compiler: ExpressionCompiler, value: pl.Expr, source: t.DataType, target: t.DataType
) -> pl.Expr:
    if isinstance(source, t.LocalZonedTimestampType) and not isinstance(
        target, t.LocalZonedTimestampType
    ):
        value = compiler.zone.to_local(value)
    if isinstance(target, t.DateType):
        return value.dt.date()
    if isinstance(target, t.TimeType):
        made = value if isinstance(source, t.TimeType) else value.dt.time()
        return _time_of_precision(made, target)
    precision: int = target.precision  # type: ignore[attr-defined]
    if isinstance(source, t.DateType):
        value = value.cast(pl.Datetime("ms"))
    elif isinstance(source, t.TimeType):
        value = value.to_physical().cast(pl.Datetime("ns"))
    if isinstance(target, t.LocalZonedTimestampType) and not isinstance(
        source, t.LocalZonedTimestampType
    ):
        value = compiler.zone.to_instant(value)
    before = getattr(source, "precision", 0)
    return _to_precision(value, precision, before)


def _to_precision(value: pl.Expr, precision: int, before: int = 9) -> pl.Expr:
    """Truncate timestamps to a number of fractional digits."""
    if precision < before and precision not in {3, 6, 9}:
        step = {0: "1s", 1: "100ms", 2: "10ms", 4: "100us", 5: "10us", 7: "100ns", 8: "10ns"}
        value = value.dt.truncate(step[precision])
    if precision > MICROS and before <= MICROS:
        return value.map_batches(_in_nanoseconds, return_dtype=None, is_elementwise=True)
    return value.dt.cast_time_unit(time_unit(precision))


def _in_nanoseconds(values: pl.Series) -> pl.Series:
    """Return times in nanoseconds, of which 64 bits reach from 1677 to 2262: numbers beyond that range would wrap around."""
    micros = values.dt.cast_time_unit("us").to_physical()
    beyond = ~micros.is_between(FIRST_MICROS, LAST_MICROS)
    if beyond.any():
        raise RecordError(
            f"timestamp {values.filter(beyond)[0]} is out of range for nanosecond precision",
            detail="columns with a precision above 6 cover the years 1678 to 2261",
            hint="use a precision of 6 or less",
        )
    return values.dt.cast_time_unit("ns")


def _time_of_precision(value: pl.Expr, target: t.TimeType) -> pl.Expr:
    unit: int = 10 ** (9 - target.precision)
    if unit == 1:
        return value
    numbers = value.to_physical()
    return (numbers - numbers % unit).cast(pl.Time())


# --- arrays, maps, rows ------------------------------------------------------------------------------


def _of_parts(
    compiler: ExpressionCompiler, value: pl.Expr, source: t.DataType, target: t.DataType, safe: bool
) -> pl.Expr:
    if dtype_of(source) == dtype_of(target) and not _narrows(source, target):
        return value
    made = _parts(compiler, value, source, target, safe)
    if not safe:
        return made
    # one part that cannot be converted makes the whole NULL
    return pl.when(_nulls(value, source) == _nulls(made, target)).then(made)


def _nulls(value: pl.Expr, data_type: t.DataType) -> pl.Expr:
    """Return how many NULLs are inside."""
    if isinstance(data_type, t.RowType):
        fields = [value.struct.field(name).is_null() for name in data_type.names]
        return pl.sum_horizontal(fields)
    if isinstance(data_type, t.MapType | t.MultisetType):
        parts = [pl.element().struct.field(name).is_null() for name in ("key", "value")]
        return value.list.eval(pl.sum_horizontal(parts)).list.sum()
    return value.list.eval(pl.element().is_null()).list.sum()


def _parts(
    compiler: ExpressionCompiler, value: pl.Expr, source: t.DataType, target: t.DataType, safe: bool
) -> pl.Expr:
    if isinstance(source, t.RowType) and isinstance(target, t.RowType):
        return _row(compiler, value, source, target, safe)
    before, after = ty.parts_of(source), ty.parts_of(target)
    element = pl.element()
    if isinstance(source, t.ArrayType | t.MultisetType) and isinstance(source, t.ArrayType):
        return value.list.eval(cast_expression(compiler, element, before[0], after[0], safe=safe))
    key = cast_expression(compiler, element.struct.field("key"), before[0], after[0], safe=safe)
    count = element.struct.field("value")
    if len(before) == 2:
        count = cast_expression(compiler, count, before[1], after[1], safe=safe)
    return value.list.eval(pl.struct(key.alias("key"), count.alias("value")))


def _narrows(source: t.DataType, target: t.DataType) -> bool:
    parts = list(zip(ty.parts_of(source), ty.parts_of(target), strict=True))
    if not parts:
        return source.nullable() != target.nullable()
    return any(_narrows(one, other) for one, other in parts)


def _row(
    compiler: ExpressionCompiler, value: pl.Expr, source: t.RowType, target: t.RowType, safe: bool
) -> pl.Expr:
    fields = [
        cast_expression(
            compiler, value.struct.field(before.name), before.data_type, after.data_type, safe=safe
        ).alias(after.name)
        for before, after in zip(source, target, strict=True)
    ]
    return pl.when(value.is_not_null()).then(pl.struct(fields))
