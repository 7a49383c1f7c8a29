"""Values as CAST makes text of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import polars as pl

from penstock.runtime.columnar.bitmaps import text_of as bitmap_text
from penstock.runtime.columnar.expressions.compiler import ExpressionCompiler, literal, rowwise
from penstock.sql import types as t
from penstock.sql.expr import typing as ty

_TENS_OF_MILLIONS = 1e7
_THOUSANDTH = 1e-3


def text_expression(compiler: ExpressionCompiler, value: pl.Expr, source: t.DataType) -> pl.Expr:
    """Return the text of a column's values."""
    if ty.is_text(source):
        return value
    if isinstance(source, t.BooleanType):
        yes, no = pl.lit("TRUE"), pl.lit("FALSE")
        return pl.when(value).then(yes).when(~value).then(no)
    if ty.is_approximate(source):
        return value.map_batches(_float_texts, return_dtype=pl.String(), is_elementwise=True)
    if isinstance(source, t.LocalZonedTimestampType):
        return _timestamp_text(compiler.zone.to_local(value), source.precision)
    if isinstance(source, t.TimestampType):
        return _timestamp_text(value, source.precision)
    if isinstance(source, t.TimeType):
        whole = value.dt.strftime("%H:%M:%S%.9f")
        return whole.str.slice(0, 9 + source.precision if source.precision else 8)
    if isinstance(source, t.NumericType | t.DateType):
        return value.cast(pl.String())
    return rowwise(text_function(source, compiler), [value], ty.STRING)


def _timestamp_text(local: pl.Expr, precision: int) -> pl.Expr:
    if precision == 0:
        return local.dt.strftime("%Y-%m-%d %H:%M:%S")
    if precision in {3, 6, 9}:
        return local.dt.strftime(f"%Y-%m-%d %H:%M:%S%.{precision}f")
    return local.dt.strftime("%Y-%m-%d %H:%M:%S%.9f").str.head(-(9 - precision))


def _float_texts(values: pl.Series) -> pl.Series:
    """Return numbers as Java writes them: with an exponent below a thousandth and from ten million on."""
    size = values.abs()
    plain = ((size >= _THOUSANDTH) & (size < _TENS_OF_MILLIONS)) | (size == 0)
    texts = values.cast(pl.String())
    if plain.fill_null(value=True).all():
        return texts
    return pl.Series(
        [
            text if normal is not False else _java_float(value, text)
            for text, value, normal in zip(texts, values, plain, strict=True)
        ],
        dtype=pl.String(),
    )


def _java_float(value: float, text: str) -> str:
    if value != value:  # noqa: PLR0124 - that is NaN
        return "NaN"
    if value in {float("inf"), float("-inf")}:
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = _digits(text)
    if not digits.strip("0"):
        return f"{sign}0.0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(text: str) -> tuple[str, str, int]:
    """Return sign, significant digits and the exponent of the first of them."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    exponent = len(whole) - 1 + int(power or 0)
    stripped = digits.lstrip("0")
    exponent -= len(digits) - len(stripped)
    return sign, stripped.rstrip("0") or "0", exponent


def double_text(value: float) -> str:
    """Return one number as Java writes it.

    >>> double_text(1e10), double_text(0.5)
    ('1.0E10', '0.5')
    """
    if value == 0 or _THOUSANDTH <= abs(value) < _TENS_OF_MILLIONS:
        text = format(value, "f") if "e" in repr(value) else repr(value)
        return text if "." in text else f"{text}.0"
    return _java_float(value, repr(value))


def interval_text(value: dt.timedelta) -> str:
    """Return a span of days and seconds as text.

    >>> interval_text(dt.timedelta(days=1, seconds=7384, milliseconds=567))
    '+1 02:03:04.567'
    """
    millis = round(value / dt.timedelta(milliseconds=1))
    rest, fraction = divmod(abs(millis), 1000)
    minutes, seconds = divmod(rest, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign = "-" if millis < 0 else "+"
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{fraction:03}"


def months_text(value: int) -> str:
    """Return a span of months as text.

    >>> months_text(14), months_text(-1)
    ('+1-02', '-0-01')
    """
    years, months = divmod(abs(value), 12)
    return f"{'-' if value < 0 else '+'}{years}-{months:02}"


def text_function(source: t.DataType, compiler: ExpressionCompiler) -> Callable[[Any], str]:
    """Return a function that formats one value within arrays, maps and rows."""
    inner = _nested_text(source, compiler)
    if inner is not None:
        return inner
    if isinstance(source, t.BooleanType):
        return lambda value: "TRUE" if value else "FALSE"
    if ty.is_approximate(source):
        return double_text
    if ty.is_binary(source):
        return lambda value: value.decode("utf-8", "replace")
    if isinstance(source, t.BitmapType):
        return bitmap_text
    if isinstance(source, t.DayTimeIntervalType):
        return interval_text
    if isinstance(source, t.YearMonthIntervalType):
        return months_text
    if ty.is_timestamp(source) or isinstance(source, t.TimeType):
        return _time_function(source, compiler)
    return str


def _time_function(source: t.DataType, compiler: ExpressionCompiler) -> Callable[[Any], str]:
    def text(value: object) -> str:
        made = pl.select(text_expression(compiler, literal(value, source), source)).item()
        return str(made)

    return text


def _nested_text(source: t.DataType, compiler: ExpressionCompiler) -> Callable[[Any], str] | None:
    if isinstance(source, t.ArrayType):
        each = _or_null(text_function(source.element_type, compiler))
        return lambda value: f"[{', '.join(map(each, value))}]"
    if isinstance(source, t.MapType | t.MultisetType):
        key_type = source.key_type if isinstance(source, t.MapType) else source.element_type
        value_type = source.value_type if isinstance(source, t.MapType) else ty.INT
        key = _or_null(text_function(key_type, compiler))
        item = _or_null(text_function(value_type, compiler))
        return lambda value: "{" + ", ".join(_entry(pair, key, item) for pair in value) + "}"
    if isinstance(source, t.RowType):
        fields = [_or_null(text_function(kind, compiler)) for kind in source.field_types()]
        return lambda value: (
            f"({', '.join(show(part) for show, part in zip(fields, value.values(), strict=True))})"
        )
    return None


def _entry(pair: dict[str, Any], key: Callable[[Any], str], item: Callable[[Any], str]) -> str:
    return f"{key(pair['key'])}={item(pair['value'])}"


def _or_null(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "NULL" if value is None else show(value)
