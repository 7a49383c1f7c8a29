"""Functions of numbers: rounding, roots, logarithms, angles, chance, hashes."""

from __future__ import annotations

import hashlib
import ipaddress
import math
import random
import uuid
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import polars as pl

from penstock.errors import RecordError
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions.arithmetic import exact_quotient
from penstock.runtime.columnar.expressions.as_text import double_text
from penstock.runtime.columnar.expressions.casts import clear_rounding
from penstock.runtime.columnar.expressions.compiler import (
    EXACT,
    ExpressionCompiler,
    compiles,
    mostly,
    rowwise,
    simply,
)
from penstock.runtime.columnar.expressions.decimals import (
    divided_half_up,
    scale_of,
    scaled,
    unscaled,
    whole,
)
from penstock.runtime.columnar.expressions.texts import constant, each_row
from penstock.runtime.columnar.expressions.times import floor_time
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import Call

_NAN = float("nan")


def _logarithm(value: pl.Expr, base: float | None = None) -> pl.Expr:
    return value.log() if base is None else value.log(base)


_DIRECT: dict[str, Callable[..., pl.Expr]] = {
    "SQRT": pl.Expr.sqrt,
    "EXP": pl.Expr.exp,
    "LN": _logarithm,
    "SIN": pl.Expr.sin,
    "COS": pl.Expr.cos,
    "TAN": pl.Expr.tan,
    "ASIN": pl.Expr.arcsin,
    "ACOS": pl.Expr.arccos,
    "ATAN": pl.Expr.arctan,
    "SINH": pl.Expr.sinh,
    "COSH": pl.Expr.cosh,
    "TANH": pl.Expr.tanh,
    "DEGREES": pl.Expr.degrees,
    "RADIANS": pl.Expr.radians,
}


def _by_numpy(value: pl.Expr, function: Callable[[Any], Any]) -> pl.Expr:
    """Return a function of numpy: exact for powers of its base."""

    def run(values: pl.Series) -> pl.Series:
        with np.errstate(all="ignore"):
            return pl.Series(function(values.to_numpy()), dtype=pl.Float64()).set(
                values.is_null(), None
            )

    return value.map_batches(run, return_dtype=pl.Float64(), is_elementwise=True)


for _name, _build in _DIRECT.items():
    simply(_name, _build)
simply("LOG10", lambda value: _by_numpy(value, np.log10))
simply("LOG2", lambda value: exact_quotient(value.log(), pl.lit(math.log(2)), pl.Float64()))
simply("COT", lambda value: 1 / value.tan())
simply("POWER", lambda base, exponent: base**exponent)
simply("ATAN2", pl.arctan2)
simply("PI", lambda: pl.lit(math.pi))
simply("E", lambda: pl.lit(math.e))


