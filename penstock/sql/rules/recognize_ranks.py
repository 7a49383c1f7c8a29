"""ROW_NUMBER() OVER (...) with a condition on the number is a Top-N, which keeps far less than all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    inputs_of,
)
from penstock.sql.expr.rewriting import all_of, conjuncts, remap
from penstock.sql.expr.typing import is_integer
from penstock.sql.logical.nodes import (
    LogicalFilter,
    LogicalNode,
    LogicalOverAggregate,
    LogicalProject,
    LogicalRank,
)
from penstock.sql.logical.transform import refs, transform

FUNCTIONS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(slots=True)
class _Bounds:
    start: int = 1
    end: int | None = None
    end_column: int | None = None


def recognize_ranks(roots: Sequence[LogicalNode]) -> list[LogicalNode]:
    """Turn filters over ranking functions into ranks, everywhere in a plan.

    >>> from penstock.sql.rules.examples import show_rule
    >>> show_rule(
    ...     recognize_ranks,
    ...     "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    ...     "auction ORDER BY price DESC) AS n FROM bids) WHERE n <= 3",
    ... )
      LogicalProject(auction=[auction], price=[price])
      +- LogicalFilter(condition=[(n <= 3)])
         +- LogicalProject(auction=[auction], bidder=[bidder], price=[price], n=[w1$0])
            +- LogicalOverAggregate(partitionBy=[auction], orderBy=[price DESC], calls=[ROW_NUMBER()])
               +- LogicalTableScan(table=[[c, d, bids]])
    becomes
      LogicalProject(auction=[auction], price=[price])
      +- LogicalProject(auction=[auction], bidder=[bidder], price=[price], n=[w1$0])
         +- LogicalRank(rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=3], partitionBy=[auction], orderBy=[price DESC])
            +- LogicalTableScan(table=[[c, d, bids]])
    """
    return [transform(root, _rank) for root in roots]


def _rank(node: LogicalNode) -> LogicalNode:
    if not isinstance(node, LogicalFilter):
        return node
    found = _over_below(node.input)
    if found is None:
        return node
    over, columns = found
    if len(over.calls) != 1 or over.calls[0].function not in FUNCTIONS or not over.window.order:
        return node
    number = len(over.input.schema)
    bounds = _Bounds()
    rest: list[Rex] = []
    for each in conjuncts(node.condition):
        placed = remap(each, lambda ref: columns[ref.index])
        if number not in inputs_of(placed) or not _narrow(bounds, placed, number):
            rest.append(each)
    if bounds.end is None:
        rest = _bounded_by_column(bounds, rest, columns, number)
    if bounds.end is None and bounds.end_column is None:
        return node
    rank = LogicalRank(
        schema=over.schema,
        input=over.input,
        partition=over.window.partition,
        order=over.window.order,
        function=over.calls[0].function,
        start=bounds.start,
        end=bounds.end,
        end_column=bounds.end_column,
        place=over.place,
    )
    whole: LogicalNode = LogicalProject(schema=node.schema, input=rank, expressions=tuple(columns))
    condition = all_of(rest)
    return whole if condition is None else replace(node, input=whole, condition=condition)


def _over_below(node: LogicalNode) -> tuple[LogicalOverAggregate, list[Rex]] | None:
    """Return the OVER below projections, and the mapping of its columns above them."""
    if isinstance(node, LogicalOverAggregate):
        return node, list(refs(node.schema))
    if not isinstance(node, LogicalProject):
        return None
    found = _over_below(node.input)
    if found is None:
        return None
    over, columns = found
    return over, [remap(each, lambda ref: columns[ref.index]) for each in node.expressions]


def _narrow(bounds: _Bounds, rex: Rex, number: int) -> bool:
    """Take a comparison of the number with a constant into the bounds."""
    comparison, other = _compared(rex, number)
    if not isinstance(other, Literal) or not is_integer(other.type) or other.value is None:
        return False
    _narrow_to(bounds, comparison, other.value)
    return True


def _bounded_by_column(
    bounds: _Bounds, conditions: list[Rex], columns: list[Rex], number: int
) -> list[Rex]:
    """Take a condition that a column is the last number; return the others. With a constant as the last number, all of them stay conditions."""
    for each in conditions:
        comparison, other = _compared(remap(each, lambda ref: columns[ref.index]), number)
        if isinstance(other, InputRef) and is_integer(other.type) and comparison == "<=":
            bounds.end_column = other.index
            return [one for one in conditions if one is not each]
    return conditions


def _compared(rex: Rex, number: int) -> tuple[str, Rex | None]:
    """Return the comparison of the rank in a condition, and its bound; None if there is none."""
    if not isinstance(rex, Call) or rex.function not in _MIRRORED or len(rex.operands) != 2:
        return "", None
    one, other, comparison = _plain(rex.operands[0]), _plain(rex.operands[1]), rex.function
    if isinstance(other, InputRef) and other.index == number:
        one, other, comparison = other, one, _MIRRORED[comparison]
    if not isinstance(one, InputRef) or one.index != number:
        return "", None
    return comparison, other


def _plain(rex: Rex) -> Rex:
    """Look through casts of whole numbers, which widen one to compare it."""
    while isinstance(rex, Call) and rex.function == "CAST" and is_integer(rex.operands[0].type):
        rex = rex.operands[0]
    return rex


def _narrow_to(bounds: _Bounds, comparison: str, value: int) -> None:
    if comparison in {"=", ">=", ">"}:
        bounds.start = max(bounds.start, value + (comparison == ">"))
    if comparison in {"=", "<=", "<"}:
        end = value - (comparison == "<")
        bounds.end = end if bounds.end is None else min(bounds.end, end)
