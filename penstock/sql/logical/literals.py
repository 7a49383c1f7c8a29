"""Constants of dates, times and intervals as queries write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from penstock.errors import ArgumentError
from penstock.sql.expr.nodes import Literal
from penstock.sql.parse import trees
from penstock.sql.parse.literals import interval_of, units_of
from penstock.sql.types import (
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    VarCharType,
    YearMonthIntervalType,
)
from penstock.time.nanoseconds import from_nanos, to_nanos

# Flink stores every interval as months or milliseconds.
_MONTHS = YearMonthIntervalType(YearMonthIntervalType.YearMonthResolution.MONTH, nullable=False)
_SECONDS = DayTimeIntervalType(
    DayTimeIntervalType.DayTimeResolution.SECOND, fractional_precision=3, nullable=False
)
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIME = r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?"


def literal_of(tree: object, zone: str) -> Literal:
    """Return the constant of DATE '...', TIMESTAMP '...', INTERVAL '...' and the like."""
    if isinstance(tree, trees.TypedLiteral):
        text = tree.this if isinstance(tree.this, str) else tree.this.name
        return typed_literal(str(tree.args["kind"]).upper(), text, zone)
    unit, value = interval_of(tree)
    if unit == "MONTH":
        return Literal(_MONTHS, value)
    return Literal(_SECONDS, timedelta(milliseconds=value))


def interval_type(unit: object) -> DataType:
    """Return the type of a difference with this unit behind it."""
    months = units_of(unit)[0] in ("YEAR", "QUARTER", "MONTH")
    return _MONTHS if months else _SECONDS


def typed_literal(kind: str, text: str, zone: str = "UTC") -> Literal:
    """Return the constant that a text is after the name of a type.

    >>> typed_literal("TIMESTAMP", "2024-01-01 00:00:00.125").type.as_sql()
    'TIMESTAMP(3) NOT NULL'
    """
    patterns = {"DATE": _DATE, "TIME": _TIME}
    match = re.fullmatch(patterns.get(kind, f"{_DATE}[ T]{_TIME}"), text.strip())
    if match is None:
        raise ArgumentError(
            f"invalid {kind} literal '{text}'", hint=f"write {kind} '{_EXAMPLES.get(kind)}'"
        )
    try:
        value, found = _read(kind, match.groups(), zone)
    except ValueError as error:
        raise ArgumentError(f"invalid {kind} literal '{text}'", detail=str(error)) from None
    return Literal(found, value)


_EXAMPLES = {
    "DATE": "2024-01-31",
    "TIME": "12:30:00",
    "TIMESTAMP": "2024-01-31 12:30:00.000",
    "TIMESTAMP_LTZ": "2024-01-31 12:30:00.000",
}


def _read(kind: str, parts: tuple[Any, ...], zone: str) -> tuple[Any, DataType]:
    if kind == "DATE":
        return date(*map(int, parts)), DateType(nullable=False)
    *clock, fraction = parts
    digits = len(fraction or "")
    micros = int((fraction or "0").ljust(6, "0")[:6])
    hour, minute, second = map(int, clock[-3:])
    if kind == "TIME":
        return time(hour, minute, second, micros), TimeType(digits, nullable=False)
    year, month, day = map(int, clock[:3])
    moment = datetime(year, month, day, hour, minute, second, micros)
    if nanos := int((fraction or "0").ljust(9, "0")[6:]):
        moment = from_nanos(to_nanos(moment) + nanos)
    if kind == "TIMESTAMP":
        return moment, TimestampType(digits, nullable=False)
    moment = moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    return moment, LocalZonedTimestampType(digits, nullable=False)


def text_literal(value: str) -> Literal:
    """Return a text as a constant: CHAR of its length.

    >>> str(text_literal("abc").type)
    'CHAR(3) NOT NULL'
    """
    if not value:
        return Literal(VarCharType(1, nullable=False), value)
    return Literal(CharType(len(value), nullable=False), value)
