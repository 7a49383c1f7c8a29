"""The letters of Java's patterns, as they show a time in the locale en_US: weeks begin on Sunday, and week 1 has January 1.

Flink shows timestamps by DateTimeFormatter, and seconds and texts (FROM_UNIXTIME, DATE_FORMAT of a text) by SimpleDateFormat. The same letter can mean something
else there: `u` is the year, or the day of the week.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from penstock.time.nanoseconds import nanos_of_second

_MODIFIED_JULIAN = 678_576  # the ordinal of 1858-11-17
_RESERVED = "{}#"
_ZONES = frozenset("VvzOXxZ")
Show = Callable[[dt.datetime, int], str]


@dataclass(frozen=True, slots=True)
class DatePatternPart:
    """A part of a pattern: text that stands for itself, or a letter with how often it stands there. `width`: filled up with blanks.

    `simple`: of SimpleDateFormat.
    """

    text: str = ""
    letter: str = ""
    count: int = 0
    width: int = 0
    simple: bool = False

    def shown(self, value: dt.datetime) -> str:
        """Return the part for a local time; a zone's letters take its offset from UTC. ValueError if it does not fit the width."""
        if not self.letter:
            return self.text
        if self.simple:
            return SIMPLE_LETTERS[self.letter](value, self.count)
        found = LETTERS[self.letter][1](value, self.count)
        if self.width and len(found) > self.width:
            raise ValueError(f"'{found}' does not fit into {self.width} characters")
        return found.rjust(self.width)


@lru_cache(maxsize=256)
def parts_of(pattern: str, *, simple: bool = False) -> tuple[DatePatternPart, ...]:
    """Return the parts of a pattern. ValueError, with the reason, if it is not one.

    >>> [part.letter * part.count or part.text for part in parts_of("MM'x'")]
    ['MM', 'x']
    """
    parts: list[DatePatternPart] = []
    at = depth = 0
    while at < len(pattern):
        each = pattern[at]
        if each == "'":
            text, at = _quoted(pattern, at)
            parts.append(DatePatternPart(text))
            continue
        if each.isascii() and each.isalpha():
            part, at = _simple_letters(pattern, at) if simple else _letters(pattern, at)
            parts.append(part)
            continue
        if not simple and each in _RESERVED:
            raise ValueError(f"'{each}' is reserved")
        if not simple and each in "[]":  # an optional section: all values are there
            depth += 1 if each == "[" else -1
            if depth < 0:
                raise ValueError("']' without a preceding '['")
        else:
            parts.append(DatePatternPart(each))
        at += 1
    return tuple(parts)


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    text, begin = "", at
    at += 1
    while at < len(pattern):
        if pattern[at] != "'":
            text += pattern[at]
        elif pattern[at + 1 : at + 2] == "'":
            text += "'"
            at += 1
        else:
            return text or "'", at + 1
        at += 1
    raise ValueError(f"unclosed quote at position {begin + 1}")


def _letters(pattern: str, at: int) -> tuple[DatePatternPart, int]:
    width = 0
    letter, count = pattern[at], _run(pattern, at)
    at += count
    if letter == "p":
        width = count
        letter = pattern[at : at + 1]
        if not letter.isascii() or not letter.isalpha() or letter == "p":
            raise ValueError("'p' must be followed by a letter")
        count = _run(pattern, at)
        at += count
    if letter in _ZONES:
        raise ValueError(f"letter '{letter}' formats a time zone, but the timestamp has none")
    if letter not in LETTERS:
        raise ValueError(f"unknown letter '{letter}'")
    if count not in LETTERS[letter][0]:
        raise ValueError(f"too many letters '{letter}': {count}")
    return DatePatternPart("", letter, count, width), at


def _simple_letters(pattern: str, at: int) -> tuple[DatePatternPart, int]:
    letter, count = pattern[at], _run(pattern, at)
    if letter == "z":
        raise ValueError("time zone names are not supported; use 'Z' or 'XXX' for the offset")
    if letter not in SIMPLE_LETTERS:
        raise ValueError(f"unknown letter '{letter}'")
    if letter == "X" and count not in _THREE:
        raise ValueError(f"too many letters 'X': {count}")
    return DatePatternPart("", letter, count, simple=True), at + count


