"""The types of a DataFrame's columns in SQL, and the types of a table's columns in a DataFrame.

Rows pass between Spark and Python as Arrow batches, which have no type for Spark's intervals of years and months: those travel as
numbers of months (`without_month_intervals`, `with_month_intervals`). All other types of Spark that are supported have one in Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as s

from penstock.errors import ArgumentError, RecordError, UnsupportedOperationError
from penstock.sql import types as t

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The digits of a second's fraction that Spark's times have
_DIGITS: Final = 6
# Where Spark keeps the length of a column that it reads as a string
_LENGTH_KEY: Final = "__CHAR_VARCHAR_TYPE_STRING"
_LENGTH: Final = re.compile(r"(char|varchar)\((\d+)\)")

_TO_SQL: Final[dict[type[s.DataType], Callable[[], t.DataType]]] = {
    s.NullType: t.NullType,
    s.BooleanType: t.BooleanType,
    s.ByteType: t.TinyIntType,
    s.ShortType: t.SmallIntType,
    s.IntegerType: t.IntType,
    s.LongType: t.BigIntType,
    s.FloatType: t.FloatType,
    s.DoubleType: t.DoubleType,
    s.StringType: lambda: t.VarCharType(t.LONGEST),
    s.BinaryType: lambda: t.VarBinaryType(t.LONGEST),
    s.DateType: t.DateType,
    s.TimestampType: lambda: t.LocalZonedTimestampType(_DIGITS),
    s.TimestampNTZType: lambda: t.TimestampType(_DIGITS),
}
_TO_SPARK: Final[dict[type[t.DataType], Callable[[], s.DataType]]] = {
    t.NullType: s.NullType,
    t.BooleanType: s.BooleanType,
    t.TinyIntType: s.ByteType,
    t.SmallIntType: s.ShortType,
    t.IntType: s.IntegerType,
    t.BigIntType: s.LongType,
    t.FloatType: s.FloatType,
    t.DoubleType: s.DoubleType,
    t.CharType: s.StringType,
    t.VarCharType: s.StringType,
    t.BinaryType: s.BinaryType,
    t.VarBinaryType: s.BinaryType,
    t.BitmapType: s.BinaryType,
    t.DateType: s.DateType,
    t.TimestampType: s.TimestampNTZType,
    t.LocalZonedTimestampType: s.TimestampType,
}
# How to make another column of one whose type has no counterpart
_HINTS: Final[dict[type[s.DataType], str]] = {
    s.VariantType: "convert it before: to_json(column), or variant_get(column, '$.field', 'type')",
    s.CalendarIntervalType: "use an interval of days to seconds, or of years to months",
    s.GeometryType: "convert it before: st_asbinary(column)",
    s.GeographyType: "convert it before: st_asbinary(column)",
    s.UserDefinedType: "convert it before, for instance with vector_to_array(column) of pyspark.ml",
}
_CAST: Final = "leave the column out, or convert it before: df.withColumn(...)"


# From Spark


def row_type_of(schema: s.StructType) -> t.RowType:
    """Return the columns of a DataFrame as the row type of a table; refuses a column that tables cannot have, by its name.

    >>> schema = s.StructType([s.StructField("at", s.TimestampType()), s.StructField("n", s.LongType(), nullable=False)])
    >>> str(row_type_of(schema))
    'ROW<`at` TIMESTAMP_LTZ(6), `n` BIGINT NOT NULL>'
    """
    _check_names(schema.names, "the DataFrame")
    if not schema.fields:
        raise ArgumentError(
            "the DataFrame has no columns", hint="a table needs at least one column"
        )
    return t.RowType([t.RowField(each.name, _sql_field(each)) for each in schema.fields])


def _sql_field(field: s.StructField) -> t.DataType:
    length = _LENGTH.fullmatch(str((field.metadata or {}).get(_LENGTH_KEY, "")))
    if isinstance(field.dataType, s.StringType) and length is not None:
        kind = t.CharType if length[1] == "char" else t.VarCharType
        made: t.DataType = kind(int(length[2]))
    else:
        made = _sql_type(field.dataType, field.name)
    return made if field.nullable else made.not_null()


def _sql_type(kind: s.DataType, where: str) -> t.DataType:
    """Return the type of SQL for a type of Spark; `where` is the path of the column or field."""
    simple = _TO_SQL.get(type(kind))
    if simple is not None:
        return simple()
    match kind:
        case s.CharType():
            return t.CharType(kind.length)
        case s.VarcharType():
            return t.VarCharType(kind.length)
        case s.TimeType():
            return t.TimeType(kind.precision)
        case s.DecimalType() if 0 <= kind.scale <= kind.precision:
            return t.DecimalType(kind.precision, kind.scale)
        case s.DayTimeIntervalType():
            return t.DayTimeIntervalType(_resolution(kind, t.DayTimeIntervalType.DayTimeResolution))
        case s.YearMonthIntervalType():
            return t.YearMonthIntervalType(
                _resolution(kind, t.YearMonthIntervalType.YearMonthResolution)
            )
        case s.ArrayType():
            element = _sql_type(kind.elementType, f"{where}[]")
            return t.ArrayType(element if kind.containsNull else element.not_null())
        case s.MapType():
            value = _sql_type(kind.valueType, f"{where}.value")
            return t.MapType(
                _sql_type(kind.keyType, f"{where}.key").not_null(),
                value if kind.valueContainsNull else value.not_null(),
            )
        case s.StructType() if kind.fields:
            _check_names(kind.names, f"column '{where}'")
            fields = [(each, _sql_type(each.dataType, f"{where}.{each.name}")) for each in kind]
            return t.RowType(
                [
                    t.RowField(each.name, made if each.nullable else made.not_null())
                    for each, made in fields
                ]
            )
    raise UnsupportedOperationError(
        f"column '{where}' has Spark type {kind.simpleString()}, which has no counterpart in SQL",
        hint=next((hint for each, hint in _HINTS.items() if isinstance(kind, each)), _CAST),
    )


def _resolution(kind: Any, resolutions: Any) -> Any:
    """Return the parts that an interval has, such as DAY_TO_SECOND."""
    parts = [kind._fields[each].upper() for each in (kind.startField, kind.endField)]
    return resolutions["_TO_".join(dict.fromkeys(parts))]


def _check_names(names: Sequence[str], what: str) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        parts = "fields" if what.startswith("column ") else "columns"
        raise ArgumentError(
            f"{what} has several {parts} '{repeated}'",
            hint="rename them: df.toDF('a', 'b', ...), or select(...) with alias(...)",
        )


# To Spark


def spark_schema(names: Sequence[str], types: Sequence[t.DataType]) -> s.StructType:
    """Return the columns of a table as the schema of a DataFrame; refuses a column that DataFrames cannot have, by its name.

    >>> spark_schema(["at", "n"], [t.TimestampType(3), t.BigIntType().not_null()]).simpleString()
    'struct<at:timestamp_ntz,n:bigint>'
    """
    _check_names(list(names), "the table")
    return s.StructType(
        [
            s.StructField(name, _spark_type(kind, name), kind.is_nullable)
            for name, kind in zip(names, types, strict=True)
        ]
    )


def _spark_type(kind: t.DataType, where: str) -> s.DataType:
    simple = _TO_SPARK.get(type(kind))
    if simple is not None:
        return simple()
    match kind:
        case t.TimeType():
            return s.TimeType(min(kind.precision, _DIGITS))
        case t.DecimalType():
            return s.DecimalType(kind.precision, kind.scale)
        case t.DayTimeIntervalType():
            return s.DayTimeIntervalType(*_fields(kind, s.DayTimeIntervalType))
        case t.YearMonthIntervalType():
            return s.YearMonthIntervalType(*_fields(kind, s.YearMonthIntervalType))
        case t.ArrayType():
            element = kind.element_type
            return s.ArrayType(_spark_type(element, f"{where}[]"), element.is_nullable)
        case t.MapType():
            key = _spark_type(kind.key_type, f"{where}.key")
            value = _spark_type(kind.value_type, f"{where}.value")
            return s.MapType(key, value, kind.value_type.is_nullable)
        case t.MultisetType():
            element_type = _spark_type(kind.element_type, f"{where}.key")
            return s.MapType(element_type, s.IntegerType(), valueContainsNull=False)
        case t.RowType() if kind.fields:
            _check_names(kind.field_names(), f"column '{where}'")
            return s.StructType(
                [
                    s.StructField(
                        each.name,
                        _spark_type(each.data_type, f"{where}.{each.name}"),
                        each.data_type.is_nullable,
                    )
                    for each in kind.fields
                ]
            )
    raise UnsupportedOperationError(
        f"column '{where}' has type {kind}, which has no counterpart in Spark",
        hint="leave the column out, or CAST it in the query",
    )


def _fields(kind: Any, spark_type: Any) -> tuple[int, int]:
    """Return Spark's numbers of the first and the last part of an interval."""
    parts = kind.resolution.name.lower().split("_to_")
    numbers = spark_type._inverted_fields  # noqa: SLF001 - the numbers of Spark's names
    return numbers[parts[0]], numbers[parts[-1]]


