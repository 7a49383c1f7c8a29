"""Logic of three values, comparison, CASE and COALESCE, LIKE."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from typing import Any

import polars as pl

from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions.compiler import (
    EXACT,
    ExpressionCompiler,
    can_fail,
    compiles,
    literal,
    rowwise,
    simply,
)
from penstock.runtime.columnar.expressions.patterns import like_pattern, similar_pattern
from penstock.runtime.columnar.expressions.regexes import extracts
from penstock.sql import types as t
from penstock.sql.expr.nodes import Call, Literal, Rex

simply("NOT", lambda a: ~a)


@compiles("IS NULL", "IS NOT NULL")
def _null_test(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    (inner,) = call.operands
    wanted = call.function == "IS NOT NULL"
    if isinstance(inner, Call) and inner.function == "REGEXP_EXTRACT":
        known = extracts(compiler, inner)
        if known is not None:
            return known if wanted else ~known
    value = compiler.compile(inner)
    return value.is_not_null() if wanted else value.is_null()


simply("IS TRUE", lambda a: a.fill_null(value=False))
simply("IS NOT TRUE", lambda a: ~a.fill_null(value=False))
simply("IS FALSE", lambda a: ~a.fill_null(value=True))
simply("IS NOT FALSE", lambda a: a.fill_null(value=True))
simply("IS UNKNOWN", lambda a: a.is_null())
simply("IS NOT UNKNOWN", lambda a: a.is_not_null())


@compiles("AND")
def _and(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    first, *rest = call.operands
    result = compiler.compile(first)
    for each in rest:  # later operands are not evaluated where it is already FALSE
        inner = compiler.under(result.fill_null(value=True)) if can_fail(each) else compiler
        result = result & inner.compile(each)
    return result


@compiles("OR")
def _or(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    first, *rest = call.operands
    result = compiler.compile(first)
    for each in rest:
        inner = compiler.under(~result.fill_null(value=False)) if can_fail(each) else compiler
        result = result | inner.compile(each)
    return result


# --- comparison --------------------------------------------------------------------------------------


def _compare(name: str, operation: Any) -> None:
    @compiles(name)
    def compiled(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
        left, right = compiler.operands(call)
        kind = call.operands[0].type
        if isinstance(kind, t.FloatType | t.DoubleType):
            return _with_nan(name, operation(left, right), left, right)
        if isinstance(kind, t.ArrayType | t.MapType | t.RowType | t.MultisetType):
            return rowwise(lambda a, b: (a == b) == (name == "="), [left, right], call.type)
        result: pl.Expr = operation(left, right)
        return result


def _with_nan(name: str, result: pl.Expr, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Compare as Java does: NaN is equal to nothing."""
    differs = left.is_nan() | right.is_nan()
    return pl.when(differs).then(pl.lit(name == "<>")).otherwise(result)


_compare("=", lambda a, b: a == b)
_compare("<>", lambda a, b: a != b)
_compare("<", lambda a, b: a < b)
_compare("<=", lambda a, b: a <= b)
_compare(">", lambda a, b: a > b)
_compare(">=", lambda a, b: a >= b)
simply("IS DISTINCT FROM", lambda a, b: a.ne_missing(b))
simply("IS NOT DISTINCT FROM", lambda a, b: a.eq_missing(b))


@compiles("IN")
def _in(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    value, *choices = call.operands
    tested = compiler.compile(value)
    if (
        all(isinstance(each, Literal) for each in choices)
        and not isinstance(value, Literal)
        and not _nested(value.type)
    ):
        known = [each.value for each in choices if isinstance(each, Literal)]
        present = [each for each in known if each is not None]
        dtype = dtype_of(value.type)
        found = tested.is_in(
            pl.Series([_exact(each, value.type) for each in present], dtype=dtype).implode()
        )
        # x IN (1, NULL) is never FALSE
        return pl.when(found).then(pl.lit(value=True)) if len(present) < len(known) else found
    tests = [tested == compiler.compile(each) for each in choices]
    return reduce(lambda a, b: a | b, tests)


def _exact(value: Any, data_type: t.DataType) -> object:
    if not isinstance(data_type, t.DecimalType):
        return value
    return Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), context=EXACT)


