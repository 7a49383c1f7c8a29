"""Taking expressions apart and putting them together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    UserCall,
    rewrite,
    walk,
)
from penstock.sql.types import BooleanType

TRUE = Literal(BooleanType(False), True)
# Give another value each time they are asked.
NON_DETERMINISTIC = frozenset(
    {"RAND", "RAND_INTEGER", "UUID", "PROCTIME", "CURRENT_WATERMARK", "UNIX_TIMESTAMP"}
    | {"NOW", "CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP", "LOCALTIMESTAMP", "LOCALTIME"}
    | {"CURRENT_TIME", "CURRENT_DATE"}
)


def is_deterministic(rex: Rex) -> bool:
    """Whether an expression has the same value each time it is computed of the same row."""
    for each in walk(rex):
        if isinstance(each, UserCall) and not each.deterministic:
            return False
        if isinstance(each, Call) and each.function in NON_DETERMINISTIC:
            return False
    return True


def may_fail(rex: Rex) -> bool:
    """Whether computing an expression may raise, so that it must not be tried on rows that were left out before."""
    return any(
        isinstance(each, UserCall)
        or (isinstance(each, Call) and each.function in {"CAST", "/", "%", "MOD", "ITEM"})
        for each in walk(rex)
    )


def conjuncts(rex: Rex | None) -> list[Rex]:
    """Return the conditions that AND connects; none for TRUE."""
    if rex is None or (isinstance(rex, Literal) and rex.value is True):
        return []
    if isinstance(rex, Call) and rex.function == "AND":
        return [part for each in rex.operands for part in conjuncts(each)]
    return [rex]


def all_of(conditions: Iterable[Rex]) -> Rex | None:
    """Return conditions connected by one AND, however many they are; None if there are none."""
    found = list(conditions)
    if not found:
        return None
    if len(found) == 1:
        return found[0]
    nullable = any(each.type.is_nullable for each in found)
    return Call(BooleanType(nullable), "AND", tuple(found))


def remap(rex: Rex, where: Callable[[InputRef], Rex]) -> Rex:
    """Return an expression with its columns replaced."""
    return rewrite(rex, lambda each: where(each) if isinstance(each, InputRef) else each)
