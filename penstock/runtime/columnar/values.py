"""Conversion of values between rows (Python objects) and columns (Polars).

MAP and MULTISET are dictionaries in rows and lists of entries in columns, ROW is a Row and a struct, TIMESTAMP_LTZ is a datetime in UTC.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import polars as pl

from penstock.common.types import Row
from penstock.errors import RecordError
from penstock.errors.panics import panics_as_errors
from penstock.errors.user_errors import shorten, shorten_all, shown_name
from penstock.runtime.columnar.bitmaps import normal
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.sql import types as t
from penstock.time.nanoseconds import from_nanos, to_nanos

Convert = Callable[[Any], Any]
_DIGITS = Context(prec=76)
MICROS: Final = 6  # the digits of a second's fraction that a datetime has
_FLOATS = (t.FloatType, t.DoubleType)


def encoder(data_type: t.DataType) -> Convert | None:
    """Return a converter from row values to column values; None if they are the same."""
    convert = _encoder(data_type)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _encoder(data_type: t.DataType) -> Convert | None:
    if isinstance(data_type, _FLOATS):
        return float
    if isinstance(data_type, t.DecimalType):
        return _decimal_of(data_type)
    if isinstance(data_type, t.LocalZonedTimestampType):
        return _fine_instant if has_nanoseconds(data_type) else _instant
    if has_nanoseconds(data_type):
        return _fine
    if isinstance(data_type, t.BinaryType | t.VarBinaryType):
        return bytes
    if isinstance(data_type, t.BitmapType):
        return normal
    if isinstance(data_type, t.MultisetType):
        return _entries_of(data_type.element_type, t.IntType())
    if isinstance(data_type, t.MapType):
        return _entries_of(data_type.key_type, data_type.value_type)
    if isinstance(data_type, t.ArrayType):
        inner = encoder(data_type.element_type)
        return list if inner is None else lambda value: [inner(each) for each in value]
    if isinstance(data_type, t.RowType):
        return _struct_of(data_type)
    return None


def _decimal_of(data_type: t.DecimalType) -> Convert:
    """Return a function that rounds numbers to a type's scale. As in Flink, one that has too many digits is NULL."""
    unit = Decimal(1).scaleb(-data_type.scale)
    room = data_type.precision - data_type.scale  # digits before the point

    def rounded(value: Any) -> Decimal | None:
        number = Decimal(value)
        if not number.is_finite():
            raise ValueError(f"{number} is not a decimal number")
        if number and number.adjusted() >= room:
            return None
        made = number.quantize(unit, ROUND_HALF_UP, _DIGITS)
        return None if made and made.adjusted() >= room else made

    return rounded


def _instant(value: object) -> Any:
    """Return a point in time in UTC; one without a time zone is in UTC, an Instant has seconds and nanoseconds."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    if hasattr(value, "to_epoch_milli"):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            milliseconds=value.to_epoch_milli()
        )
    return value


def has_nanoseconds(data_type: t.DataType) -> bool:
    """Whether values of a type have nanoseconds, which the datetimes that Polars gives do not have."""
    return (
        isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType)
        and data_type.precision > MICROS
    )


def _fine(value: object) -> object:
    return to_nanos(value) if isinstance(value, dt.datetime) else value


def _fine_instant(value: Any) -> object:
    if hasattr(value, "to_epoch_milli"):
        return int(value.seconds) * 1_000_000_000 + int(value.nanos)
    return _fine(value)


def _entries_of(key_type: t.DataType, value_type: t.DataType) -> Convert:
    key_of = encoder(key_type) or _same
    value_of = encoder(value_type) or _same
    return lambda value: [
        {"key": key_of(key), "value": value_of(item)} for key, item in value.items()
    ]


def _struct_of(data_type: t.RowType) -> Convert:
    names = data_type.names
    convert = [encoder(each) or _same for each in data_type.field_types()]

    def struct(value: object) -> dict[str, Any]:
        found = fields_of(value, names)
        return {
            name: change(each) for name, change, each in zip(names, convert, found, strict=True)
        }

    return struct


def fields_of(value: object, names: Sequence[str]) -> Sequence[Any]:
    """Return the fields of a Row, dictionary or tuple in the order of some names: by name if it has them, else by position."""
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if isinstance(value, Row):
        known = value.get_field_names()
        if known is not None and list(known) != list(names) and set(known) >= set(names):
            return [value[name] for name in names]
        return list(value)
    return value if isinstance(value, list | tuple) else [value]


def _same(value: object) -> Any:
    return value


def decoder(data_type: t.DataType) -> Convert | None:
    """Return a converter from column values to row values; None if they are the same."""
    convert = _decoder(data_type)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _decoder(data_type: t.DataType) -> Convert | None:
    if has_nanoseconds(data_type):
        zone = dt.UTC if isinstance(data_type, t.LocalZonedTimestampType) else None
        return lambda value: from_nanos(value, zone)
    if isinstance(data_type, t.MultisetType):
        return _dictionary_of(data_type.element_type, t.IntType())
    if isinstance(data_type, t.MapType):
        return _dictionary_of(data_type.key_type, data_type.value_type)
    if isinstance(data_type, t.ArrayType):
        inner = decoder(data_type.element_type)
        return None if inner is None else lambda value: [inner(each) for each in value]
    if isinstance(data_type, t.RowType):
        return _row_of(data_type)
    return None


def _dictionary_of(key_type: t.DataType, value_type: t.DataType) -> Convert:
    key_of = decoder(key_type) or _same
    value_of = decoder(value_type) or _same
    return lambda value: {key_of(each["key"]): value_of(each["value"]) for each in value}


def _row_of(data_type: t.RowType) -> Convert:
    convert = [decoder(each) or _same for each in data_type.field_types()]
    make = Row(*data_type.names)

    def row(value: dict[str, Any]) -> Row:
        made: Row = make(
            *(change(each) for change, each in zip(convert, value.values(), strict=True))
        )
        return made

    return row


def series_of(name: str, values: Sequence[Any], data_type: t.DataType, shown: str) -> pl.Series:
    """Return a column of values of rows; RecordError if one does not fit. `shown` is what the user calls the column."""
    try:
        return unchecked_series(name, values, data_type)
    except Exception as error:
        raise RecordError(
            f"column '{shown}' of type {data_type} got a value of another type",
            detail=f"the value is {described(values[first_invalid_value(values, data_type)])}",
            hint="declare the column with the type of the records, or convert them first",
        ) from error


def unchecked_series(name: str, values: Sequence[Any], data_type: t.DataType) -> pl.Series:
    """Return a column of values of rows; raises the error of Polars or of a conversion if one does not fit."""
    convert = encoder(data_type)
    made = values if convert is None else [convert(each) for each in values]
    dtype = dtype_of(data_type)
    with panics_as_errors():
        series = pl.Series(name, made, dtype=dtype, strict=True)
    return series if series.dtype == dtype else _of_datetimes(series, made, dtype)


def _of_datetimes(series: pl.Series, values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Return a column of dates, or of datetimes whose time zone does not count. Polars leaves datetimes as they are, and some other values, too."""
    if isinstance(series.dtype, pl.Datetime):
        if dtype == pl.Date:
            return series.cast(dtype)
        if isinstance(dtype, pl.Datetime):
            local = [each and each.replace(tzinfo=None) for each in values]
            return pl.Series(series.name, local, dtype=dtype, strict=True)
    raise TypeError(f"{series.dtype} is not {dtype}")


