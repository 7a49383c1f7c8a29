"""The types of columns in Arrow, and the types of Arrow's columns in SQL.

Several types of SQL share one of Arrow: STRING, VARCHAR(10) and CHAR(3) are all strings. A field of ours says in its metadata which
one it was, so that a table comes back with the types that it had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

from penstock.errors import UnsupportedOperationError
from penstock.runtime.columnar.dtypes import time_unit
from penstock.sql import types as t

TYPE_KEY: Final = b"penstock.type"
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DECIMAL_DIGITS: Final = 38

_SIMPLE: Final[dict[type[t.DataType], pa.DataType]] = {
    t.NullType: pa.null(),
    t.BooleanType: pa.bool_(),
    t.TinyIntType: pa.int8(),
    t.SmallIntType: pa.int16(),
    t.IntType: pa.int32(),
    t.BigIntType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.CharType: pa.string(),
    t.VarCharType: pa.string(),
    t.BinaryType: pa.binary(),
    t.VarBinaryType: pa.binary(),
    t.BitmapType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimeType: pa.time64("ns"),
    t.DayTimeIntervalType: pa.duration("ms"),
    t.YearMonthIntervalType: pa.int32(),
}
_COMPOSED: Final[dict[type[t.DataType], Callable[[Any], pa.DataType]]] = {
    t.DecimalType: lambda given: pa.decimal128(given.precision, given.scale),
    t.TimestampType: lambda given: pa.timestamp(time_unit(given.precision)),
    t.LocalZonedTimestampType: lambda given: pa.timestamp(time_unit(given.precision), "UTC"),
    t.ArrayType: lambda given: pa.list_(_inner("item", given.element_type)),
    t.MapType: lambda given: _map(given.key_type, given.value_type),
    t.MultisetType: lambda given: _map(given.element_type, t.IntType(nullable=False)),
    t.RowType: lambda given: pa.struct(
        [_inner(each.name, each.data_type) for each in given.fields]
    ),
}


def arrow_type(data_type: t.DataType) -> pa.DataType:
    """Return the Arrow type of a column.

    >>> arrow_type(t.DecimalType(10, 2)), arrow_type(t.TimestampType(3))
    (Decimal128Type(decimal128(10, 2)), TimestampType(timestamp[ms]))
    """
    kind = type(data_type)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in _COMPOSED:
        return _COMPOSED[kind](data_type)
    raise UnsupportedOperationError(f"type {data_type} has no counterpart in Arrow")


def arrow_field(name: str, data_type: t.DataType) -> pa.Field:
    """Return the Arrow field of a column; its metadata has the type in SQL if the Arrow type alone means another."""
    field = _inner(name, data_type)
    if type_of_arrow(field) == data_type:
        return field
    return field.with_metadata({TYPE_KEY: str(data_type.nullable())})


def _inner(name: str, data_type: t.DataType) -> pa.Field:
    return pa.field(name, arrow_type(data_type), nullable=data_type.is_nullable)


def _map(key: t.DataType, value: t.DataType) -> pa.DataType:
    return pa.map_(
        arrow_type(key), pa.field("value", arrow_type(value), nullable=value.is_nullable)
    )


# Tests of pyarrow, with what a type means for which the test is true. The first one counts.
_MEANINGS: Final[list[tuple[Callable[[pa.DataType], bool], Callable[[Any], t.DataType]]]] = [
    (kinds.is_null, lambda _: t.NullType()),
    (kinds.is_boolean, lambda _: t.BooleanType()),
    (kinds.is_int8, lambda _: t.TinyIntType()),
    (kinds.is_int16, lambda _: t.SmallIntType()),
    (kinds.is_int32, lambda _: t.IntType()),
    (kinds.is_int64, lambda _: t.BigIntType()),
    (kinds.is_uint8, lambda _: t.SmallIntType()),
    (kinds.is_uint16, lambda _: t.IntType()),
    (kinds.is_uint32, lambda _: t.BigIntType()),
    (kinds.is_uint64, lambda _: t.DecimalType(20, 0)),
    (kinds.is_float16, lambda _: t.FloatType()),
    (kinds.is_float32, lambda _: t.FloatType()),
    (kinds.is_float64, lambda _: t.DoubleType()),
    (
        lambda kind: (
            kinds.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _DECIMAL_DIGITS
        ),
        lambda kind: t.DecimalType(kind.precision, kind.scale),
    ),
    (
        lambda kind: (
            kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
        ),
        lambda _: t.VarCharType(t.LONGEST),
    ),
    (
        lambda kind: (
            kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind)
        ),
        lambda _: t.VarBinaryType(t.LONGEST),
    ),
    (
        lambda kind: kinds.is_fixed_size_binary(kind) and kind.byte_width > 0,
        lambda kind: t.BinaryType(kind.byte_width),
    ),
    (kinds.is_date, lambda _: t.DateType()),
    (kinds.is_time, lambda kind: t.TimeType(_DIGITS[kind.unit])),
    (
        lambda kind: kinds.is_timestamp(kind) and kind.tz is None,
        lambda kind: t.TimestampType(_DIGITS[kind.unit]),
    ),
    (kinds.is_timestamp, lambda kind: t.LocalZonedTimestampType(_DIGITS[kind.unit])),
    (kinds.is_duration, lambda _: t.DayTimeIntervalType()),
    (
        lambda kind: (
            kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
        ),
        lambda kind: t.ArrayType(_meaning(kind.value_field)),
    ),
    (
        kinds.is_map,
        lambda kind: t.MapType(_meaning(kind.key_field), _meaning(kind.item_field)),
    ),
    (
        lambda kind: kinds.is_struct(kind) and kind.num_fields > 0,
        lambda kind: t.RowType([t.RowField(each.name, _meaning(each)) for each in kind]),
    ),
    (kinds.is_dictionary, lambda kind: _meaning(pa.field("", kind.value_type))),
]


def type_of_arrow(field: pa.Field) -> t.DataType:
    """Return what the type of an Arrow field means in SQL.

    >>> str(type_of_arrow(pa.field("a", pa.list_(pa.uint8()), nullable=False)))
    'ARRAY<SMALLINT> NOT NULL'
    """
    try:
        return _meaning(field)
    except _UnknownTypeError as unknown:
        raise UnsupportedOperationError(
            f"column '{field.name}' has Arrow type {unknown.kind}, which has no counterpart in SQL",
            detail=None if unknown.kind == field.type else f"inside {field.type}",
            hint="cast the column before: table.set_column(...), or pa.compute.cast",
        ) from None


class _UnknownTypeError(Exception):
    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(str(kind))
        self.kind = kind


def _meaning(field: pa.Field) -> t.DataType:
    for fits, meaning in _MEANINGS:
        if fits(field.type):
            found = meaning(field.type)
            return found if field.nullable else found.not_null()
    raise _UnknownTypeError(field.type)
