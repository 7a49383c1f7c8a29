"""Conditions and their parts, and fields of rows, as typed expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from penstock.sql.expr import functions
from penstock.sql.expr.nodes import Call, Literal, Rex
from penstock.sql.types import BooleanType, IntType, RowType

TRUE = Literal(BooleanType(nullable=False), True)


def field_access(rex: Rex, position: int) -> Rex:
    """Return a field of a row; of a row that can be NULL, it can be, too."""
    kind = rex.type
    assert isinstance(kind, RowType)
    found = kind.fields[position].data_type
    if kind.is_nullable:
        found = found.nullable()
    return Call(found, "FIELD", (rex, Literal(IntType(nullable=False), position)))


def tree_conjuncts(tree: exp.Expr) -> Iterator[Any]:
    """Go through the parts of a condition that AND connects."""
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        while isinstance(each, exp.Paren):
            each = each.this
        if isinstance(each, exp.And):
            waiting += [each.expression, each.this]
        else:
            yield each


def conjuncts(rex: Rex) -> list[Rex]:
    """Return the parts of a condition that are connected by AND."""
    if isinstance(rex, Call) and rex.function == "AND":
        return [part for each in rex.operands for part in conjuncts(each)]
    if isinstance(rex, Literal) and rex.value is True:
        return []
    return [rex]


def conjunction(parts: Sequence[Rex]) -> Rex:
    """Return conditions connected by AND; TRUE if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    nullable = any(each.type.is_nullable for each in parts)
    return Call(BooleanType(nullable=nullable), "AND", tuple(parts))


def simple_call(name: str, operands: Sequence[Rex]) -> Rex:
    """Return a call that cannot fail to be typed."""
    return functions.resolve(name, operands)
