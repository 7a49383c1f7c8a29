"""Constant folding of expressions: conditions that are always true or false, branches that are never taken."""

from __future__ import annotations

from collections.abc import Callable

from penstock.sql import types as t
from penstock.sql.expr.nodes import Call, Literal, Rex
from penstock.sql.expr.typing import cast_to


def simplified(rex: Rex) -> Rex:
    """Return a simpler call that means the same, of AND, OR, NOT, IS NULL, CASE or COALESCE; others as they are. Its operands are simple already."""
    rule = _RULES.get(rex.function) if isinstance(rex, Call) else None
    return rex if rule is None or not isinstance(rex, Call) else rule(rex)


def _is(rex: Rex, value: object) -> bool:
    return isinstance(rex, Literal) and rex.value is value and isinstance(rex.type, t.BooleanType)


def _connected(call: Call, neutral: bool) -> Rex:
    """Simplify AND (neutral: TRUE) and OR (neutral: FALSE)."""
    parts: list[Rex] = []
    for each in call.operands:
        if _is(each, not neutral):
            return each
        same = isinstance(each, Call) and each.function == call.function
        for part in each.operands if same and isinstance(each, Call) else (each,):
            if not _is(part, neutral) and part not in parts:
                parts.append(part)
    if not parts:
        return Literal(t.BooleanType(nullable=False), neutral)
    if len(parts) == 1:
        return parts[0]
    return call if tuple(parts) == call.operands else Call(call.type, call.function, tuple(parts))


def _negated(call: Call) -> Rex:
    (inner,) = call.operands
    if isinstance(inner, Literal):
        return Literal(inner.type, None if inner.value is None else not inner.value)
    if isinstance(inner, Call) and inner.function == "NOT":
        return inner.operands[0]
    return call


def _null_test(call: Call, when_null: bool) -> Rex:
    (inner,) = call.operands
    if isinstance(inner, Literal):
        return Literal(call.type, (inner.value is None) == when_null)
    return call if inner.type.is_nullable else Literal(call.type, not when_null)


def _case(call: Call) -> Rex:
    *pairs, last = call.operands
    kept: list[Rex] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if isinstance(condition, Literal):
            if condition.value is not True:
                continue
            last = value
            break
        kept += [condition, value]
    if not kept:
        return cast_to(last, call.type)
    return call if len(kept) + 1 == len(call.operands) else Call(call.type, "CASE", (*kept, last))


def _coalesce(call: Call) -> Rex:
    parts: list[Rex] = []
    for each in call.operands:
        if isinstance(each, Literal) and each.value is None:
            continue
        parts.append(each)
        if not each.type.is_nullable:
            break
    if not parts:
        return Literal(call.type.nullable(), None)
    if len(parts) == 1:
        return parts[0]
    return call if len(parts) == len(call.operands) else Call(call.type, "COALESCE", tuple(parts))


_RULES: dict[str, Callable[[Call], Rex]] = {
    "AND": lambda call: _connected(call, True),
    "OR": lambda call: _connected(call, False),
    "NOT": _negated,
    "IS NULL": lambda call: _null_test(call, True),
    "IS NOT NULL": lambda call: _null_test(call, False),
    "CASE": _case,
    "COALESCE": _coalesce,
}
