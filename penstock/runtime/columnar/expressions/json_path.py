"""Paths into JSON: `lax $.a.b[0]`, `strict $['a'][*]`, `$..name`, slices and simple filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_MODE = re.compile(r"^\s*(strict|lax)\s+(.+)$", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[^.\[\]()'\" ]+")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_INDEX = re.compile(r"-?\d+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)")
_FILTER = re.compile(r"\?\s*\(\s*@((?:\.\w+)+|)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\)$")

MISSING = object()
Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path. `lax`: missing members are not errors. `definite`: it leads to one value, not to a list of those found."""

    steps: tuple[Step, ...]
    lax: bool
    definite: bool

    def read(self, document: Any) -> Any:
        """Return the value that the path leads to (a list for paths that may lead to several); MISSING if there is none."""
        found = [document]
        for step in self.steps:
            found = [each for value in found for each in step(value)]
        if not self.definite:
            return found
        return found[0] if found else MISSING


@lru_cache(maxsize=512)
def json_path(text: str) -> JsonPath | None:
    """Parse a path; None if it is invalid."""
    mode = _MODE.match(text)
    lax = mode is not None and mode[1].lower() == "lax"
    rest = (mode[2] if mode else text).strip()
    if not rest.startswith("$"):
        return None
    steps: list[Step] = []
    definite = True
    at = 1
    while at < len(rest):
        found = _step(rest, at)
        if found is None:
            return None
        step, one, at = found
        steps.append(step)
        definite = definite and one
    return JsonPath(tuple(steps), lax, definite)


def _step(text: str, at: int) -> tuple[Step, bool, int] | None:
    if text.startswith("..", at):
        inner = _step(text, at + 1) if text[at + 2 : at + 3] != "[" else _step(text, at + 2)
        return None if inner is None else (_deep(inner[0]), False, inner[2])
    if text[at] == ".":
        at += 1
        if text[at : at + 1] == "[":
            return _step(text, at)
        if text[at : at + 1] == "*":
            return _all, False, at + 1
        name = _NAME.match(text, at)
        if name is None:
            return None
        if name[0] == "length" and text.startswith("()", name.end()):
            return _length, True, name.end() + 2
        return _member(name[0]), True, name.end()
    if text[at] == "[":
        end = _closing(text, at)
        found = None if end is None else _bracket(text[at + 1 : end].strip())
        return None if found is None or end is None else (*found, end + 1)
    return None


def _closing(text: str, at: int) -> int | None:
    """Return where the bracket closes, with quotes and parentheses passed over."""
    depth, quote = 0, ""
    for index in range(at, len(text)):
        letter = text[index]
        if quote:
            quote = "" if letter == quote and text[index - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
            if depth == 0:
                return index
    return None


def _bracket(inside: str) -> tuple[Step, bool] | None:
    if inside == "*":
        return _all, False
    if inside.startswith("?"):
        found = _FILTER.match(inside)
        return None if found is None else (_filter(found), False)
    if sliced := _SLICE.fullmatch(inside):
        first, last = (int(each) if each else None for each in sliced.groups())
        return _slice(first, last), False
    parts = [part.strip() for part in re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^,])+", inside)]
    steps: list[Step] = []
    for part in parts:
        if quoted := _QUOTED.fullmatch(part):
            steps.append(_member(_unescaped(quoted[1] if quoted[1] is not None else quoted[2])))
        elif _INDEX.fullmatch(part):
            steps.append(_element(int(part)))
        else:
            return None
    if len(steps) == 1:
        return steps[0], True
    return (_several(steps), False) if steps else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _element(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(first: int | None, last: int | None) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[first:last]

    return step


def _several(steps: list[Step]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for each in steps:
            yield from each(value)

    return step


def _all(value: object) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _length(value: object) -> Iterator[Any]:
    if isinstance(value, list | dict | str):
        yield len(value)


def _deep(inner: Step) -> Step:
    def step(value: Any) -> Iterator[Any]:
        yield from inner(value)
        if isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                yield from step(each)

    return step


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _filter(found: re.Match[str]) -> Step:
    names = [name for name in found[1].split(".") if name]
    compare = _COMPARE[found[2]] if found[2] else None
    wanted = _constant(found[3]) if found[3] else None

    def holds(value: object) -> bool:
        for name in names:
            if not isinstance(value, dict) or name not in value:
                return False
            value = value[name]
        if compare is None:
            return True
        try:
            return compare(value, wanted)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        candidates = (
            value if isinstance(value, list) else [value] if isinstance(value, dict) else []
        )
        yield from (each for each in candidates if holds(each))

    return step


def _constant(text: str) -> Any:
    if quoted := _QUOTED.fullmatch(text):
        return quoted[1] if quoted[1] is not None else quoted[2]
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    try:
        return int(text) if _INDEX.fullmatch(text) else float(text)
    except ValueError:
        return MISSING