def _run(pattern: str, at: int) -> int:
    end = at
    while end < len(pattern) and pattern[end] == pattern[at]:
        end += 1
    return end - at


def _number(read: Callable[[dt.datetime], int]) -> Show:
    def show(value: dt.datetime, count: int) -> str:
        number = read(value)
        return ("-" if number < 0 else "") + str(abs(number)).rjust(count, "0")

    return show


def _year(read: Callable[[dt.datetime], int]) -> Show:
    def show(value: dt.datetime, count: int) -> str:
        year = read(value)
        if count == 2:
            return f"{year % 100:02}"
        return ("+" if count > 3 and len(str(year)) > count else "") + str(year).rjust(count, "0")

    return show


def _named(read: Callable[[dt.datetime], int], name: Callable[[dt.datetime], str]) -> Show:
    """Show one or two letters as a number, three as a short name, four as a name, five as its first letter."""

    def show(value: dt.datetime, count: int) -> str:
        if count <= 2:
            return str(read(value)).rjust(count, "0")
        found = name(value)
        return found if count == 4 else found[:1] if count == 5 else found[:3]

    return show


def _weekday(value: dt.datetime) -> int:
    """Return the day of the week, 1 for Sunday."""
    return value.isoweekday() % 7 + 1


def _weekday_name(value: dt.datetime) -> str:
    return calendar.day_name[value.weekday()]


def _month_name(value: dt.datetime) -> str:
    return calendar.month_name[value.month]


def _week_year(value: dt.datetime) -> int:
    days_left = 7 - _weekday(value)
    last = value.month == 12 and value.day + days_left > 31
    return value.year + 1 if last else value.year


def _week(value: dt.datetime) -> int:
    if _week_year(value) > value.year:
        return 1
    return (_day_of_year(value) - 1 + _weekday(dt.datetime(value.year, 1, 1)) - 1) // 7 + 1


def _week_of_month(value: dt.datetime) -> int:
    return (value.day - 1 + _weekday(dt.datetime(value.year, value.month, 1)) - 1) // 7 + 1


def _day_of_year(value: dt.datetime) -> int:
    return value.timetuple().tm_yday


def _quarter(value: dt.datetime) -> int:
    return (value.month - 1) // 3 + 1


def _quarter_shown(value: dt.datetime, count: int) -> str:
    number = _quarter(value)
    if count == 3:
        return f"Q{number}"
    if count == 4:
        return f"{number}{('st', 'nd', 'rd', 'th')[number - 1]} quarter"
    return str(number) if count == 5 else str(number).rjust(count, "0")


def _era(_: dt.datetime, count: int) -> str:
    return {4: "Anno Domini", 5: "A"}.get(count, "AD")


def _fraction(value: dt.datetime, count: int) -> str:
    return f"{nanos_of_second(value):09}"[:count]


def _seconds_of_day(value: dt.datetime) -> int:
    return value.hour * 3600 + value.minute * 60 + value.second


def _nanos_of_day(value: dt.datetime) -> int:
    return _seconds_of_day(value) * 1_000_000_000 + nanos_of_second(value)


def _period(value: dt.datetime, count: int) -> str:
    if value.minute == 0 and value.hour in (0, 12):
        names = ("midnight", "mi") if value.hour == 0 else ("noon", "n")
        return names[count == 5]
    if 6 <= value.hour < 12:
        return "in the morning"
    if 12 <= value.hour < 18:
        return "in the afternoon"
    return "in the evening" if 18 <= value.hour < 21 else "at night"


def _offset(value: dt.datetime, count: int) -> str:
    """Show the offset from UTC in ISO 8601 format: hours, with minutes, with a colon between them."""
    if not value.utcoffset():
        return "Z"
    shown = value.strftime("%z")
    return (shown[:3], shown[:5], f"{shown[:3]}:{shown[3:5]}")[count - 1]


def _simple_year(read: Callable[[dt.datetime], int]) -> Show:
    return lambda value, count: (
        f"{read(value) % 100:02}" if count == 2 else str(read(value)).rjust(count, "0")
    )


