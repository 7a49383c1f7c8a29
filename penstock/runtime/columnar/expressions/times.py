"""Functions of dates, times and points in time.

`penstock.sql.expr.functions.times` has their signatures. Patterns of DATE_FORMAT and TO_TIMESTAMP: `penstock.sql.expr.java_date_patterns`
parses them, `java_time` beside this module formats and reads times by them. `zones` has time zones, `from_text` and `casts` the casts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import polars as pl

from penstock.errors import ArgumentError, RecordError, UnsupportedOperationError
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import from_text
from penstock.runtime.columnar.expressions.casts import cast_expression, local_times
from penstock.runtime.columnar.expressions.compiler import (
    ExpressionCompiler,
    compiles,
    literal,
    mostly,
    rowwise,
)
from penstock.runtime.columnar.expressions.intervals import months_between, shifted
from penstock.runtime.columnar.expressions.java_time import (
    formatted,
    parsed,
    shows_zone,
    strftime_of,
    unit_of,
)
from penstock.runtime.columnar.expressions.zones import Zone
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import (
    Call,
    Literal,
    Rex,
    Symbol,
)

_STANDARD = "yyyy-MM-dd HH:mm:ss"
_DAY_MS = 86_400_000
_PER_DAY = {"ms": _DAY_MS, "us": _DAY_MS * 1_000, "ns": _DAY_MS * 1_000_000}


def _symbol(call: Call, at: int) -> str:
    found = call.operands[at]
    assert isinstance(found, Symbol)
    return found.name


def _local(compiler: ExpressionCompiler, rex: Rex) -> pl.Expr:
    """Return a date or time as a local time: points in time in the session time zone."""
    value = compiler.compile(rex)
    return (
        compiler.zone.to_local(value) if isinstance(rex.type, t.LocalZonedTimestampType) else value
    )


# --- EXTRACT -----------------------------------------------------------------------------------------

_PARTS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "MILLENNIUM": lambda value: (value.dt.year() - 1) // 1000 + 1,
    "CENTURY": lambda value: (value.dt.year() - 1) // 100 + 1,
    "DECADE": lambda value: value.dt.year() // 10,
    "YEAR": lambda value: value.dt.year(),
    "ISOYEAR": lambda value: value.dt.iso_year(),
    "QUARTER": lambda value: value.dt.quarter(),
    "MONTH": lambda value: value.dt.month(),
    "WEEK": lambda value: value.dt.week(),
    "DAY": lambda value: value.dt.day(),
    "DOW": lambda value: value.dt.weekday() % 7 + 1,
    "ISODOW": lambda value: value.dt.weekday(),
    "DOY": lambda value: value.dt.ordinal_day(),
    "HOUR": lambda value: value.dt.hour(),
    "MINUTE": lambda value: value.dt.minute(),
    "SECOND": lambda value: value.dt.second(),
    "MILLISECOND": lambda value: value.dt.millisecond(),
    "MICROSECOND": lambda value: value.dt.microsecond(),
    "NANOSECOND": lambda value: value.dt.nanosecond(),
}
_CLOCK = {"HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND"}


@compiles("EXTRACT")
def _extract(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    unit, operand = _symbol(call, 0), call.operands[1]
    value = _local(compiler, operand)
    if ty.is_interval(operand.type):
        return _interval_part(value, operand.type, unit)
    if unit == "EPOCH":
        return _epoch_seconds(compiler.compile(operand), operand.type)
    if isinstance(operand.type, t.DateType) and unit in _CLOCK:
        return pl.when(value.is_not_null()).then(pl.lit(0, dtype=pl.Int64()))
    if isinstance(operand.type, t.TimeType) and unit not in _CLOCK:
        raise ArgumentError(f"cannot extract {unit} from TIME")
    return _PARTS[unit](value).cast(pl.Int64())


def _interval_part(value: pl.Expr, source: t.DataType, unit: str) -> pl.Expr:
    if isinstance(source, t.YearMonthIntervalType):
        made = {"YEAR": value.truncdiv(12), "MONTH": value - value.truncdiv(12) * 12}.get(unit)
    else:
        ms = value.dt.total_milliseconds()
        sizes = {
            "DAY": _DAY_MS,
            "HOUR": 3_600_000,
            "MINUTE": 60_000,
            "SECOND": 1_000,
            "MILLISECOND": 1,
        }
        above = {"HOUR": _DAY_MS, "MINUTE": 3_600_000, "SECOND": 60_000, "MILLISECOND": 60_000}
        made = None
        if unit in sizes:
            rest = ms - ms.truncdiv(above[unit]) * above[unit] if unit in above else ms
            made = rest.truncdiv(sizes[unit])
        elif unit == "EPOCH":
            made = ms.truncdiv(1000)
    if made is None:
        raise ArgumentError(f"cannot extract {unit} from {source}")
    return made.cast(pl.Int64())


def _epoch_seconds(value: pl.Expr, source: t.DataType) -> pl.Expr:
    if isinstance(source, t.TimeType):
        return value.to_physical() // 1_000_000_000
    if isinstance(source, t.DateType):
        return value.cast(pl.Datetime("ms")).dt.epoch("s").cast(pl.Int64())
    return value.dt.epoch("s").cast(pl.Int64())


# --- FLOOR and CEIL ----------------------------------------------------------------------------------

_EVERY = {
    "YEAR": "1y",
    "QUARTER": "1q",
    "MONTH": "1mo",
    "DAY": "1d",
    "HOUR": "1h",
    "MINUTE": "1m",
    "SECOND": "1s",
    "MILLISECOND": "1ms",
    "MICROSECOND": "1us",
    "NANOSECOND": "1ns",
}
_YEARS = {"MILLENNIUM": 1000, "CENTURY": 100, "DECADE": 10}


def floor_time(compiler: ExpressionCompiler, call: Call, *, up: bool) -> pl.Expr:
    """Return FLOOR(point TO unit) or CEIL."""
    unit, operand = _symbol(call, 1), call.operands[0]
    if isinstance(operand.type, t.TimeType):
        return _floor_clock(compiler.compile(operand), unit, up)
    value = _local(compiler, operand)
    if isinstance(operand.type, t.DateType) and unit in _CLOCK:
        return value
    floored = _floored(value, unit)
    if up:
        step = f"{_YEARS[unit]}y" if unit in _YEARS else "1w" if unit == "WEEK" else _EVERY[unit]
        floored = pl.when(floored == value).then(value).otherwise(floored.dt.offset_by(step))
    made = floored.cast(value_dtype(call.type))
    return (
        compiler.zone.to_instant(made)
        if isinstance(operand.type, t.LocalZonedTimestampType)
        else made
    )


def value_dtype(data_type: t.DataType) -> pl.DataType:
    """Return the dtype of local times of a type."""
    found = dtype_of(data_type)
    return pl.Datetime(found.time_unit) if isinstance(found, pl.Datetime) else found


def _floored(value: pl.Expr, unit: str) -> pl.Expr:
    if unit == "WEEK":  # weeks start on Sunday
        day = value.dt.truncate("1d")
        back = (value.dt.weekday() % 7).cast(pl.Int64())
        return day - pl.duration(days=back)
    if unit in _YEARS:
        size = _YEARS[unit]
        year = value.dt.year()
        first = year - (year if unit == "DECADE" else year - 1) % size
        return value.dt.truncate("1y").dt.offset_by(
            pl.concat_str([(first - year).cast(pl.String()), pl.lit("y")])
        )
    return value.dt.truncate(_EVERY[unit])


def _floor_clock(value: pl.Expr, unit: str, up: bool) -> pl.Expr:
    size = {"HOUR": 3_600, "MINUTE": 60, "SECOND": 1}.get(unit)
    if size is None:
        return value
    nanos = size * 1_000_000_000
    numbers = value.to_physical()
    floored = -((-numbers) // nanos) if up else numbers // nanos
    return (floored * nanos % (_DAY_MS * 1_000_000)).cast(pl.Time())


# --- TIMESTAMPADD and TIMESTAMPDIFF ------------------------------------------------------------------

_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLIS = {
    "WEEK": 7 * _DAY_MS,
    "DAY": _DAY_MS,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1_000,
}


@compiles("TIMESTAMPADD")
def _timestamp_add(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    unit = _symbol(call, 0)
    count, point = compiler.operands(call)
    source = call.operands[2].type
    if unit in _MONTHS:
        amount = count * _MONTHS[unit]
        return shifted(compiler, point, source, amount, t.YearMonthIntervalType(), call.type)
    millis = count.cast(pl.Int64()) * _MILLIS[unit]
    span = millis.cast(pl.Duration("ms"))
    return shifted(compiler, point, source, span, t.DayTimeIntervalType(), call.type)


@compiles("TIMESTAMPDIFF")
def _timestamp_diff(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    unit = _symbol(call, 0)
    start, end = compiler.operands(call)
    source = call.operands[1].type
    if unit in _MONTHS:
        made = months_between(start, end, source).truncdiv(_MONTHS[unit])
    else:
        made = _millis_between(start, end, source).truncdiv(_MILLIS[unit])
    return made.cast(pl.Int32(), wrap_numerical=True)


def _millis_between(start: pl.Expr, end: pl.Expr, source: t.DataType) -> pl.Expr:
    if isinstance(source, t.DateType):
        return (end.to_physical() - start.to_physical()).cast(pl.Int64()) * _DAY_MS
    if isinstance(source, t.TimeType):
        return (end.to_physical() - start.to_physical()).truncdiv(1_000_000)
    return (end - start).dt.total_milliseconds()


@compiles("OVERLAPS")
def _overlaps(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    a, b, c, d = compiler.operands(call)
    first, second = (pl.when(x <= y).then(x).otherwise(y) for x, y in ((a, b), (c, d)))
    first_end, second_end = (pl.when(x <= y).then(y).otherwise(x) for x, y in ((a, b), (c, d)))
    return (first_end >= second) & (second_end >= first)


# --- text --------------------------------------------------------------------------------------------


@compiles("DATE_FORMAT")
def _date_format(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    value, pattern = call.operands
    if isinstance(pattern, Literal) and pattern.value is None:
        return literal(None, call.type)
    if ty.is_text(value.type):
        local = local_times(compiler.compile(value)).dt.truncate("1s")
        return _simply_formatted(compiler, local, compiler.zone.to_instant(local), call)
    local = _local(compiler, value)
    if isinstance(pattern, Literal):
        return _formatted(local, pattern.value)
    return rowwise(_text, [local, compiler.compile(pattern)], call.type)


def _simply_formatted(
    compiler: ExpressionCompiler, local: pl.Expr, instant: pl.Expr, call: Call
) -> pl.Expr:
    """Return times as text by a pattern of SimpleDateFormat. Its letters for the zone show how far a local time is from UTC."""
    known, more = _pattern(compiler, call, 1, _STANDARD)
    if known is not None and not shows_zone(known):
        return _formatted(local, known, simple=True)
    offset = (local - instant.dt.replace_time_zone(None)).dt.total_seconds()

    def text(value: dt.datetime, seconds: int, pattern: str | None = known) -> str:
        assert pattern is not None
        zone = dt.timezone(dt.timedelta(seconds=seconds))
        return _text(value.replace(tzinfo=zone), pattern, simple=True)

    return rowwise(text, [local, offset, *more], call.type)


def _text(value: dt.datetime, pattern: str, *, simple: bool = False) -> str:
    try:
        return formatted(value, pattern, simple=simple)
    except ValueError as error:
        raise RecordError(
            f"cannot format a timestamp with the pattern '{pattern}': {error}"
        ) from None


def _formatted(local: pl.Expr, pattern: str, *, simple: bool = False) -> pl.Expr:
    form = strftime_of(pattern, simple=simple)
    if form is None:
        return rowwise(lambda value: _text(value, pattern, simple=simple), [local], ty.STRING)
    unit = unit_of(pattern, simple=simple)
    if unit == "exact":
        return local.dt.strftime(form)

    def few(values: pl.Series) -> pl.Series:
        """Format each day or minute once: rows of one batch are of few of them."""
        assert isinstance(values.dtype, pl.Datetime)
        size = _PER_DAY[values.dtype.time_unit] // (1 if unit == "day" else 1440)
        starts = values.to_physical() // size
        different = starts.unique().drop_nulls()
        if len(different) * 4 > len(values):
            return values.dt.strftime(form)
        texts = (different * size).cast(values.dtype).dt.strftime(form)
        return starts.replace_strict(different, texts, default=None, return_dtype=pl.String())

    return local.map_batches(few, return_dtype=pl.String(), is_elementwise=True)


def _pattern(
    compiler: ExpressionCompiler, call: Call, at: int, default: str
) -> tuple[str | None, list[pl.Expr]]:
    """Return the pattern if it is constant, else its expression."""
    if len(call.operands) <= at:
        return default, []
    given = call.operands[at]
    if isinstance(given, Literal) and given.value is not None:
        return given.value, []
    return None, [compiler.compile(given)]


def _parser(known: str | None, *, lenient: bool = False) -> Callable[..., int | None]:
    def parse(text: str, pattern: str | None = None) -> int | None:
        form = known if known is not None else pattern
        found = None if form is None else parsed(text, form, lenient=lenient)
        return None if found is None else found // 1000  # microseconds

    return parse


@compiles("TO_DATE")
def _to_date(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    text = compiler.compile(call.operands[0])
    if len(call.operands) == 1:
        return mostly(from_text.plain_dates(text), from_text.date, text, call.type)
    known, more = _pattern(compiler, call, 1, "yyyy-MM-dd")
    micros = rowwise(_parser(known, lenient=True), [text, *more], ty.BIGINT)
    return micros.cast(pl.Datetime("us")).dt.date()


@compiles("TO_TIMESTAMP")
def _to_timestamp(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    text = compiler.compile(call.operands[0])
    return _timestamps(compiler, call, text).dt.cast_time_unit("ms")


def _timestamps(compiler: ExpressionCompiler, call: Call, text: pl.Expr) -> pl.Expr:
    if len(call.operands) == 1:
        return local_times(text)
    known, more = _pattern(compiler, call, 1, _STANDARD)
    parse = _parser(known)

    def read(value: str, pattern: str | None = None) -> int | None:
        found = parse(value, pattern)
        return (
            from_text.microseconds(value.strip()) if found is None else found
        )  # the usual form, too

    if known == _STANDARD:  # without a fraction, which that pattern does not take
        quick = from_text.plain_times(text, "us")
        return mostly(quick, read, text, ty.BIGINT).cast(pl.Datetime("us"))
    return rowwise(read, [text, *more], ty.BIGINT).cast(pl.Datetime("us"))


@compiles("TO_TIMESTAMP_LTZ")
def _to_timestamp_ltz(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    first = call.operands[0]
    if ty.is_text(first.type):
        local = _timestamps(compiler, call, compiler.compile(first)).dt.cast_time_unit("ms")
        zone = compiler.zone
        if len(call.operands) == 3:
            given = call.operands[2]
            assert isinstance(given, Literal)  # checked when the call was typed
            zone = Zone(given.value).check()
        return zone.to_instant(local)
    number = compiler.compile(first)
    precision = call.operands[1] if len(call.operands) > 1 else Literal(ty.INT, 3)
    assert isinstance(precision, Literal)  # checked when the call was typed
    dtype = dtype_of(call.type)
    assert isinstance(dtype, pl.Datetime)
    digits = {"ms": 3, "us": 6, "ns": 9}[dtype.time_unit]
    factor: int = 10 ** (digits - precision.value)
    if ty.is_approximate(first.type):
        number = number * float(factor)
        factor = 1
    whole = cast_expression(compiler, number, first.type, ty.BIGINT, safe=True)
    return (whole * factor).cast(dtype)


@compiles("UNIX_TIMESTAMP")
def _unix_timestamp(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    if not call.operands:
        return pl.lit(None, dtype=pl.Int64()).fill_null(_now_expression("s"))
    text = compiler.compile(call.operands[0])
    known, more = _pattern(compiler, call, 1, _STANDARD)
    micros = rowwise(_parser(known, lenient=True), [text, *more], ty.BIGINT)
    instant = compiler.zone.to_instant(micros.cast(pl.Datetime("us")), latest=True)
    seconds = instant.dt.epoch("s").cast(pl.Int64())
    return pl.when(text.is_not_null()).then(seconds.fill_null(-(2**63)))


@compiles("FROM_UNIXTIME")
def _from_unixtime(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    seconds = compiler.compile(call.operands[0])
    instant = (seconds * 1000).cast(pl.Datetime("ms", "UTC"))
    return _simply_formatted(compiler, compiler.zone.to_local(instant), instant, call)


@compiles("CONVERT_TZ")
def _convert_tz(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    text, source, target = call.operands
    local = local_times(compiler.compile(text))
    if isinstance(source, Literal) and isinstance(target, Literal):
        if source.value is None or target.value is None:
            return literal(None, call.type)
        instant = Zone(source.value).check().to_instant(local)
        return Zone(target.value).check().to_local(instant).dt.strftime("%Y-%m-%d %H:%M:%S")

    def convert(moment: dt.datetime, first: str, second: str) -> str:
        placed = pl.lit(moment, dtype=pl.Datetime("us"))
        made = Zone(second).check().to_local(Zone(first).check().to_instant(placed))
        return str(pl.select(made.dt.strftime("%Y-%m-%d %H:%M:%S")).item())

    return rowwise(convert, [local, compiler.compile(source), compiler.compile(target)], call.type)


# --- now ---------------------------------------------------------------------------------------------


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _now_expression(unit: str) -> pl.Expr:
    def now(rows: pl.Series) -> pl.Series:
        seconds = int(_now().timestamp() * (1 if unit == "s" else 1000))
        return pl.Series([seconds], dtype=pl.Int64()).new_from_index(0, len(rows))

    return pl.int_range(pl.len()).map_batches(now, return_dtype=pl.Int64())


@compiles("CURRENT_TIMESTAMP", "NOW", "CURRENT_ROW_TIMESTAMP", "PROCTIME")
def _current(_: ExpressionCompiler, __: Call) -> pl.Expr:
    return _now_expression("ms").cast(pl.Datetime("ms", "UTC"))


@compiles("LOCALTIMESTAMP")
def _local_timestamp(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    return compiler.zone.to_local(_current(compiler, call))


@compiles("CURRENT_DATE")
def _current_date(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    return _local_timestamp(compiler, call).dt.date()


@compiles("CURRENT_TIME", "LOCALTIME")
def _current_time(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    return _local_timestamp(compiler, call).dt.truncate("1s").dt.time()


@compiles("CURRENT_WATERMARK")
def _current_watermark(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    watermark = compiler.watermark
    if watermark is None:
        raise UnsupportedOperationError(
            "CURRENT_WATERMARK is only supported in SELECT and WHERE",
            hint="compute it as a column of a subquery",
        )
    dtype = dtype_of(call.type)

    def current(rows: pl.Series) -> pl.Series:
        value = watermark()
        return pl.Series([value], dtype=pl.Int64()).cast(dtype).new_from_index(0, len(rows))

    return pl.int_range(pl.len()).map_batches(current, return_dtype=dtype)
