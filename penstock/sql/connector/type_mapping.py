"""Types of streams as types of columns, and back."""

from __future__ import annotations

from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from penstock.errors import ArgumentTypeError
from penstock.sql import types as t

_LONGEST = 2**31 - 1
_BASIC: dict[BasicType, t.DataType] = {
    BasicType.STRING: t.VarCharType(_LONGEST),
    BasicType.BYTE: t.TinyIntType(),
    BasicType.BOOLEAN: t.BooleanType(),
    BasicType.SHORT: t.SmallIntType(),
    BasicType.INT: t.IntType(),
    BasicType.LONG: t.BigIntType(),
    BasicType.FLOAT: t.FloatType(),
    BasicType.DOUBLE: t.DoubleType(),
    BasicType.CHAR: t.CharType(1),
    BasicType.BIG_INT: t.DecimalType(38, 0),
    BasicType.BIG_DEC: t.DecimalType(38, 18),
    BasicType.INSTANT: t.LocalZonedTimestampType(9),
}


def data_type_of(info: TypeInformation) -> t.DataType:
    """Return the type that a column of such values has.

    >>> str(data_type_of(Types.ROW_NAMED(["id"], [Types.LONG()])))
    'ROW<`id` BIGINT>'
    """
    if isinstance(info, BasicTypeInfo):
        return _BASIC[info.basic_type]
    if isinstance(info, RowTypeInfo):
        pairs = zip(info.get_field_names(), info.get_field_types(), strict=True)
        return t.RowType([t.RowField(name, data_type_of(kind)) for name, kind in pairs])
    if isinstance(info, TupleTypeInfo):
        kinds = enumerate(info.get_field_types())
        return t.RowType([t.RowField(f"f{n}", data_type_of(kind)) for n, kind in kinds])
    if isinstance(info, DateTypeInfo):
        return t.DateType()
    if isinstance(info, TimeTypeInfo):
        return t.TimeType(0)
    if isinstance(info, TimestampTypeInfo):
        return t.TimestampType(6)
    if isinstance(info, PrimitiveArrayTypeInfo) and info.get_element_type() == Types.BYTE():
        return t.VarBinaryType(_LONGEST)
    if isinstance(
        info, PrimitiveArrayTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo | ListTypeInfo
    ):
        return t.ArrayType(data_type_of(info.get_element_type()))
    if isinstance(info, MapTypeInfo):
        return t.MapType(data_type_of(info.key_type_info), data_type_of(info.value_type_info))
    raise ArgumentTypeError(
        f"type {info!r} cannot be used in a column",
        hint="declare the type of the stream: map(f, output_type=Types.ROW_NAMED([...], [...])), or pass a Schema",
    )


_BACK: dict[type[t.DataType], TypeInformation] = {
    t.BooleanType: Types.BOOLEAN(),
    t.TinyIntType: Types.BYTE(),
    t.SmallIntType: Types.SHORT(),
    t.IntType: Types.INT(),
    t.BigIntType: Types.LONG(),
    t.FloatType: Types.FLOAT(),
    t.DoubleType: Types.DOUBLE(),
    t.DecimalType: Types.BIG_DEC(),
    t.CharType: Types.STRING(),
    t.VarCharType: Types.STRING(),
    t.DateType: Types.SQL_DATE(),
    t.TimeType: Types.SQL_TIME(),
    t.TimestampType: Types.SQL_TIMESTAMP(),
    t.BinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    t.VarBinaryType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    t.BitmapType: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def type_information_of(kind: t.DataType) -> TypeInformation:
    """Return the type of a stream's values that come from a column; any object where streams have no type for it."""
    if type(kind) in _BACK:
        return _BACK[type(kind)]
    if isinstance(kind, t.RowType):
        return Types.ROW_NAMED(
            kind.field_names(), [type_information_of(each) for each in kind.field_types()]
        )
    if isinstance(kind, t.ArrayType):
        return Types.OBJECT_ARRAY(type_information_of(kind.element_type))
    if isinstance(kind, t.MapType):
        return Types.MAP(type_information_of(kind.key_type), type_information_of(kind.value_type))
    return Types.PICKLED_BYTE_ARRAY()
