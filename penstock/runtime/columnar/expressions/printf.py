"""PRINTF: Java's format strings."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

_SPECIFIER = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


def java_format(pattern: str | None, *values: object) -> str | None:
    """Return a text with values put in; None if the format is not valid or does not fit the values.

    >>> java_format("%05.2f|%-4s|%x", 3.14159, "ab", 255)
    '03.14|ab  |ff'
    """
    if pattern is None:
        return None
    following = iter(range(len(values)))
    parts: list[str] = []
    at = 0
    try:
        for found in _SPECIFIER.finditer(pattern):
            between = pattern[at : found.start()]
            if "%" in between:
                return None
            parts += [between, _one(found, following, values)]
            at = found.end()
    except (ValueError, StopIteration, IndexError, TypeError):
        return None
    rest = pattern[at:]
    return None if "%" in rest else "".join([*parts, rest])


def _one(found: re.Match[str], following: Any, values: tuple[Any, ...]) -> str:
    index, flags, width, digits, letter = found.groups()
    if letter == "%":
        return "%".rjust(int(width or 0))
    if letter == "n":
        return "\n"
    value = values[int(index) - 1] if index else values[next(following)]
    text = _converted(value, letter, flags, None if digits is None else int(digits))
    text = text.upper() if letter.isupper() else text
    size = int(width or 0)
    if "-" in flags:
        return text.ljust(size)
    if "0" in flags and value is not None and letter in "dxXofeE":
        sign = text[0] if text[:1] in {"+", "-"} else ""
        return sign + text[len(sign) :].rjust(size - len(sign), "0")
    return text.rjust(size)


def _converted(value: Any, letter: str, flags: str, digits: int | None) -> str:
    if letter in "bB":
        return "true" if value is True or (value is not None and value is not False) else "false"
    if value is None:
        return "null"[:digits]
    if letter in "sS":
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return text[:digits]
    if letter in "cC":
        return chr(value) if isinstance(value, int) else _single(value)
    if letter in "dxXo":
        return _integer(value, letter, flags)
    if letter in "feEgG":
        return _real(value, letter, flags, 6 if digits is None else digits)
    raise ValueError(letter)


def _single(value: str) -> str:
    if len(value) != 1:
        raise ValueError(value)
    return value


def _integer(value: object, letter: str, flags: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    if letter == "d":
        return _signed(format(abs(value), "," if "," in flags else ""), value < 0, flags)
    shown = value & 0xFFFFFFFF if value < 0 else value
    prefix = {"x": "0x", "X": "0x", "o": "0"}[letter] if "#" in flags else ""
    return prefix + format(shown, letter.lower())


def _real(value: object, letter: str, flags: str, digits: int) -> str:
    if not isinstance(value, float | Decimal):
        raise TypeError(value)
    negative = value < 0
    size: Any = abs(value)
    if letter == "f":
        exact = Decimal(repr(size)) if isinstance(size, float) else size
        rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
        return _signed(format(rounded, ",f" if "," in flags else "f"), negative, flags)
    return _signed(format(float(size), f".{digits}{letter.lower()}"), negative, flags)


def _signed(text: str, negative: bool, flags: str) -> str:
    if negative:
        return f"({text})" if "(" in flags else f"-{text}"
    return f"+{text}" if "+" in flags else f" {text}" if " " in flags else text