# In Arrow


def spark_arrow_schema(schema: s.StructType) -> pa.Schema:
    """Return the Arrow schema in which Python hands rows of a DataFrame to Spark. Intervals of years and months are numbers of months."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(carried_schema(schema), timezone="UTC")


def carried_schema(schema: s.StructType) -> s.StructType:
    """Return the columns as they pass between Spark and Python: with numbers of months for intervals of years and months."""
    return s.StructType(
        [
            s.StructField(each.name, _replaced(each.dataType, s.IntegerType()), each.nullable)
            for each in schema
        ]
    )


def spark_table(table: pa.Table, schema: s.StructType) -> pa.Table:
    """Return an Arrow table of ours (`penstock.runtime.columnar.arrow_columns.arrow_table`) as Spark takes it.

    Spark's times have microseconds: a value with nanoseconds is refused, by its column.
    """
    wanted = spark_arrow_schema(schema)
    columns = [_cast(column, field) for column, field in zip(table.columns, wanted, strict=True)]
    return pa.table(columns, schema=wanted)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(_exact(column.type, field.type)).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordError(
            f"column '{field.name}' cannot be given to Spark as {field.type}",
            detail=str(error).splitlines()[0],
            hint="Spark has times with microseconds: CAST the column in the query, for instance AS TIMESTAMP(6)",
        ) from error


def _exact(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type of times of day through which nanoseconds are noticed: Arrow has Spark's in nanoseconds, too."""
    return pa.time64("us") if pa.types.is_time(given) and pa.types.is_time(wanted) else given


