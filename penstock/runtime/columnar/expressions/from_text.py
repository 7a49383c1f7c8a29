"""Values that CAST reads from text; None where there is none."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import polars as pl

from penstock.runtime.columnar.expressions.decimals import decimal_result, rescaled
from penstock.sql import types as t

_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_INTEGER = r"^[+-]?\d+(?:\.\d*)?$|^[+-]?\.\d+$"
_DATE = re.compile(r"^(\d{1,9})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?: .*)?$")
_TIME = re.compile(r"^(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?$")
_TIMESTAMP = re.compile(
    r"^(\d{1,9})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d*))?)?$"
)
_ZONE = re.compile(r"^(.*?)\s*(Z|[+-]\d{2}:?\d{2})$")


def boolean(text: str) -> bool | None:
    """Return TRUE or FALSE by the words that Flink knows for them.

    >>> boolean("Yes"), boolean("0"), boolean("x")
    (True, False, None)
    """
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else None


def integers(texts: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return whole numbers; what stands behind a point is cut off."""
    stripped = texts.str.strip_chars(" ")
    digits = pl.when(stripped.str.contains(_INTEGER)).then(
        stripped.str.strip_chars_start("+").str.extract(r"^(-?\d*)", 1)
    )
    return (
        pl.when(digits.is_in(["", "-"]))
        .then(pl.lit("0"))
        .otherwise(digits)
        .cast(dtype, strict=False)
    )


_FLOAT = re.compile(r"^[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[dDfF]?$")
_SPECIAL = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def real(text: str) -> float | None:
    """Return a floating-point number as Java reads it.

    >>> real("1e3"), real("Infinity"), real("x")
    (1000.0, inf, None)
    """
    stripped = text.strip()
    if _FLOAT.match(stripped):
        return float(stripped.rstrip("dDfF"))
    return _SPECIAL.get(stripped.removeprefix("+"))


def decimal(text: str, target: t.DecimalType) -> Decimal | None:
    """Return a decimal number, rounded; None if there is none."""
    try:
        value = Decimal(text.strip().replace("_", "x"))
    except InvalidOperation:
        return None
    return decimal_result(value, target) if value.is_finite() else None


_PLAIN_DATE = r"^\d{4}-\d{2}-\d{2}$"
_PLAIN_TIMESTAMP = r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:[0-5]\d(?:\.\d{1,9})?$"
# 64-bit nanoseconds cover 1677 to 2262; other years would wrap around.
_PLAIN_FINE_TIMESTAMP = _PLAIN_TIMESTAMP.replace(r"\d{4}", r"(?:1[789]|2[01])\d{2}", 1)
_PLAIN_NUMBER = r"^-?\d{1,15}(?:\.\d{1,12})?$"


def plain_dates(texts: pl.Expr) -> pl.Expr:
    """Return dates in the usual form, NULL for all others."""
    return pl.when(texts.str.contains(_PLAIN_DATE)).then(
        texts.str.to_date("%Y-%m-%d", strict=False)
    )


def plain_times(texts: pl.Expr, unit: Any) -> pl.Expr:
    """Return timestamps in the usual form as numbers of a unit (us or ns) since the epoch, NULL for all others."""
    form = _PLAIN_FINE_TIMESTAMP if unit == "ns" else _PLAIN_TIMESTAMP
    plain = pl.when(texts.str.contains(form)).then(texts)
    read = plain.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit=unit)
    return read.to_physical()


def plain_reals(texts: pl.Expr) -> pl.Expr:
    """Return numbers in the usual form, NULL for all others."""
    return pl.when(texts.str.contains(_PLAIN_NUMBER)).then(texts.cast(pl.Float64(), strict=False))


def plain_decimals(texts: pl.Expr, target: t.DecimalType) -> pl.Expr:
    """Return numbers in the usual form, NULL for all others and for those that do not fit."""
    exact = t.DecimalType(38, 12)
    read = texts.cast(pl.Decimal(38, 12), strict=False)
    return rescaled(pl.when(texts.str.contains(_PLAIN_NUMBER)).then(read), exact, target)


def date(text: str) -> dt.date | None:
    """Return a date; month and day may be missing.

    >>> date("2020-03"), date("2020-02-30")
    (datetime.date(2020, 3, 1), None)
    """
    found = _DATE.match(text.strip())
    if found is None:
        return None
    try:
        return dt.date(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        return None


def time(text: str) -> dt.time | None:
    """Return a time of day."""
    found = _TIME.match(text.strip())
    if found is None:
        return None
    try:
        micros = int((found[4] or "0").ljust(6, "0")[:6])
        return dt.time(int(found[1]), int(found[2] or 0), int(found[3] or 0), micros)
    except ValueError:
        return None


def nanoseconds(text: str) -> int | None:
    """Return a timestamp as nanoseconds since the epoch, as if it were in UTC.

    >>> nanoseconds("1970-01-01 00:00:01.5")
    1500000000
    """
    found = _TIMESTAMP.match(text)
    if found is None:
        return None
    try:
        moment = dt.datetime(
            int(found[1]),
            int(found[2]),
            int(found[3]),
            int(found[4] or 0),
            int(found[5] or 0),
            int(found[6] or 0),
            tzinfo=dt.UTC,
        )
    except ValueError:
        return None
    fraction = int((found[7] or "0").ljust(9, "0")[:9])
    whole = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(seconds=1)
    return whole * 1_000_000_000 + fraction


def microseconds(text: str) -> int | None:
    """Return a timestamp as microseconds since the epoch; nanoseconds of 64 bits end in 2262.

    >>> microseconds("9999-12-31 00:00:00")
    253402214400000000
    """
    found = nanoseconds(text)
    return None if found is None else found // 1000


def zoned(text: str) -> tuple[str, int] | None:
    """Return the text of a timestamp without its offset, and the offset in seconds; None if it has none."""
    found = _ZONE.match(text.strip())
    if found is None or "-" not in found[1] or ":" not in found[1]:
        return None
    if found[2] == "Z":
        return found[1], 0
    sign = -1 if found[2][0] == "-" else 1
    hours, minutes = int(found[2][1:3]), int(found[2][-2:])
    return found[1].rstrip(), sign * (hours * 3600 + minutes * 60)
