"""Java's patterns of dates and times: as strftime formats where there is one, else by hand; and the reading of such text.

DATE_FORMAT and the other functions that use them are in `penstock.runtime.columnar.expressions.times`.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from dataclasses import dataclass
from functools import lru_cache

from penstock.sql.expr.java_date_patterns import ZONE_LETTERS, parts_of

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])")
_STRFTIME = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "uu": "%y",
    "MM": "%m",
    "M": "%-m",
    "MMM": "%b",
    "MMMM": "%B",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "m": "%-M",
    "ss": "%S",
    "s": "%-S",
    "SSS": "%3f",
    "SSSSSS": "%6f",
    "SSSSSSSSS": "%9f",
    "a": "%p",
    "E": "%a",
    "EE": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "DDD": "%j",
}
# Not for SimpleDateFormat, where these letters mean something else.
_NOT_SIMPLE = frozenset({"uuuu", "uu", "SSSSSS", "SSSSSSSSS"})
_DATE_LETTERS = frozenset("yuMLdEDQqwWe")
_MINUTE_LETTERS = frozenset("Hhmka") | {"K"}


@lru_cache(maxsize=256)
def tokens(pattern: str) -> tuple[tuple[str, bool], ...] | None:
    """Return the parts of a pattern, each with whether it stands for itself; None if it is not valid.

    >>> tokens("yyyy-MM")
    (('yyyy', False), ('-', True), ('MM', False))
    """
    parts: list[tuple[str, bool]] = []
    at = 0
    for found in _TOKEN.finditer(pattern):
        if found.start() != at:
            return None
        at = found.end()
        if found[1] is not None:
            parts.append((found[1].replace("''", "'") or "'", True))
        else:
            parts.append((found[0], found[2] is None))
    return tuple(parts) if at == len(pattern) else None


def strftime_of(pattern: str, *, simple: bool = False) -> str | None:
    """Return the format of strftime that gives the same, or None if there is none. `simple`: the pattern is of SimpleDateFormat.

    >>> strftime_of("yyyy-MM-dd HH:mm")
    '%Y-%m-%d %H:%M'
    """
    try:
        parts = parts_of(pattern, simple=simple)
    except ValueError:
        return None
    made: list[str] = []
    for part in parts:
        if not part.letter:
            made.append(part.text.replace("%", "%%"))
            continue
        letters = part.letter * part.count
        if part.width or letters not in _STRFTIME or (simple and letters in _NOT_SIMPLE):
            return None
        made.append(_STRFTIME[letters])
    return "".join(made)


def unit_of(pattern: str, *, simple: bool = False) -> str:
    """Return the smallest unit that a pattern shows: `day`, `minute`, or `exact`."""
    letters = {part.letter for part in parts_of(pattern, simple=simple) if part.letter}
    if letters <= _DATE_LETTERS:
        return "day"
    return "minute" if letters <= _DATE_LETTERS | _MINUTE_LETTERS else "exact"


def shows_zone(pattern: str) -> bool:
    """Whether a pattern of SimpleDateFormat shows the time zone."""
    try:
        return any(part.letter in ZONE_LETTERS for part in parts_of(pattern, simple=True))
    except ValueError:
        return False


def formatted(value: dt.datetime, pattern: str, *, simple: bool = False) -> str:
    """Return a time as text: a local one, or for zones' letters of SimpleDateFormat one with its offset. ValueError if the pattern is not one."""
    return "".join(part.shown(value) for part in parts_of(pattern, simple=simple))


@dataclass(slots=True)
class _Fields:
    """The fields parsed from a text."""

    year: int = 1970
    month: int = 1
    day: int = 1
    hour: int = 0
    minute: int = 0
    second: int = 0
    nanos: int = 0
    afternoon: bool | None = None
    day_of_year: int | None = None


_NAMES = {name.lower(): at for at, name in enumerate(calendar.month_name) if name}
_NAMES |= {name.lower(): at for at, name in enumerate(calendar.month_abbr) if name}


def parsed(text: str, pattern: str, *, lenient: bool = False) -> int | None:
    """Return the nanoseconds since the epoch of a text, as if it were in UTC; None if it does not fit the pattern.

    `lenient`: what follows the pattern is passed over, and fields may be too big, as Java's SimpleDateFormat has it.

    >>> parsed("1970-01-01 00:00:02", "yyyy-MM-dd HH:mm:ss")
    2000000000
    """
    parts = tokens(pattern)
    if parts is None:
        return None
    fields = _Fields()
    at = 0
    for index, (token, literal) in enumerate(parts):
        if literal:
            if not text.startswith(token, at):
                return None
            at += len(token)
            continue
        adjacent = index + 1 < len(parts) and not parts[index + 1][1]
        end = _read(fields, text, at, token, adjacent or not lenient)
        if end is None:
            return None
        at = end
    if at != len(text) and not lenient:
        return None
    return _moment(fields, lenient)


def _read(fields: _Fields, text: str, at: int, token: str, exact: bool) -> int | None:
    letter, count = token[0], len(token)
    if (letter == "M" and count >= 3) or letter in "Ea":
        return _read_word(fields, text, at, letter)
    if letter == "S":
        digits = re.compile(r"\d{1,9}").match(text, at)
        if digits is None or (exact and len(digits[0]) != count):
            return None
        fields.nanos = int(digits[0].ljust(9, "0"))
        return digits.end()
    most = count if exact and count > 1 else 9 if letter in "yu" else 2
    if letter == "D":
        most = 3
    found = re.compile(rf"\d{{1,{most}}}").match(text, at)
    if found is None or (exact and count > 1 and len(found[0]) < count):
        return None
    number = int(found[0])
    if letter in "yu" and count == 2:
        number += 2000 if number < 70 else 1900
    name = {
        "y": "year",
        "u": "year",
        "M": "month",
        "d": "day",
        "H": "hour",
        "k": "hour",
        "h": "hour",
        "K": "hour",
        "m": "minute",
        "s": "second",
        "D": "day_of_year",
    }.get(letter)
    if name is None:
        return None
    setattr(fields, name, number)
    return found.end()


def _read_word(fields: _Fields, text: str, at: int, letter: str) -> int | None:
    found = re.compile(r"[A-Za-z]+").match(text, at)
    if found is None:
        return None
    word = found[0].lower()
    if letter == "a":
        fields.afternoon = word == "pm"
    elif letter == "M":
        if word not in _NAMES:
            return None
        fields.month = _NAMES[word]
    return found.end()


def _moment(fields: _Fields, lenient: bool) -> int | None:
    hour = fields.hour
    if fields.afternoon is not None:
        hour = hour % 12 + (12 if fields.afternoon else 0)
    try:
        if lenient:
            years, month = divmod(fields.year * 12 + fields.month - 1, 12)
            start = dt.datetime(years, month + 1, 1, tzinfo=dt.UTC)
            moment = start + dt.timedelta(
                days=fields.day - 1, hours=hour, minutes=fields.minute, seconds=fields.second
            )
        else:
            moment = dt.datetime(
                fields.year,
                fields.month,
                fields.day,
                hour,
                fields.minute,
                fields.second,
                tzinfo=dt.UTC,
            )
        if fields.day_of_year is not None:
            moment = moment.replace(month=1, day=1) + dt.timedelta(days=fields.day_of_year - 1)
    except (ValueError, OverflowError):
        return None
    seconds = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(seconds=1)
    return seconds * 1_000_000_000 + fields.nanos
