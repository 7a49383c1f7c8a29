"""Constants are computed once, when the plan is made; conditions that cannot be TRUE leave no rows."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from penstock.columnar.expressions import compile_expression
from penstock.columnar.values import values_of_series
from penstock.errors import PenstockError
from penstock.table.expressions.folding import simplified
from penstock.table.expressions.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
    UserCall,
    rewrite,
    walk,
)
from penstock.table.plan.nodes import Field, Filter, Join, Node, Project, SetOperation, Values
from penstock.table.rules.expressions import TRUE, all_of, conjuncts, is_deterministic
from penstock.table.rules.trees import transform, with_expressions
from penstock.table.types import AtomicType, NullType


def fold_constants(node: Node, zone: str) -> Node:
    """Compute all constants of a plan; `zone` is the session time zone."""

    def fold(rex: Rex) -> Rex:
        return rewrite(rex, lambda each: _folded(simplified(each), zone))

    def change(each: Node) -> Node:
        folded = with_expressions(each, fold)
        match folded:
            case Filter():
                return _filter(replace(folded, condition=_condition(folded.condition)))
            case Join():
                return _join(replace(folded, condition=_condition(folded.condition)))
        return folded

    return transform(node, change)


def _condition(rex: Rex) -> Rex:
    return all_of(conjuncts(rex)) or TRUE


def _is_never_true(condition: Rex) -> bool:
    return any(isinstance(each, Literal) and not each.value for each in conjuncts(condition))


def _join(node: Join) -> Node:
    """A join whose condition cannot be TRUE leaves rows without a partner, where the kind of join keeps them."""
    if not _is_never_true(node.condition):
        return node
    if node.kind == "ANTI":
        return node.left
    width = len(node.left.schema)
    alone: list[Node] = []
    if node.kind in {"LEFT", "FULL"}:
        alone.append(_padded(node, node.left, 0))
    if node.kind in {"RIGHT", "FULL"}:
        alone.append(_padded(node, node.right, width))
    if len(alone) == 2:
        return SetOperation(schema=alone[0].schema, parts=tuple(alone), kind="UNION", all=True)
    return alone[0] if alone else Values(schema=node.schema, rows=())


def _padded(node: Join, side: Node, start: int) -> Node:
    """Return the rows of one side with NULLs for the other."""
    end = start + len(side.schema)
    columns = tuple(
        InputRef(field.type, at - start)
        if start <= at < end
        else Literal(field.type.nullable(), None)
        for at, field in enumerate(node.schema)
    )
    plain = tuple(Field(field.name, field.type) for field in node.schema)
    return Project(schema=plain, input=side, expressions=columns)


def _filter(node: Filter) -> Node:
    if _is_never_true(node.condition):
        return Values(schema=node.schema, rows=())
    return node.input if node.condition is TRUE else node


def _folded(rex: Rex, zone: str) -> Rex:
    if not isinstance(rex, Call) or not rex.operands or not is_deterministic(rex):
        return rex
    if any(not isinstance(each, Call | Literal | Symbol) for each in walk(rex)):
        return rex
    parts = [each for each in walk(rex) if isinstance(each, UserCall)]
    if parts or not isinstance(rex.type, AtomicType) or isinstance(rex.type, NullType):
        return rex
    try:
        found = pl.select(compile_expression(rex, zone)).to_series()
        (value,) = values_of_series(found, rex.type)
    except (PenstockError, pl.exceptions.PolarsError, ValueError, ArithmeticError):
        return rex  # an error is raised at run time, if the value is needed at all
    return Literal(rex.type, value)
