"""Values as the connector `print` shows them: as Java's toString does, not as CAST to STRING."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types import Row
from penstock.records.string_form import java_double, java_float
from penstock.sql import types as t
from penstock.sql.results.printing import text_of
from penstock.time.nanoseconds import nanos_of_second

Write = Callable[[Any], str]


def row_text(data_types: Sequence[t.DataType]) -> Callable[[Row], str]:
    """Return a function that formats rows with columns of these types.

    >>> row_text([t.FloatType(), t.TimestampType(3)])(Row(1.23, dt.datetime(2024, 1, 2, 3, 4)))
    '+I[1.23, 2024-01-02T03:04]'
    """
    writers = [_or_null(each) for each in data_types]

    def text(row: Row) -> str:
        shown = ", ".join(write(value) for write, value in zip(writers, row, strict=True))
        return f"{row.get_row_kind()}[{shown}]"

    return text


def _or_null(data_type: t.DataType) -> Write:
    write = _writer(data_type)
    return lambda value: "null" if value is None else write(value)


def _writer(data_type: t.DataType) -> Write:
    match data_type:
        case t.FloatType():
            return java_float
        case t.DoubleType():
            return lambda value: java_double(float(value))
        case t.TimestampType():
            return lambda value: f"{value:%Y-%m-%d}T{_clock(value)}"
        case t.LocalZonedTimestampType():
            return _instant
        case t.TimeType():
            return _clock
        case t.BitmapType():
            return lambda value: text_of(value, data_type)
        case t.DayTimeIntervalType():
            return _duration
        case t.YearMonthIntervalType():
            return _period
        case t.ArrayType():
            element = _or_null(data_type.element_type)
            return lambda value: f"[{', '.join(map(element, value))}]"
        case t.MapType():
            return _entries(data_type.key_type, data_type.value_type)
        case t.MultisetType():
            return _entries(data_type.element_type, t.IntType())
        case t.RowType():
            return row_text(data_type.field_types())
        case t.BooleanType():
            return lambda value: "true" if value else "false"
        case t.BinaryType() | t.VarBinaryType():  # Java's bytes are signed
            return lambda value: f"[{', '.join(str((each ^ 128) - 128) for each in value)}]"
    return str


def _entries(key_type: t.DataType, value_type: t.DataType) -> Write:
    key, item = _or_null(key_type), _or_null(value_type)
    return lambda value: (
        "{" + ", ".join(f"{key(name)}={item(each)}" for name, each in value.items()) + "}"
    )


def _fraction(nanos: int) -> str:
    digits = 9 if nanos % 1000 else 6 if nanos % 1_000_000 else 3
    return f".{nanos:09}"[: digits + 1] if nanos else ""


def _clock(value: dt.datetime | dt.time) -> str:
    """Return a time of day; seconds are left out if they are zero."""
    nanos = nanos_of_second(value)
    return f"{value:%H:%M:%S}{_fraction(nanos)}" if value.second or nanos else f"{value:%H:%M}"


def _instant(value: Any) -> str:
    moment = value if value.tzinfo is None else value.astimezone(dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{_fraction(nanos_of_second(moment))}Z"


def _duration(value: dt.timedelta) -> str:
    """Return a span of time in the form of ISO 8601.

    >>> _duration(dt.timedelta(days=1, seconds=3661, milliseconds=500))
    'PT25H1M1.5S'
    """
    millis = value // dt.timedelta(milliseconds=1)
    if not millis:
        return "PT0S"
    sign, millis = ("-" if millis < 0 else ""), abs(millis)
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest // 1000}.{rest % 1000:03}".rstrip("0").rstrip(".")
    parts = [
        f"{sign}{hours}H" if hours else "",
        f"{sign}{minutes}M" if minutes else "",
        f"{sign}{seconds}S" if rest else "",
    ]
    return f"PT{''.join(parts)}"


def _period(months: int) -> str:
    """Return a span of months in the form of ISO 8601.

    >>> _period(14), _period(0)
    ('P1Y2M', 'P0M')
    """
    years, rest = divmod(abs(months), 12)
    sign = "-" if months < 0 else ""
    return f"P{f'{sign}{years}Y' if years else ''}{f'{sign}{rest}M' if rest or not years else ''}"
