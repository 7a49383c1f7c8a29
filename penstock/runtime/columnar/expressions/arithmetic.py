"""Arithmetic as Java does it: whole numbers wrap around, division cuts off, and by zero fails."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from penstock.errors import RecordError
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions.compiler import (
    EXACT,
    ExpressionCompiler,
    compiles,
    rowwise,
)
from penstock.runtime.columnar.expressions.decimals import (
    digits_of,
    divided_half_up,
    exactly,
    scale_of,
    scaled,
    unscaled,
    whole,
)
from penstock.runtime.columnar.expressions.intervals import time_arithmetic
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import Call, Literal, Rex
from penstock.sql.expr.typing import MOST_DIGITS

_SIMPLE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


@compiles("+", "-", "*")
def _simple(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    left, right = compiler.operands(call)
    of_times = time_arithmetic(compiler, call, left, right)
    if of_times is not None:
        return of_times
    if isinstance(call.type, t.DecimalType):
        return _decimal(call, left, right)
    result: pl.Expr = _SIMPLE[call.function](left, right)
    return result


def _decimal(call: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Return a sum, difference or product. Of up to 38 digits it cannot overflow; else it is computed exactly, row by row."""
    target = call.type
    assert isinstance(target, t.DecimalType)
    first, second = (each.type for each in call.operands)
    operation = _SIMPLE[call.function]
    scales = scale_of(first), scale_of(second)
    if call.function == "*":
        if digits_of(first) + digits_of(second) <= MOST_DIGITS and sum(scales) == target.scale:
            product = unscaled(left, first) * unscaled(right, second)
            return scaled(product, target.scale)
    elif max(d - s for d, s in _sizes(first, second)) + max(scales) < MOST_DIGITS:
        parts = [
            unscaled(each, kind) * whole(10 ** (target.scale - scale))
            if target.scale > scale
            else unscaled(each, kind)
            for each, kind, scale in zip((left, right), (first, second), scales, strict=True)
        ]
        return scaled(operation(*parts), target.scale)
    named: dict[str, Any] = {"+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply}
    return rowwise(exactly(named[call.function], target), [left, right], target)


def _sizes(*types: t.DataType) -> list[tuple[int, int]]:
    return [(digits_of(each), scale_of(each)) for each in types]


# --- division ----------------------------------------------------------------------------------------


def _never_zero(rex: Rex) -> bool:
    return isinstance(rex, Literal) and rex.value is not None and rex.value != 0


def _checked(divisor: pl.Expr, dividend: pl.Expr, rex: Rex) -> pl.Expr:
    """Return the divisor; computing it fails if it is zero where there is something to divide."""
    if _never_zero(rex):
        return divisor

    def check(columns: Sequence[pl.Series]) -> pl.Series:
        by, given = columns
        zeros = (by == 0) & given.is_not_null() if len(given) in {1, len(by)} else by == 0
        if zeros.any():
            raise RecordError("division by zero", hint="use NULLIF(divisor, 0) to get NULL instead")
        return by

    return pl.map_batches(
        [divisor, dividend], check, return_dtype=dtype_of(rex.type), is_elementwise=True
    )


def exact_quotient(left: pl.Expr, right: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return floating-point quotients that are the nearest to the true ones: by one number, Polars multiplies with its inverse, which often is not."""

    def divide(columns: Sequence[pl.Series]) -> pl.Series:
        length = max(map(len, columns)) if all(map(len, columns)) else 0
        whole = [
            each if len(each) == length else each.new_from_index(0, length) for each in columns
        ]
        if length > 1:
            return whole[0] / whole[1]
        with np.errstate(all="ignore"):
            made = pl.Series(whole[0].to_numpy() / whole[1].to_numpy(), dtype=dtype)
        return made.set(whole[0].is_null() | whole[1].is_null(), None)

    return pl.map_batches([left, right], divide, return_dtype=dtype, is_elementwise=True)


@compiles("/")
def _divide(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    left, right = compiler.operands(call)
    of_times = time_arithmetic(compiler, call, left, right)
    if of_times is not None:
        return of_times
    if ty.is_approximate(call.type):
        return exact_quotient(left, right, dtype_of(call.type))
    divisor = _checked(right, left, call.operands[1])
    if ty.is_integer(call.type):
        return left.truncdiv(divisor)
    return _divide_decimals(call, left, divisor)


def _divide_decimals(call: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    target = call.type
    assert isinstance(target, t.DecimalType)
    first, second = (each.type for each in call.operands)
    by = call.operands[1]
    shift = target.scale + scale_of(second) - scale_of(first)
    if isinstance(by, Literal) and by.value and shift >= 0:
        divisor = int(Decimal(by.value).scaleb(scale_of(second)))
        if digits_of(first) + shift <= MOST_DIGITS - 1:
            numbers = unscaled(left, first) * whole(10**shift * (1 if divisor > 0 else -1))
            return scaled(divided_half_up(numbers, abs(divisor)), target.scale)

    def divide(a: Decimal, b: Decimal) -> Decimal | None:
        return EXACT.divide(a, b) if b else None

    return rowwise(exactly(divide, target), [left, right], target)


@compiles("%")
def _remainder(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    left, right = compiler.operands(call)
    divisor = _checked(right, left, call.operands[1])
    if isinstance(call.type, t.DecimalType):

        def remainder(a: Decimal, b: Decimal) -> Decimal | None:
            return EXACT.remainder(a, b) if b else None

        return rowwise(exactly(remainder, call.type), [left, divisor], call.type)
    by = call.operands[1]
    if isinstance(by, Literal) and by.value is not None and by.value > 0:
        floored = left % divisor  # of the divisor's sign, where Java has the dividend's
        return pl.when((left < 0) & (floored != 0)).then(floored - divisor).otherwise(floored)
    return left - left.truncdiv(divisor) * divisor


@compiles("NEGATE")
def _negate(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    (value,) = compiler.operands(call)
    if isinstance(call.type, t.DecimalType):
        return scaled(whole(0) - unscaled(value, call.type), call.type.scale)
    return -value


@compiles("ABS")
def _absolute(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    (value,) = compiler.operands(call)
    if isinstance(call.type, t.DecimalType):
        return scaled(unscaled(value, call.type).abs(), call.type.scale)
    if isinstance(call.type, t.IntegralType):
        return pl.when(value < 0).then(-value).otherwise(value)  # the lowest number stays as it is
    return value.abs()


@compiles("SIGN")
def _sign(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    (value,) = compiler.operands(call)
    if isinstance(call.type, t.DecimalType):
        unit = whole(10**call.type.scale)
        return scaled(unscaled(value, call.type).sign() * unit, call.type.scale)
    return value.sign()