# Columns


def numbered_columns(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return some columns of a DataFrame, in this order, with numbers as names: Spark may take two names for one that differ in case only."""
    numbered = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
    return numbered.select(*(f"c{frame.columns.index(name)}" for name in names))


# Intervals of years and months


def without_month_intervals(frame: DataFrame) -> DataFrame:
    """Return a DataFrame whose intervals of years and months, also nested ones, are numbers of months."""
    if not any(map(_has_months, (field.dataType for field in frame.schema))):
        return frame

    def months(column: Column, kind: s.DataType) -> Column:
        only_months = s.YearMonthIntervalType(s.YearMonthIntervalType.MONTH)
        return column.cast(_replaced(kind, only_months)).cast(_replaced(kind, s.IntegerType()))

    return _converted(frame, frame.schema, months)


def with_month_intervals(frame: DataFrame, schema: s.StructType) -> DataFrame:
    """Return a DataFrame with the intervals of years and months of a schema, made of numbers of months."""
    if not any(map(_has_months, (field.dataType for field in schema))):
        return frame

    def intervals(column: Column, kind: s.DataType) -> Column:
        only_months = s.YearMonthIntervalType(s.YearMonthIntervalType.MONTH)
        return column.cast(_replaced(kind, only_months)).cast(kind)

    return _converted(frame, schema, intervals)


def _converted(
    frame: DataFrame, schema: s.StructType, convert: Callable[[Column, s.DataType], Column]
) -> DataFrame:
    columns = []
    for field in schema:
        column = frame[quoted(field.name)]
        if _has_months(field.dataType):
            column = convert(column, field.dataType)
        columns.append(column.alias(field.name))
    return frame.select(*columns)


def quoted(name: str) -> str:
    """Return the name of a column as Spark's expressions have it, whatever letters it has.

    >>> quoted("a.b")
    '`a.b`'
    """
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _has_months(kind: s.DataType) -> bool:
    return bool(_replaced(kind, s.IntegerType()) != kind)


def _replaced(kind: s.DataType, by: s.DataType) -> s.DataType:
    """Return a type with another one in place of each interval of years and months in it."""
    match kind:
        case s.YearMonthIntervalType():
            return by
        case s.ArrayType():
            return s.ArrayType(_replaced(kind.elementType, by), kind.containsNull)
        case s.MapType():
            key, value = _replaced(kind.keyType, by), _replaced(kind.valueType, by)
            return s.MapType(key, value, kind.valueContainsNull)
        case s.StructType():
            return s.StructType(
                [
                    s.StructField(
                        each.name, _replaced(each.dataType, by), each.nullable, each.metadata
                    )
                    for each in kind
                ]
            )
    return kind