@compiles("LOG")
def _log(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    operands = compiler.operands(call)
    if len(operands) == 1:
        return operands[0].log()
    return exact_quotient(operands[1].log(), operands[0].log(), pl.Float64())


# --- rounding ----------------------------------------------------------------------------------------


@compiles("FLOOR", "CEIL")
def _floor(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    up = call.function == "CEIL"
    if len(call.operands) == 2:
        return floor_time(compiler, call, up=up)
    (value,) = compiler.operands(call)
    source = call.operands[0].type
    if ty.is_integer(source):
        return value
    if isinstance(source, t.DecimalType):
        unit = whole(10**source.scale)
        numbers = unscaled(value, source)
        floored = (numbers + unit - whole(1)) // unit if up else numbers // unit
        return scaled(floored, 0)
    return value.ceil() if up else value.floor()


@compiles("ROUND", "TRUNCATE")
def _round(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    operands = compiler.operands(call)
    source, target = call.operands[0].type, call.type
    digits: Any = constant(call.operands[1]) if len(call.operands) == 2 else 0
    rounds = call.function == "ROUND"
    if (
        isinstance(source, t.DecimalType)
        and isinstance(digits, int)
        and isinstance(target, t.DecimalType)
    ):
        return _round_decimal(operands[0], source, target, digits, rounds)
    mode = ROUND_HALF_UP if rounds else ROUND_DOWN
    places = operands[1:] or [pl.lit(0, dtype=pl.Int32())]
    whole_numbers = ty.is_integer(source)

    def run(value: Any, count: int) -> Any:
        if isinstance(value, float) and (not math.isfinite(value) or abs(value) >= 2.0**53):
            return value if count >= 0 or not math.isfinite(value) else _coarse(value, count, mode)
        if not isinstance(value, Decimal) and count >= 0 and whole_numbers:
            return value
        exact = value if isinstance(value, Decimal) else Decimal(_text(value))
        made = exact.quantize(Decimal(1).scaleb(-count), mode, EXACT)
        if whole_numbers:
            return int(made)
        return made if isinstance(value, Decimal) else float(made)

    if ty.is_approximate(source) and rounds and isinstance(digits, int) and 0 <= digits <= 9:
        moved = clear_rounding(operands[0], digits).cast(pl.Float64())
        quick = exact_quotient(moved, pl.lit(10.0**digits), pl.Float64()).cast(dtype_of(target))
        return mostly(quick, lambda value: run(value, digits), operands[0], target)

    return rowwise(run, [operands[0], *places], target)


def _coarse(value: float, count: int, mode: str) -> float:
    """Return a big number rounded before the point."""
    wide = Context(prec=400)
    return float(Decimal(double_text(value)).quantize(Decimal(1).scaleb(-count), mode, wide))


def _text(value: object) -> str:
    return double_text(value) if isinstance(value, float) else str(value)


def _round_decimal(
    value: pl.Expr, source: t.DecimalType, target: t.DecimalType, digits: int, rounds: bool
) -> pl.Expr:
    if digits >= source.scale:
        return value
    unit = 10 ** (source.scale - digits)
    numbers = unscaled(value, source)
    cut = divided_half_up(numbers, unit) if rounds else numbers.truncdiv(whole(unit))
    if digits < 0:
        cut = cut * whole(10**-digits)
    return scaled(cut, scale_of(target))


# --- chance ------------------------------------------------------------------------------------------


class JavaRandom:
    """The numbers that Java's Random gives for a seed."""

    _MASK = (1 << 48) - 1

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & self._MASK

    def bits(self, count: int) -> int:
        """Return the next number with this number of bits."""
        self._state = (self._state * 0x5DEECE66D + 0xB) & self._MASK
        return self._state >> (48 - count)

    def real(self) -> float:
        """Return a number from 0 up to 1."""
        return ((self.bits(26) << 27) + self.bits(27)) * 2.0**-53

    def below(self, bound: int) -> int:
        """Return a whole number from 0 up to the bound."""
        if bound & (bound - 1) == 0:
            return (bound * self.bits(31)) >> 31
        while True:
            bits = self.bits(31)
            value = bits % bound
            if bits - value + bound - 1 < 1 << 31:
                return value


def _per_row(
    run: Callable[[Sequence[pl.Series], int], list[Any]],
    operands: list[pl.Expr],
    dtype: pl.DataType,
) -> pl.Expr:
    """Return what `run` gives for a number of rows, even if all operands are constants."""

    def apply(columns: Sequence[pl.Series]) -> pl.Series:
        rows, *given = columns
        return pl.Series(run(given, len(rows)), dtype=dtype)

    return pl.map_batches([pl.int_range(pl.len()), *operands], apply, return_dtype=dtype)


@compiles("RAND")
def _rand(_: ExpressionCompiler, call: Call) -> pl.Expr:
    seed = constant(call.operands[0]) if call.operands else None
    generator = JavaRandom(random.getrandbits(48) if seed is None else seed)
    return _per_row(lambda _, n: [generator.real() for _ in range(n)], [], pl.Float64())


@compiles("RAND_INTEGER")
def _rand_integer(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    operands = compiler.operands(call)
    seed = constant(call.operands[0]) if len(operands) == 2 else None
    generator = JavaRandom(random.getrandbits(48) if seed is None else seed)

    def run(given: Sequence[pl.Series], count: int) -> list[Any]:
        bounds = given[0].to_list()
        bounds = bounds if len(bounds) == count else bounds * count
        return [generator.below(_positive(each)) for each in bounds]

    return _per_row(run, [operands[-1]], pl.Int32())


def _positive(bound: int | None) -> int:
    if bound is None or bound <= 0:
        raise RecordError(f"the bound of RAND_INTEGER must be positive, got {bound}")
    return bound


@compiles("UUID")
def _uuid(_: ExpressionCompiler, __: Call) -> pl.Expr:
    return _per_row(lambda _, n: [str(uuid.uuid4()) for _ in range(n)], [], pl.String())


# --- other forms of numbers --------------------------------------------------------------------------


def _bin(value: int) -> str:
    return format(value & 0xFFFFFFFFFFFFFFFF, "b")


def _hex(value: Any) -> str:
    if isinstance(value, str):
        return value.encode().hex().upper()
    return format(value & 0xFFFFFFFFFFFFFFFF, "X")


def _unhex(text: str) -> bytes | None:
    odd = len(text) % 2  # the first digit of an odd number is dropped, and its byte is 0
    try:
        return b"\x00" * odd + bytes.fromhex(text[odd:]) if " " not in text else None
    except ValueError:
        return None


def _inet_aton(text: str) -> int | None:
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isdigit() for part in parts):
        return None
    *heads, tail = map(int, parts)
    if any(each > 255 for each in heads) or tail >= 256 ** (4 - len(heads)):
        return None
    result = tail
    for at, each in enumerate(heads):
        result += each << (8 * (3 - at))
    return result


def _inet_ntoa(number: int) -> str | None:
    return str(ipaddress.IPv4Address(number)) if 0 <= number < 2**32 else None


each_row("BIN", _bin)
each_row("HEX", _hex)
each_row("UNHEX", _unhex)
each_row("INET_ATON", _inet_aton)
each_row("INET_NTOA", _inet_ntoa)


def _hash(name: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(name, text.encode()).hexdigest()


for _name in ("MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512"):
    each_row(_name, _hash(_name.lower()))


def _sha2(text: str, bits: int) -> str | None:
    if bits not in {224, 256, 384, 512}:
        return None
    return hashlib.new(f"sha{bits}", text.encode()).hexdigest()


each_row("SHA2", _sha2)
