"""The values of literals of intervals."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from sqlglot import exp

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.trees import length_of, position_of

UNITS = {
    unit + plural: unit
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
    for plural in ("", "S")
}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MILLIS = {
    "WEEK": 604_800_000,
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
}
_SPAN = ("DAY", "HOUR", "MINUTE", "SECOND")
# Between the parts of '1 02:03:04.5': a blank behind days, colons after that.
_SEPARATORS = {"HOUR": r"\s+", "MINUTE": ":", "SECOND": ":"}


def interval_of(tree: Any) -> tuple[str, int]:
    """Return ("MONTH", months) or ("MS", milliseconds) of an exp.Interval.

    >>> from penstock.sql.parse.parser import parse_expression
    >>> interval_of(parse_expression("INTERVAL '1 12' DAY TO HOUR"))
    ('MS', 129600000)
    >>> interval_of(parse_expression("INTERVAL '1-2' YEAR TO MONTH"))
    ('MONTH', 14)
    """
    first, last = units_of(tree.args["unit"])
    try:
        return _value(tree.this.name, first, last)
    except ValueError as error:
        raise SqlParseError(
            str(error), position=position_of(tree), length=length_of(tree)
        ) from None


def units_of(unit: Any) -> tuple[str, str | None]:
    """Return the units that an interval is written in: its first, and its last if that is another."""
    if isinstance(unit, exp.IntervalSpan):
        return unit.this.name, unit.expression.name
    return unit.name, None


def is_span(first: str, last: str) -> bool:
    """Return whether an interval can go from one unit to another."""
    if first in _SPAN and last in _SPAN:
        return _SPAN.index(first) < _SPAN.index(last)
    return (first, last) == ("YEAR", "MONTH")


def check_interval(text: str, first: str, last: str | None) -> str | None:
    """Return the error of an interval literal, if any."""
    try:
        _value(text, first, last)
    except ValueError as error:
        return str(error)
    return None


def _value(text: str, first: str, last: str | None) -> tuple[str, int]:
    sign = 1
    digits = text.strip()
    while digits[:1] in ("-", "+"):
        sign = -sign if digits[0] == "-" else sign
        digits = digits[1:].strip()
    wrong = ValueError(f"'{text}' is not an interval of {first}{f' to {last}' if last else ''}")
    if last is None:
        return _single(digits, first, sign, wrong)
    if (first, last) == ("YEAR", "MONTH"):
        match = re.fullmatch(r"(\d+)-(\d+)", digits)
        if match is None or int(match[2]) > 11:
            raise wrong
        return "MONTH", sign * (int(match[1]) * 12 + int(match[2]))
    return "MS", sign * _span(digits, first, last, wrong)


def _single(digits: str, unit: str, sign: int, wrong: ValueError) -> tuple[str, int]:
    pattern = r"\d+(\.\d+)?" if unit == "SECOND" else r"\d+"
    if not re.fullmatch(pattern, digits):
        raise wrong
    if unit in _MONTHS:
        return "MONTH", sign * int(digits) * _MONTHS[unit]
    return "MS", sign * int(Decimal(digits) * _MILLIS[unit])


def _span(digits: str, first: str, last: str, wrong: ValueError) -> int:
    units = _SPAN[_SPAN.index(first) : _SPAN.index(last) + 1]
    pattern = r"(\d+)"
    for unit in units[1:]:
        number = r"(\d{1,2}(?:\.\d+)?)" if unit == "SECOND" else r"(\d{1,2})"
        pattern += _SEPARATORS[unit] + number
    match = re.fullmatch(pattern, digits)
    if match is None:
        raise wrong
    numbers = [Decimal(number) for number in match.groups()]
    if any(
        number >= (24 if unit == "HOUR" else 60)
        for unit, number in zip(units[1:], numbers[1:], strict=True)
    ):
        raise wrong
    return int(sum(n * _MILLIS[unit] for unit, n in zip(units, numbers, strict=True)))
