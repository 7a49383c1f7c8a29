"""Conditions over values of a match, one match at a time: as Python where that is simple, else as an expression over one row."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import polars as pl

from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.aggregates.rowwise import wrapped
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.patterns.leaves import PatternLeaf, column_of, plain_values
from penstock.sql import types as t
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
)

Values = Sequence[Any]
Evaluate = Callable[[Values], Any]

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def evaluator(rex: Rex, leaves: Sequence[PatternLeaf], zone: str) -> Evaluate:
    """Return a function that computes an expression over leaves from their values."""
    simple = _simple(rex)
    if simple is not None:
        return simple
    expression = compile_expression(rex, zone).alias("value")
    dtypes = [leaf.dtype for leaf in leaves]

    def evaluate(values: Values) -> object:
        row = pl.DataFrame(
            [
                column_of(column(at), [value], dtype)
                for at, (value, dtype) in enumerate(zip(values, dtypes, strict=True))
            ]
        )
        return row.select(expression)["value"][0]

    return evaluate


def _simple(rex: Rex) -> Evaluate | None:
    """Return an expression as Python; None if its parts are not as simple as that."""
    if isinstance(rex, InputRef):
        return operator.itemgetter(rex.index)
    if isinstance(rex, Literal):
        if rex.value is None:
            return lambda _: None
        constant = plain_values(pl.Series([rex.value], dtype=dtype_of(rex.type)))[0]
        return lambda _: constant
    if not isinstance(rex, Call):
        return None
    parts = [_simple(each) for each in rex.operands]
    if any(each is None for each in parts):
        return None
    return _call(rex, [each for each in parts if each is not None])


def _call(rex: Call, parts: list[Evaluate]) -> Evaluate | None:
    function = rex.function
    types = [each.type for each in rex.operands]
    if function in _COMPARE and len(parts) == 2 and _are_alike(types):
        return _both(_COMPARE[function], parts)
    if function in _COMPUTE and len(parts) == 2:
        return _arithmetic(_COMPUTE[function], rex.type, types, parts)
    if function == "AND":
        return _and(parts)
    if function == "OR":
        return _or(parts)
    if function == "NOT":
        (inner,) = parts
        return lambda values: None if (found := inner(values)) is None else not found
    if function in {"IS NULL", "IS NOT NULL"}:
        (inner,) = parts
        wanted = function == "IS NULL"
        return lambda values: (inner(values) is None) == wanted
    if function == "CAST":
        return _cast(rex.type, types[0], parts[0])
    return None


def _are_alike(types: Sequence[t.DataType]) -> bool:
    """Whether values can be compared as they are."""
    if all(isinstance(each, t.NumericType) for each in types):
        return True
    one, other = (dtype_of(each) for each in types)
    return one == other and not one.is_nested()


def _both(function: Callable[[Any, Any], Any], parts: Sequence[Evaluate]) -> Evaluate:
    left, right = parts

    def evaluate(values: Values) -> object:
        one, other = left(values), right(values)
        return None if one is None or other is None else function(one, other)

    return evaluate


def _arithmetic(
    function: Callable[[Any, Any], Any],
    result: t.DataType,
    types: Sequence[t.DataType],
    parts: Sequence[Evaluate],
) -> Evaluate | None:
    compute = _both(function, parts)
    if all(isinstance(each, t.IntegralType) for each in (result, *types)):

        def evaluate(values: Values) -> object:
            found = compute(values)
            return None if found is None else wrapped(found, result)

        return evaluate
    if isinstance(result, t.DoubleType) and all(
        isinstance(each, t.IntegralType | t.DoubleType) for each in types
    ):
        return compute
    return None


def _cast(result: t.DataType, given: t.DataType, inner: Evaluate) -> Evaluate | None:
    if dtype_of(result) == dtype_of(given) and not isinstance(
        result, t.DecimalType | t.CharType | t.VarCharType
    ):
        return inner
    if isinstance(result, t.DoubleType) and isinstance(given, t.IntegralType | t.FloatType):
        return lambda values: None if (found := inner(values)) is None else float(found)
    if isinstance(result, t.BigIntType) and isinstance(given, t.IntegralType):
        return inner
    return None


def _and(parts: Sequence[Evaluate]) -> Evaluate:
    def evaluate(values: Values) -> object:
        result: Any = True
        for part in parts:
            found = part(values)
            if found is None:
                result = None
            elif not found:
                return False
        return result

    return evaluate


def _or(parts: Sequence[Evaluate]) -> Evaluate:
    def evaluate(values: Values) -> object:
        result: Any = False
        for part in parts:
            found = part(values)
            if found is None:
                result = None
            elif found:
                return True
        return result

    return evaluate
