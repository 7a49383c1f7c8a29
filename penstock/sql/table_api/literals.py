"""Python values as SQL writes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.errors import ArgumentTypeError


def literal(value: object) -> str:
    """Return a Python value as SQL writes it.

    >>> literal("it's"), literal(1.5), literal(dt.date(2024, 1, 2)), literal([1, None])
    ("'it''s'", '1.5E0', "DATE '2024-01-02'", 'ARRAY[1, NULL]')
    """
    if value is None:
        return "NULL"
    for kind, write in _LITERALS:
        if isinstance(value, kind):
            return write(value)
    raise ArgumentTypeError(
        f"{value!r} cannot be used as a literal",
        hint="use numbers, strings, dates, times, lists or dictionaries",
    )


def _integer(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"


def _float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
        return f"CAST('{'NaN' if value != value else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"  # noqa: PLR0124
    shown = repr(value)
    shown = shown if "e" in shown else f"{shown}E0"
    return shown.replace("e", "E") if value >= 0 else f"({shown.replace('e', 'E')})"


def _decimal(value: Decimal) -> str:
    shown = format(value, "f")
    return shown if value >= 0 else f"({shown})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _timestamp(value: dt.datetime) -> str:
    shown = value.replace(tzinfo=None).isoformat(sep=" ")
    if value.tzinfo is None:
        return f"TIMESTAMP '{shown}'"
    millis = int(value.timestamp() * 1000)
    return f"TO_TIMESTAMP_LTZ({millis}, 3)"


def _interval(value: dt.timedelta) -> str:
    micros = value // dt.timedelta(microseconds=1)
    sign, micros = ("-" if micros < 0 else ""), abs(micros)
    days, rest = divmod(micros, 86_400_000_000)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds, rest = divmod(rest, 1_000_000)
    text = f"{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}.{rest // 1000:03d}"
    return f"INTERVAL '{text}' DAY({max(2, len(str(days)))}) TO SECOND(3)"


def _bytes(value: bytes) -> str:
    return f"X'{bytes(value).hex()}'"


def _array(value: Any) -> str:
    return f"ARRAY[{', '.join(map(literal, value))}]"


def _map(value: dict[Any, Any]) -> str:
    pairs = (f"{literal(key)}, {literal(each)}" for key, each in value.items())
    return f"MAP[{', '.join(pairs)}]"


_LITERALS: list[tuple[Any, Callable[[Any], str]]] = [
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, _integer),
    (float, _float),
    (Decimal, _decimal),
    (str, _text),
    (dt.datetime, _timestamp),
    (dt.date, lambda value: f"DATE '{value.isoformat()}'"),
    (dt.time, lambda value: f"TIME '{value.isoformat()}'"),
    (dt.timedelta, _interval),
    ((bytes, bytearray), _bytes),
    ((list, tuple), _array),
    (dict, _map),
]
