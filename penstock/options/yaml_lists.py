"""Lists as YAML writes them: '[a, 1, true]', one inside another, or an item a line after a dash."""

from __future__ import annotations

import re
from typing import Any

_INT = re.compile(r"[-+]?[0-9][0-9_]*")
_HEX = re.compile(r"0x[0-9a-fA-F_]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "r": "\r", "0": "\0"}


def parse_yaml_list(text: str) -> list[Any] | None:
    """Read a list with typed items; None if the text is not a list of YAML's. Raises ValueError.

    >>> parse_yaml_list("[a, 2, ['b', true]]"), parse_yaml_list("a;b")
    (['a', 2, ['b', True]], None)
    """
    stripped = text.strip()
    if stripped.startswith("["):
        items, end = _flow(stripped, 1)
        if stripped[end:].strip():
            raise ValueError(f"unexpected text after the list: {stripped[end:].strip()!r}")
        return items
    lines = [line for line in stripped.splitlines() if line.strip()]
    if lines and all(line == "-" or line.lstrip().startswith("- ") for line in lines):
        return [_item(line.lstrip()[1:].strip()) for line in lines]
    return None


def _item(text: str) -> object:
    value, end = _value(text + "]", 0)  # ends as an item of a list does
    if end < len(text):
        raise ValueError(f"'{text}' is more than one item")
    return value


def _flow(text: str, at: int) -> tuple[list[Any], int]:
    """Read items up to the closing bracket; return them and the position after it."""
    items: list[Any] = []
    while True:
        at = _skip_blanks(text, at)
        if text[at : at + 1] == "]":
            return items, at + 1
        value, at = _value(text, at)
        items.append(value)
        at = _skip_blanks(text, at)
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "]":
            raise ValueError("a bracket is not closed")


def _value(text: str, at: int) -> tuple[Any, int]:
    first = text[at : at + 1]
    if first == "[":
        return _flow(text, at + 1)
    if first and first in "'\"":
        return _quoted(text, at + 1, first)
    end = at
    while end < len(text) and text[end] not in ",]":
        end += 1
    if end == len(text):
        raise ValueError("a bracket is not closed")
    return _scalar(text[at:end].strip()), end


def _quoted(text: str, at: int, quote: str) -> tuple[str, int]:
    chars: list[str] = []
    while at < len(text):
        char = text[at]
        if char == quote:
            if quote == '"' or text[at + 1 : at + 2] != quote:
                return "".join(chars), at + 1
            at += 1  # a single quote is doubled inside of single quotes
        elif char == "\\" and quote == '"':
            at += 1
            char = _ESCAPES.get(text[at : at + 1], "\\" + text[at : at + 1])
        chars.append(char)
        at += 1
    raise ValueError("a quote is not closed")


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _scalar(text: str) -> object:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _HEX.fullmatch(text):
        return int(text.replace("_", ""), 16)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    if ": " in text or text.startswith("{"):
        raise ValueError(f"'{text}' is a map, which is not allowed in a list of options")
    return text


__all__ = ["parse_yaml_list"]
