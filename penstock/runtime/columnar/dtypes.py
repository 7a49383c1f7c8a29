"""Types of columns as Polars has them, and values as they are in such columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from penstock.errors import UnsupportedOperationError
from penstock.graph.operator_specs.columnar.common import column
from penstock.sql import types as t

_SIMPLE: dict[type[t.DataType], pl.DataType] = {
    t.NullType: pl.Null(),
    t.BooleanType: pl.Boolean(),
    t.TinyIntType: pl.Int8(),
    t.SmallIntType: pl.Int16(),
    t.IntType: pl.Int32(),
    t.BigIntType: pl.Int64(),
    t.FloatType: pl.Float32(),
    t.DoubleType: pl.Float64(),
    t.CharType: pl.String(),
    t.VarCharType: pl.String(),
    t.BinaryType: pl.Binary(),
    t.VarBinaryType: pl.Binary(),
    t.BitmapType: pl.Binary(),
    t.DateType: pl.Date(),
    t.TimeType: pl.Time(),
    t.DayTimeIntervalType: pl.Duration("ms"),
    t.YearMonthIntervalType: pl.Int32(),
}


def time_unit(precision: int) -> Any:
    """Return the time unit for a number of fractional digits.

    >>> time_unit(3), time_unit(6), time_unit(9)
    ('ms', 'us', 'ns')
    """
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _entries(key: t.DataType, value: t.DataType) -> pl.DataType:
    return pl.List(pl.Struct({"key": dtype_of(key), "value": dtype_of(value)}))


_COMPOSED: dict[type[t.DataType], Callable[[Any], pl.DataType]] = {
    t.DecimalType: lambda given: pl.Decimal(38, given.scale),
    t.TimestampType: lambda given: pl.Datetime(time_unit(given.precision)),
    t.LocalZonedTimestampType: lambda given: pl.Datetime(time_unit(given.precision), "UTC"),
    t.ArrayType: lambda given: pl.List(dtype_of(given.element_type)),
    t.MapType: lambda given: _entries(given.key_type, given.value_type),
    t.MultisetType: lambda given: _entries(given.element_type, t.IntType()),
    t.RowType: lambda given: pl.Struct(
        [pl.Field(field.name, dtype_of(field.data_type)) for field in given.fields]
    ),
}


def dtype_of(data_type: t.DataType) -> pl.DataType:
    """Return how Polars holds a column of this type.

    >>> dtype_of(t.TimestampType(3)), dtype_of(t.ArrayType(t.BigIntType()))
    (Datetime(time_unit='ms', time_zone=None), List(Int64))
    """
    kind = type(data_type)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in _COMPOSED:
        return _COMPOSED[kind](data_type)
    raise UnsupportedOperationError(f"unsupported column type {data_type}")


def schema_of(types: Sequence[t.DataType]) -> dict[str, pl.DataType]:
    """Return the schema of a batch with columns of these types."""
    return {column(index): dtype_of(each) for index, each in enumerate(types)}


def dtype_with_maps(data_type: t.DataType) -> pl.DataType:
    """Return the type of a column outside of the engine, which has maps as lists of entries.

    >>> dtype_with_maps(t.MapType(t.VarCharType(), t.IntType()))
    Map(String, Int32)
    """
    match data_type:
        case t.MapType():
            return pl.Map(
                dtype_with_maps(data_type.key_type), dtype_with_maps(data_type.value_type)
            )
        case t.MultisetType():
            return pl.Map(dtype_with_maps(data_type.element_type), pl.Int32())
        case t.ArrayType():
            return pl.List(dtype_with_maps(data_type.element_type))
        case t.RowType():
            return pl.Struct(
                [pl.Field(each.name, dtype_with_maps(each.data_type)) for each in data_type.fields]
            )
    return dtype_of(data_type)
