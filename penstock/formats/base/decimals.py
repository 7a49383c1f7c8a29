"""Decimal numbers of a declared precision and scale, like Flink's DECIMAL(p, s)."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any


def decimal_fitter(precision: int, scale: int) -> Callable[[Any], decimal.Decimal | None]:
    """Return the function that rounds numbers half up to `scale` decimal places.

    A number that needs more than `precision` digits then becomes None, as in Flink.

    >>> fit = decimal_fitter(4, 2)
    >>> [str(fit(decimal.Decimal(text))) for text in ("1.005", "-7", "99.994", "99.995")]
    ['1.01', '-7.00', '99.99', 'None']
    """
    context = decimal.Context(
        prec=precision, rounding=decimal.ROUND_HALF_UP, traps=[decimal.InvalidOperation]
    )
    quantum = decimal.Decimal(1).scaleb(-scale)

    def fit(value: object) -> decimal.Decimal | None:
        number = to_decimal(value)
        try:
            rounded = number.quantize(quantum, context=context)
        except decimal.InvalidOperation:
            return None
        return rounded or rounded.copy_abs()  # no negative zero

    return fit


def to_decimal(value: Any) -> decimal.Decimal:
    """Return a number, or a text that contains one, as a finite decimal; a float is converted from its repr."""
    if isinstance(value, decimal.Decimal):
        number = value
    elif isinstance(value, int):
        number = decimal.Decimal(value)
    elif isinstance(value, (str, float)):
        try:
            number = decimal.Decimal(str(value))
        except decimal.InvalidOperation:
            raise ValueError(f"not a number: {value!r}") from None
    else:
        raise TypeError(f"not a number: {value!r}")
    if not number.is_finite():
        raise ValueError(f"not a finite number: {value!r}")
    return number


def shortest_text(number: decimal.Decimal) -> str:
    """Return a decimal without trailing zeros: 1.50 is 1.5 and, as in Flink's CSV files, 100 is 1E+2."""
    return str(number.normalize(_ALL_DIGITS)) if number else "0"


_ALL_DIGITS = decimal.Context(prec=decimal.MAX_PREC)
