"""Functions of dates, times and intervals."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.functions.definitions import (
    BIGINT,
    INTEGER,
    TEXT,
    TIME_POINT,
    TIMESTAMP,
    MessageWording,
    define,
    kinds,
    one_of,
    register,
    wrong_count,
    wrong_operand,
)
from penstock.sql.expr.functions.operators import comparable, shifted_type
from penstock.sql.expr.java_date_patterns import parts_of
from penstock.sql.expr.nodes import (
    Call,
    Literal,
    Rex,
    Symbol,
)

EXTRACTED = frozenset(
    [
        "MILLENNIUM",
        "CENTURY",
        "DECADE",
        "YEAR",
        "ISOYEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "DOW",
        "ISODOW",
        "DOY",
        "EPOCH",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
        "NANOSECOND",
    ]
)
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_SPANS = frozenset([*_MONTHS, "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"])
_SHORT = {
    "FRAC_SECOND": "MICROSECOND",
    "SQL_TSI_FRAC_SECOND": "NANOSECOND",
    "SQL_TSI_MICROSECOND": "MICROSECOND",
    **{f"SQL_TSI_{name}": name for name in _SPANS},
}
_FROM = kinds("date, time or interval", ty.is_time_point, ty.is_interval)


def unit_of(name: str, operands: Sequence[Rex], accepted: frozenset[str], usage: str) -> Symbol:
    """Return the unit that the first operand names."""
    unit = operands[0]
    if isinstance(unit, Symbol):
        canonical = _SHORT.get(unit.name.upper(), unit.name.upper())
        if canonical in accepted:
            return Symbol(unit.type, canonical)
    raise wrong_operand(name, 0, operands, usage)


def _extract(operands: Sequence[Rex], _: MessageWording) -> Rex:
    usage = "EXTRACT(unit FROM timestamp)"
    if len(operands) != 2:
        raise wrong_count("EXTRACT", operands, usage)
    unit = unit_of("EXTRACT", operands, EXTRACTED, usage)
    value = _FROM.convert(operands[1])
    if value is None:
        raise wrong_operand("EXTRACT", 1, operands, usage)
    return Call(ty.with_nullable(ty.BIGINT, value.type.is_nullable), "EXTRACT", (unit, value))


register("EXTRACT", "EXTRACT(unit FROM timestamp)", _extract)


def _part(name: str, unit: str) -> None:
    usage = f"{name}(timestamp)"

    def resolver(operands: Sequence[Rex], words: MessageWording) -> Rex:
        if len(operands) != 1:
            raise wrong_count(name, operands, usage)
        return _extract([Symbol(t.NullType(), unit), operands[0]], words)

    register(name, usage, resolver)


for _name in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND"):
    _part(_name, _name)
_part("DAYOFYEAR", "DOY")
_part("DAYOFMONTH", "DAY")
_part("DAYOFWEEK", "DOW")


def _span_type(unit: str) -> t.DataType:
    if unit in _MONTHS:
        return t.YearMonthIntervalType(t.YearMonthIntervalType.YearMonthResolution.MONTH)
    resolutions = t.DayTimeIntervalType.DayTimeResolution
    return t.DayTimeIntervalType(resolutions["DAY" if unit == "WEEK" else unit])


def _timestamp_add(operands: Sequence[Rex], _: MessageWording) -> Rex:
    usage = "TIMESTAMPADD(unit, count, timestamp)"
    if len(operands) != 3:
        raise wrong_count("TIMESTAMPADD", operands, usage)
    unit = unit_of("TIMESTAMPADD", operands, _SPANS, usage)
    count, point = INTEGER.convert(operands[1]), TIME_POINT.convert(operands[2])
    if count is None or point is None:
        raise wrong_operand("TIMESTAMPADD", 1 if count is None else 2, operands, usage)
    if ty.is_null(point):
        point = ty.cast_to(point, t.TimestampType(3))
    result = shifted_type(point.type, _span_type(unit.name))
    nullable = ty.any_nullable((count, point))
    return Call(ty.with_nullable(result, nullable), "TIMESTAMPADD", (unit, count, point))


def _timestamp_diff(operands: Sequence[Rex], _: MessageWording) -> Rex:
    usage = "TIMESTAMPDIFF(unit, from, to)"
    if len(operands) != 3:
        raise wrong_count("TIMESTAMPDIFF", operands, usage)
    unit = unit_of("TIMESTAMPDIFF", operands, _SPANS, usage)
    points = [TIME_POINT.convert(each) for each in operands[1:]]
    for at, point in enumerate(points, 1):
        if point is None:
            raise wrong_operand("TIMESTAMPDIFF", at, operands, usage)
    left, right = comparable("TIMESTAMPDIFF", points[0], points[1])  # type: ignore[arg-type]
    nullable = ty.any_nullable((left, right))
    return Call(ty.with_nullable(ty.INT, nullable), "TIMESTAMPDIFF", (unit, left, right))


register("TIMESTAMPADD", "TIMESTAMPADD(unit, count, timestamp)", _timestamp_add)
register("TIMESTAMPDIFF", "TIMESTAMPDIFF(unit, from, to)", _timestamp_diff)


def _formatted(operands: Sequence[Rex]) -> t.DataType:
    """Return the type of a time as text, if the pattern is one: what is wrong with a constant shows before the job runs."""
    pattern = operands[1] if len(operands) > 1 else None
    simple = not ty.is_time_point(operands[0].type)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        try:
            parts_of(pattern.value, simple=simple)
        except ValueError as error:
            raise ArgumentError(
                f"'{pattern.value}' is not a valid date and time pattern",
                detail=str(error),
                hint=f"use pattern letters of Java's {'SimpleDateFormat' if simple else 'DateTimeFormatter'}, such as yyyy-MM-dd HH:mm:ss, and text in quotes",
            ) from None
    return ty.STRING


define("DATE_FORMAT", one_of(TIMESTAMP, TEXT), TEXT, returns=_formatted, nullable=True)
define("TO_DATE", TEXT, TEXT, optional=1, returns=t.DateType(), nullable=True)
define("TO_TIMESTAMP", TEXT, TEXT, optional=1, returns=t.TimestampType(3), nullable=True)
_EPOCH = kinds("number", ty.is_number)


def _instant(operands: Sequence[Rex]) -> t.DataType:
    """Return the type of TO_TIMESTAMP_LTZ: of the precision that its number has, of 3 at least."""
    precision = 3
    if not ty.is_text(operands[0].type) and len(operands) > 1:
        given = operands[1]
        if not isinstance(given, Literal) or given.value not in range(10):
            raise ArgumentError("the precision of TO_TIMESTAMP_LTZ must be a constant from 0 to 9")
        precision = max(given.value, 3)
    if len(operands) == 3 and not isinstance(operands[2], Literal):
        raise ArgumentError("the time zone of TO_TIMESTAMP_LTZ must be a constant")
    return t.LocalZonedTimestampType(precision)


define(
    "TO_TIMESTAMP_LTZ",
    one_of(_EPOCH, TEXT),
    one_of(INTEGER, TEXT),
    TEXT,
    optional=2,
    returns=_instant,
    nullable=True,
)
define("UNIX_TIMESTAMP", TEXT, TEXT, optional=2, returns=ty.BIGINT)
define("FROM_UNIXTIME", BIGINT, TEXT, optional=1, returns=_formatted, nullable=True)
define("CONVERT_TZ", TEXT, TEXT, TEXT, returns=ty.STRING, nullable=True)
define("CURRENT_DATE", returns=t.DateType(), nullable=False)
define("CURRENT_TIME", returns=t.TimeType(0), nullable=False)
define("LOCALTIME", returns=t.TimeType(0), nullable=False)
define("LOCALTIMESTAMP", returns=t.TimestampType(3), nullable=False)
for _name in ("CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP"):
    define(_name, returns=t.LocalZonedTimestampType(3), nullable=False)
define("NOW", returns=t.LocalZonedTimestampType(3), nullable=False)


def _watermark(operands: Sequence[Rex]) -> t.DataType:
    local = isinstance(operands[0].type, t.LocalZonedTimestampType)
    return t.LocalZonedTimestampType(3) if local else t.TimestampType(3)


define("CURRENT_WATERMARK", TIMESTAMP, returns=_watermark, nullable=True)
define("PROCTIME", returns=t.LocalZonedTimestampType(3), nullable=False)


def _source_watermark(_: Sequence[Rex], __: MessageWording) -> Rex:
    """Reject SOURCE_WATERMARK(): only WATERMARK FOR knows it, and reads it itself."""
    raise ArgumentError(
        "SOURCE_WATERMARK() cannot be used as a value: it declares that the source emits watermarks",
        hint="write WATERMARK FOR t AS SOURCE_WATERMARK(), without any other expression",
    )


register("SOURCE_WATERMARK", "SOURCE_WATERMARK()", _source_watermark)


def _overlaps(operands: Sequence[Rex], _: MessageWording) -> Rex:
    """Type `(a, b) OVERLAPS (c, d)`: four operands; b and d are points or intervals."""
    usage = "(start, end or interval) OVERLAPS (start, end or interval)"
    if len(operands) != 4:
        raise wrong_count("OVERLAPS", operands, usage)
    points: list[Rex] = []
    for at, operand in enumerate(operands):
        fits = ty.is_time_point(operand.type) or (at % 2 == 1 and ty.is_interval(operand.type))
        if not fits:
            raise wrong_operand("OVERLAPS", at, operands, usage)
        if ty.is_interval(operand.type):
            start = points[-1]
            result = start.type
            nullable = ty.any_nullable((start, operand))
            operand = Call(ty.with_nullable(result, nullable), "+", (start, operand))  # noqa: PLW2901
        points.append(operand)
    nullable = ty.any_nullable(points)
    return Call(ty.with_nullable(ty.BOOLEAN, nullable), "OVERLAPS", tuple(points))


register("OVERLAPS", "(start, end) OVERLAPS (start, end)", _overlaps, "TEMPORAL_OVERLAPS")