def _nested(data_type: t.DataType) -> bool:
    return isinstance(data_type, t.ArrayType | t.MapType | t.RowType | t.MultisetType)


# --- conditions --------------------------------------------------------------------------------------


@compiles("CASE")
def _case(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    *pairs, last = call.operands
    conditions: list[pl.Expr] = []
    results: list[pl.Expr] = []
    before = compiler
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        tested = before.compile(condition)
        conditions.append(tested)
        holds = tested.fill_null(value=False)
        results.append((before.under(holds) if can_fail(value) else before).compile(value))
        before = before.under(~holds) if _any_fails(call) else before
    otherwise = before.compile(last)
    dtype = dtype_of(call.type)
    result = otherwise
    for holds, made in zip(reversed(conditions), reversed(results), strict=True):
        result = pl.when(holds).then(made).otherwise(result)
    return result if dtype != pl.Null() else pl.lit(None)


def _any_fails(call: Call) -> bool:
    return any(can_fail(each) for each in call.operands)


@compiles("COALESCE")
def _coalesce(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    parts: list[pl.Expr] = []
    before = compiler
    for each in call.operands:
        part = before.compile(each)
        parts.append(part)
        if _any_fails(call):
            before = before.under(part.is_null())
    return pl.coalesce(parts)


def _extreme(name: str, horizontal: object) -> None:
    @compiles(name)
    def compiled(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
        operands = compiler.operands(call)
        missing = reduce(lambda a, b: a | b, [each.is_null() for each in operands])
        return pl.when(~missing).then(_chosen(operands, horizontal))


def _chosen(operands: list[pl.Expr], better: Any) -> pl.Expr:
    result = operands[0]
    for each in operands[1:]:
        result = pl.when(better(each, result)).then(each).otherwise(result)
    return result


_extreme("GREATEST", lambda a, b: a > b)
_extreme("LEAST", lambda a, b: a < b)

# --- patterns ----------------------------------------------------------------------------------------


@compiles("LIKE")
def _like(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    text, pattern = compiler.compile(call.operands[0]), call.operands[1]
    escape = _constant(call.operands[2]) if len(call.operands) > 2 else None
    if isinstance(pattern, Literal) and (len(call.operands) == 2 or escape is not None):
        if pattern.value is None:
            return literal(None, call.type)
        return _constant_like(text, pattern.value, escape)
    import re

    def matches(value: str, given: str, escaped: str | None = None) -> bool:
        return re.match(like_pattern(given, escaped), value) is not None

    return rowwise(matches, compiler.operands(call), call.type)


def _constant_like(text: pl.Expr, pattern: str, escape: str | None) -> pl.Expr:
    """Return the simple cases without regular expressions: a text that is, starts with, ends with, or contains another."""
    inner = pattern.strip("%")
    plain = escape is None and "_" not in pattern and "%" not in inner
    if plain and inner and pattern in {inner, f"{inner}%", f"%{inner}", f"%{inner}%"}:
        starts, ends = pattern.startswith("%"), pattern.endswith("%")
        if starts and ends:
            return text.str.contains(inner, literal=True)
        if starts:
            return text.str.ends_with(inner)
        return text.str.starts_with(inner) if ends else text == inner
    return text.str.contains(like_pattern(pattern, escape))


def _constant(rex: Rex) -> Any:
    return rex.value if isinstance(rex, Literal) else None


@compiles("SIMILAR TO")
def _similar(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    import re

    def matches(value: str, given: str, escaped: str | None = None) -> bool:
        return re.fullmatch(similar_pattern(given, escaped), value) is not None

    return rowwise(matches, compiler.operands(call), call.type)
