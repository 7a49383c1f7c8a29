"""Decimal numbers as whole numbers of 128 bits: exact, rounded half up, NULL when they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import polars as pl

from penstock.runtime.columnar.expressions.compiler import EXACT, rowwise
from penstock.sql import types as t
from penstock.sql.expr.typing import MOST_DIGITS

_DIGITS: dict[type[t.DataType], int] = {t.TinyIntType: 3, t.SmallIntType: 5, t.IntType: 10}


def whole(number: int) -> pl.Expr:
    """Return a constant of 128 bits."""
    return pl.lit(number, dtype=pl.Int128())


def unscaled(expression: pl.Expr, data_type: t.DataType) -> pl.Expr:
    """Return a decimal or whole number without its point: 1.25 as 125."""
    if isinstance(data_type, t.DecimalType):
        return expression.to_physical()
    return expression.cast(pl.Int128())


def scale_of(data_type: t.DataType) -> int:
    """Return the number of digits behind the point."""
    return data_type.scale if isinstance(data_type, t.DecimalType) else 0


def digits_of(data_type: t.DataType) -> int:
    """Return how many digits a number can have."""
    if isinstance(data_type, t.DecimalType):
        return data_type.precision
    return _DIGITS.get(type(data_type), 19)


def scaled(numbers: pl.Expr, scale: int) -> pl.Expr:
    """Return integers as decimals with the given scale."""
    return numbers.reinterpret(dtype=pl.Decimal(MOST_DIGITS, scale))


def divided_half_up(numbers: pl.Expr, divisor: int) -> pl.Expr:
    """Return numbers divided by a positive constant, rounded half up (away from zero)."""
    return (numbers + numbers.sign() * whole(divisor // 2)).truncdiv(whole(divisor))


def fitting(numbers: pl.Expr, precision: int) -> pl.Expr:
    """Return numbers, or NULL where they have more digits."""
    limit = 10 ** min(precision, MOST_DIGITS)
    return pl.when(numbers.is_between(whole(1 - limit), whole(limit - 1))).then(numbers)


def rescaled(
    expression: pl.Expr, source: t.DataType, target: t.DecimalType, *, trusted: bool = False
) -> pl.Expr:
    """Return exact numbers as decimals of another type; `trusted`: they are known to fit."""
    before, after = scale_of(source), target.scale
    widest = digits_of(source) - before  # digits before the point
    if after > before and widest + after > MOST_DIGITS:
        return rowwise(_to_decimal(target), [expression], target)
    numbers = unscaled(expression, source)
    if after > before:
        numbers = numbers * whole(10 ** (after - before))
    elif after < before:
        numbers = divided_half_up(numbers, 10 ** (before - after))
    room = target.precision - after
    fits = widest < room or (widest == room and after >= before)
    return scaled(numbers if fits or trusted else fitting(numbers, target.precision), after)


def decimal_result(value: Decimal, target: t.DecimalType) -> Decimal | None:
    """Return an exact value as one of the type, or None if it has too many digits."""
    try:
        rounded = value.quantize(Decimal(1).scaleb(-target.scale), context=EXACT)
    except InvalidOperation:
        return None
    return rounded if len(rounded.as_tuple().digits) <= target.precision or not rounded else None


def _to_decimal(target: t.DecimalType) -> Callable[[Any], Decimal | None]:
    return lambda value: decimal_result(Decimal(value), target)


def exactly(
    operation: Callable[[Decimal, Decimal], Decimal | None], target: t.DecimalType
) -> Callable[[Any, Any], Decimal | None]:
    """Return an operation on decimals that rounds its result to the type."""

    def run(left: Any, right: Any) -> Decimal | None:
        result = operation(Decimal(left), Decimal(right))
        return None if result is None else decimal_result(result, target)

    return run