def first_invalid_value(values: Sequence[Any], data_type: t.DataType) -> int:
    """Return the position of the first value that a column cannot hold.

    >>> first_invalid_value([1, 2, "x"], t.IntType())
    2
    """
    for at, each in enumerate(values):
        try:
            unchecked_series("", [each], data_type)
        except Exception:  # noqa: BLE001 - whichever it is
            return at
    return 0


def wrong_result(
    function: str, data_type: t.DataType, result: object, operands: Sequence[Any] | None = None
) -> RecordError:
    """Return the error for a user function whose result does not match its result type."""
    name = shown_name(function)
    return RecordError(
        f"function '{name}' returned {described(result)}, but its result type is {data_type}",
        detail=None if operands is None else f"in function {name}({shorten_all(operands)})",
        hint="convert the result, or declare its actual type as result_type",
    )


def described(value: object) -> str:
    """Return a value and its type for a message.

    >>> described("three")
    "'three' (str)"
    """
    return f"{shorten(value)} ({type(value).__name__})"


def with_numbers(series: pl.Series) -> pl.Series:
    """Return a column with points in time in nanoseconds as numbers, also inside of lists and structs: `to_list` would cut them off."""
    wanted = numbers_dtype(series.dtype)
    return series if wanted == series.dtype else series.cast(wanted)


def numbers_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return a type with numbers in the place of points in time in nanoseconds."""
    if isinstance(dtype, pl.Datetime):
        return pl.Int64() if dtype.time_unit == "ns" else dtype
    if isinstance(dtype, pl.List):
        return pl.List(numbers_dtype(dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return pl.Struct([pl.Field(each.name, numbers_dtype(each.dtype)) for each in dtype.fields])  # type: ignore[arg-type]
    return dtype


def listed(series: pl.Series) -> list[Any]:
    """Return the values of a column as Polars gives them; points in time keep their nanoseconds."""
    numbers = with_numbers(series)
    values = numbers.to_list()
    return (
        values if numbers is series else [_changed(each, series.dtype, _moment) for each in values]
    )


def column_of(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    """Return a column of values as `listed` gives them; those that do not fit are NULL."""
    if numbers_dtype(dtype) != dtype:  # Polars would cut off nanoseconds
        values = [_changed(each, dtype, lambda value, _: _fine(value)) for each in values]
    with panics_as_errors():
        return pl.Series(name, values, dtype=dtype, strict=False)


def _moment(value: int, dtype: pl.Datetime) -> dt.datetime:
    return from_nanos(value, None if dtype.time_zone is None else dt.UTC)


def _changed(value: Any, dtype: Any, change: Callable[[Any, pl.Datetime], Any]) -> object:
    """Return a value with all its points in time in nanoseconds changed."""
    if value is None:
        return None
    if isinstance(dtype, pl.Datetime):
        return change(value, dtype) if dtype.time_unit == "ns" else value
    if isinstance(dtype, pl.List):
        return [_changed(each, dtype.inner, change) for each in value]
    if isinstance(dtype, pl.Struct):
        return {each.name: _changed(value[each.name], each.dtype, change) for each in dtype.fields}
    return value


def values_of_series(series: pl.Series, data_type: t.DataType) -> list[Any]:
    """Return a column as the values of rows."""
    convert = decoder(data_type)
    values = with_numbers(series).to_list()
    return values if convert is None else [convert(each) for each in values]
