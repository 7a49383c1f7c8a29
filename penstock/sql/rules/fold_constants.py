"""Constants are computed once, when the plan is made; conditions that cannot be TRUE leave no rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from penstock.errors import PenstockError
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.values import values_of_series
from penstock.sql.expr.folding import simplified
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    Symbol,
    UserCall,
    rewrite,
    walk,
)
from penstock.sql.expr.rewriting import (
    TRUE,
    all_of,
    conjuncts,
    is_deterministic,
)
from penstock.sql.logical.nodes import (
    Field,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalProject,
    LogicalSetOperation,
    LogicalValues,
)
from penstock.sql.logical.transform import transform, with_expressions
from penstock.sql.types import AtomicType, NullType


def fold_constants(roots: Sequence[LogicalNode], zone: str) -> list[LogicalNode]:
    """Compute all constants of a plan; `zone` is the session time zone.

    >>> from functools import partial
    >>> from penstock.sql.rules.examples import show_rule
    >>> rule = partial(fold_constants, zone="UTC")
    >>> show_rule(rule, "SELECT price * (60 * 60) FROM bids WHERE 1 + 1 = 2 AND price > 10 * 10")
      LogicalProject(EXPR$0=[(price * CAST((60 * 60) AS BIGINT NOT NULL))])
      +- LogicalFilter(condition=[(((1 + 1) = 2) AND (price > CAST((10 * 10) AS BIGINT NOT NULL)))])
         +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalProject(EXPR$0=[(price * 3600)])
      +- LogicalFilter(condition=[(price > 100)])
         +- LogicalTableScan(table=[[c, d, bids]])
    """

    def fold(rex: Rex) -> Rex:
        return rewrite(rex, lambda each: _folded(simplified(each), zone))

    def change(each: LogicalNode) -> LogicalNode:
        folded = with_expressions(each, fold)
        match folded:
            case LogicalFilter():
                return _filter(replace(folded, condition=_condition(folded.condition)))
            case LogicalJoin():
                return _join(replace(folded, condition=_condition(folded.condition)))
        return folded

    return [transform(root, change) for root in roots]


def _condition(rex: Rex) -> Rex:
    return all_of(conjuncts(rex)) or TRUE


def _is_never_true(condition: Rex) -> bool:
    return any(isinstance(each, Literal) and not each.value for each in conjuncts(condition))


def _join(node: LogicalJoin) -> LogicalNode:
    """A join whose condition cannot be TRUE leaves rows without a partner, where the kind of join keeps them."""
    if not _is_never_true(node.condition):
        return node
    if node.kind == "ANTI":
        return node.left
    width = len(node.left.schema)
    alone: list[LogicalNode] = []
    if node.kind in {"LEFT", "FULL"}:
        alone.append(_padded(node, node.left, 0))
    if node.kind in {"RIGHT", "FULL"}:
        alone.append(_padded(node, node.right, width))
    if len(alone) == 2:
        return LogicalSetOperation(
            schema=alone[0].schema, parts=tuple(alone), kind="UNION", all=True
        )
    return alone[0] if alone else LogicalValues(schema=node.schema, rows=())


def _padded(node: LogicalJoin, side: LogicalNode, start: int) -> LogicalNode:
    """Return the rows of one side with NULLs for the other."""
    end = start + len(side.schema)
    columns = tuple(
        InputRef(field.type, at - start)
        if start <= at < end
        else Literal(field.type.nullable(), None)
        for at, field in enumerate(node.schema)
    )
    plain = tuple(Field(field.name, field.type) for field in node.schema)
    return LogicalProject(schema=plain, input=side, expressions=columns)


def _filter(node: LogicalFilter) -> LogicalNode:
    if _is_never_true(node.condition):
        return LogicalValues(schema=node.schema, rows=())
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
