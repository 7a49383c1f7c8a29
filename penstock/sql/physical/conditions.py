"""Taking join conditions apart: keys that must be equal, times that must be near, and the rest."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    inputs_of,
)
from penstock.sql.expr.rewriting import conjuncts, is_deterministic, remap

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(slots=True)
class Equalities:
    """Pairs of expressions, of the left and of the right row, that must be equal; `rest` is everything else, over both."""

    left: list[Rex] = field(default_factory=list)
    right: list[Rex] = field(default_factory=list)  # over the columns of the right row
    null_safe: list[bool] = field(default_factory=list)
    rest: list[Rex] = field(default_factory=list)


def split(condition: Rex, width: int) -> Equalities:
    """Take a condition apart; `width` is the number of left columns."""
    found = Equalities()
    for each in conjuncts(condition):
        pair = _sides(each, width)
        if pair is None:
            found.rest.append(each)
        else:
            left, right = pair
            found.left.append(left)
            found.right.append(shifted(right, -width))
            found.null_safe.append(isinstance(each, Call) and each.function != "=")
    return found


def shifted(rex: Rex, by: int) -> Rex:
    """Return an expression whose columns stand elsewhere."""
    return remap(rex, lambda each: InputRef(each.type, each.index + by))


def _sides(rex: Rex, width: int) -> tuple[Rex, Rex] | None:
    if not isinstance(rex, Call) or rex.function not in {"=", "IS NOT DISTINCT FROM"}:
        return None
    one, other = rex.operands
    if not (is_deterministic(one) and is_deterministic(other)):
        return None
    if type(one.type) is not type(other.type):
        return None  # compared by value, but keys of different types are not the same
    at, to = inputs_of(one), inputs_of(other)
    if not at or not to:
        return None
    if max(at) < width <= min(to):
        return one, other
    if max(to) < width <= min(at):
        return other, one
    return None


@dataclass(frozen=True, slots=True)
class Interval:
    """left time between right time + `lower` and right time + `upper` (ms)."""

    left: int
    right: int  # among the right columns
    lower: int
    upper: int
    rest: tuple[Rex, ...]


def interval_of(
    rest: Sequence[Rex], left_times: set[int], right_times: set[int], width: int
) -> Interval | None:
    """Return how near two times must be, if conditions bound them from both sides; the conditions that say so are gone from its rest."""
    bounds: dict[tuple[int, int], list[tuple[str, int, Rex]]] = {}
    for each in rest:
        found = _bound(each, left_times, right_times, width)
        if found is not None:
            pair, comparison, offset = found
            bounds.setdefault(pair, []).append((comparison, offset, each))
    for (left, right), known in bounds.items():
        lower = max(
            (offset + (comparison == ">") for comparison, offset, _ in known if comparison in {">", ">=", "="}),
            default=None,
        )  # fmt: skip
        upper = min(
            (offset - (comparison == "<") for comparison, offset, _ in known if comparison in {"<", "<=", "="}),
            default=None,
        )  # fmt: skip
        if lower is not None and upper is not None:
            used = [each for _, _, each in known]
            left_over = tuple(each for each in rest if not any(each is one for one in used))
            return Interval(left, right - width, lower, upper, left_over)
    return None


def _bound(
    rex: Rex, left_times: set[int], right_times: set[int], width: int
) -> tuple[tuple[int, int], str, int] | None:
    """Return (left, right), comparison, offset for `left time <comparison> right time + offset`."""
    if not isinstance(rex, Call) or rex.function not in _MIRRORED:
        return None
    one, other = _time_plus(rex.operands[0]), _time_plus(rex.operands[1])
    if one is None or other is None:
        return None
    comparison = rex.function
    if one[0] >= width:
        one, other, comparison = other, one, _MIRRORED[comparison]
    if one[0] not in left_times or other[0] - width not in right_times:
        return None
    return (one[0], other[0]), comparison, other[1] - one[1]


def _time_plus(rex: Rex) -> tuple[int, int] | None:
    """Return a column and the constant that is added to it, in milliseconds."""
    if isinstance(rex, InputRef):
        return rex.index, 0
    if not isinstance(rex, Call):
        return None
    if rex.function == "CAST" and type(rex.type) is type(rex.operands[0].type):
        return _time_plus(rex.operands[0])
    if rex.function not in {"+", "-"}:
        return None
    one, other = rex.operands
    if rex.function == "+" and _millis(one) is not None:
        one, other = other, one
    base, added = _time_plus(one), _millis(other)
    if base is None or added is None:
        return None
    return base[0], base[1] + (added if rex.function == "+" else -added)


def _millis(rex: Rex) -> int | None:
    if isinstance(rex, Literal) and isinstance(rex.value, dt.timedelta):
        return rex.value // dt.timedelta(milliseconds=1)
    if isinstance(rex, Call) and rex.function == "NEGATE":
        inner = _millis(rex.operands[0])
        return None if inner is None else -inner
    return None
