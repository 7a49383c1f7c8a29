"""Patterns of SQL and of Java as Python's regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache

from penstock.errors import RecordError

_SPECIAL = frozenset(r"\.+*?()|[]{}^$#&-~")


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression for a pattern of LIKE.

    >>> like_pattern("a%b_")
    '^(?s:a.*b.)$'
    """
    parts: list[str] = []
    escaped = False
    for letter in pattern:
        if escaped:
            if letter not in {"%", "_", escape}:
                raise RecordError(f"invalid escape before {letter!r} in LIKE pattern {pattern!r}")
            parts.append(_literally(letter))
            escaped = False
        elif letter == escape:
            escaped = True
        else:
            parts.append({"%": ".*", "_": "."}.get(letter) or _literally(letter))
    if escaped:
        raise RecordError(f"LIKE pattern {pattern!r} ends with its escape character")
    return f"^(?s:{''.join(parts)})$"


def _literally(letter: str) -> str:
    return "\\" + letter if letter in _SPECIAL else letter


@lru_cache(maxsize=1024)
def similar_pattern(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression for a pattern of SIMILAR TO: `%` and `_` of LIKE, with `|`, `*`, `+`, `?`, `{}`, `()` and `[]`.

    >>> similar_pattern("(a|b)%")
    '(?s:(a|b).*)'
    """
    parts: list[str] = []
    inside = escaped = False
    for letter in pattern:
        if escaped:
            parts.append(re.escape(letter))
            escaped = False
        elif letter == escape:
            escaped = True
        elif inside:
            inside = letter != "]"
            parts.append(letter)
        elif letter == "[":
            inside = True
            parts.append(letter)
        else:
            kept = letter in "|*+?{}()" or letter.isalnum()
            parts.append(
                {"%": ".*", "_": "."}.get(letter) or (letter if kept else re.escape(letter))
            )
    return f"(?s:{''.join(parts)})"


@lru_cache(maxsize=1024)
def java_pattern(pattern: str) -> re.Pattern[str] | None:
    """Translate a Java regular expression to Python; None if it is invalid.

    Both have the same syntax but for named groups, classes of letters by name, and quotations.
    """
    translated = re.sub(r"\\Q(.*?)(?:\\E|$)", lambda found: re.escape(found[1]), pattern)
    translated = re.sub(r"\(\?<(?![=!])", "(?P<", translated)
    for name, letters in _CLASSES.items():
        translated = translated.replace(f"\\p{{{name}}}", f"[{letters}]")
        translated = translated.replace(f"\\P{{{name}}}", f"[^{letters}]")
    translated = translated.replace(r"\z", r"\Z").replace(r"\h", r"[ \t]")
    try:
        return re.compile(translated, re.ASCII if "(?U)" not in pattern else 0)
    except re.error:
        return None


_CLASSES = {
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Lower": "a-z",
    "Upper": "A-Z",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r"\s",
    "L": "a-zA-Z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
}