def _simple_name(
    read: Callable[[dt.datetime], int], name: Callable[[dt.datetime], str], shortest: int = 3
) -> Show:
    """Show many letters as a name, three of them (or less: `shortest`) as a short one, and less as a number."""

    def show(value: dt.datetime, count: int) -> str:
        if count < shortest:
            return str(read(value)).rjust(count, "0")
        return name(value) if count > 3 else name(value)[:3]

    return show


_ONE, _TWO, _THREE, _FIVE = range(1, 2), range(1, 3), range(1, 4), range(1, 6)
_NINETEEN = range(1, 20)
#: Letter: allowed repetitions, and its formatter
LETTERS: dict[str, tuple[range | frozenset[int], Show]] = {
    "G": (_FIVE, _era),
    "u": (_NINETEEN, _year(lambda value: value.year)),
    "y": (_NINETEEN, _year(lambda value: value.year)),
    "Y": (_NINETEEN, _year(_week_year)),
    "M": (_FIVE, _named(lambda value: value.month, _month_name)),
    "L": (_FIVE, _named(lambda value: value.month, _month_name)),
    "D": (_THREE, _number(_day_of_year)),
    "d": (_TWO, _number(lambda value: value.day)),
    "Q": (_FIVE, _quarter_shown),
    "q": (_FIVE, _quarter_shown),
    "w": (_TWO, _number(_week)),
    "W": (_ONE, _number(_week_of_month)),
    "E": (_FIVE, lambda value, count: _named(_weekday, _weekday_name)(value, max(count, 3))),
    "e": (_FIVE, _named(_weekday, _weekday_name)),
    "c": (frozenset({1, 3, 4, 5}), _named(_weekday, _weekday_name)),
    "F": (_ONE, _number(lambda value: (value.day - 1) % 7 + 1)),
    "a": (_ONE, lambda value, _: "AM" if value.hour < 12 else "PM"),
    "B": (frozenset({1, 4, 5}), _period),
    "h": (_TWO, _number(lambda value: value.hour % 12 or 12)),
    "K": (_TWO, _number(lambda value: value.hour % 12)),
    "k": (_TWO, _number(lambda value: value.hour or 24)),
    "H": (_TWO, _number(lambda value: value.hour)),
    "m": (_TWO, _number(lambda value: value.minute)),
    "s": (_TWO, _number(lambda value: value.second)),
    "S": (range(1, 10), _fraction),
    "A": (_NINETEEN, _number(lambda value: _nanos_of_day(value) // 1_000_000)),
    "n": (_NINETEEN, _number(nanos_of_second)),
    "N": (_NINETEEN, _number(_nanos_of_day)),
    "g": (_NINETEEN, _number(lambda value: value.toordinal() - _MODIFIED_JULIAN)),
}
#: The same of SimpleDateFormat, where letters may stand as often as they like
SIMPLE_LETTERS: dict[str, Show] = {
    "G": lambda _, __: "AD",
    "y": _simple_year(lambda value: value.year),
    "Y": _simple_year(_week_year),
    "M": _simple_name(lambda value: value.month, _month_name),
    "L": _simple_name(lambda value: value.month, _month_name),
    "w": _number(_week),
    "W": _number(_week_of_month),
    "D": _number(_day_of_year),
    "d": _number(lambda value: value.day),
    "F": _number(lambda value: (value.day - 1) // 7 + 1),
    "E": _simple_name(_weekday, _weekday_name, 1),
    "u": _number(lambda value: value.isoweekday()),
    "a": lambda value, _: "AM" if value.hour < 12 else "PM",
    "H": _number(lambda value: value.hour),
    "k": _number(lambda value: value.hour or 24),
    "K": _number(lambda value: value.hour % 12),
    "h": _number(lambda value: value.hour % 12 or 12),
    "m": _number(lambda value: value.minute),
    "s": _number(lambda value: value.second),
    "S": _number(lambda value: value.microsecond // 1000),
    "Z": lambda value, _: value.strftime("%z")[:5],
    "X": _offset,
}
#: Letters of SimpleDateFormat that show more than a local time has
ZONE_LETTERS = frozenset("ZX")
