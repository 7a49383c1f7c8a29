"""Tables of Python objects and of pandas.DataFrames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from penstock.common.types import Row
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.collection import CollectionSource
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_int
from penstock.errors.data_frames import READ_FROM_SPARK, refuse_data_frame
from penstock.graph.operator_specs import SourceSpec
from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.graph.transformations import OperatorTransformation
from penstock.sql import types as t
from penstock.sql.execution.query_scope import to_sql
from penstock.sql.logical.nodes import Field, LogicalNode, LogicalStreamScan
from penstock.sql.table_api.expression import Expression, TemplateExpression, quoted_name
from penstock.time.durations import Instant

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext

_LONGEST = 2**31 - 1


def rows_of(elements: Iterable[Any]) -> list[Any]:
    """Return elements as a list; reject anything but a collection of rows."""
    refuse_data_frame(elements, "from_elements")
    if isinstance(elements, str | bytes | dict) or not isinstance(elements, Iterable):
        raise ArgumentTypeError(
            f"elements must be a list of rows, got {elements!r}", hint="use [(1, 'a'), (2, 'b')]"
        )
    return list(elements)


def plan_of_elements(rows: Sequence[Any], schema: object, *, verify: bool) -> LogicalStreamScan:
    """Return the plan that reads rows, tuples, dictionaries, or single values if there is one column."""
    row_type = row_type_of(rows, schema)
    names = row_type.field_names()
    values = [_values(row, names) for row in rows]
    if verify:
        for row in values:
            _verify(row, row_type)
    return scan_of_rows(values, row_type)


def plan_of_expressions(
    context: StatementContext, elements: Sequence[Expression], schema: Any
) -> LogicalNode:
    """Return the plan of a table of expressions, such as row(1, 'a'): VALUES of SQL. Columns without names are f0, f1, ..."""
    rows = ", ".join(
        f"({', '.join(to_sql(context, part) for part in _parts(each))})" for each in elements
    )
    width = len(_parts(elements[0]))
    types: list[t.DataType | None] = [None] * width
    names = [f"f{at}" for at in range(width)]
    if isinstance(schema, t.RowType):
        names, types = schema.field_names(), list(schema.field_types())
    elif schema is not None:
        names = list(schema)
    if len(names) != width:
        raise ArgumentError(f"got {len(names)} names for rows of {width} fields")
    chosen = ", ".join(
        quoted_name(name) if kind is None else f"CAST({quoted_name(name)} AS {kind.nullable()}) AS {quoted_name(name)}"
        for name, kind in zip(names, types, strict=True)
    )  # fmt: skip
    columns = ", ".join(map(quoted_name, names))
    return context.query(f"SELECT {chosen} FROM (VALUES {rows}) AS t({columns})")  # noqa: S608


def _parts(element: Expression) -> Sequence[Expression]:
    """Return the fields of row(...); another expression is a row of one field."""
    is_row = isinstance(element, TemplateExpression) and element.text.startswith("ROW(")
    return element.parts if is_row else (element,)  # type: ignore[attr-defined]


def scan_of_rows(rows: list[tuple[Any, ...]], row_type: t.RowType) -> LogicalStreamScan:
    """Return the plan that reads rows, in one subtask."""
    source: Any = CollectionSource(rows)
    source.carries_timestamps = False
    read = OperatorTransformation(
        "Elements",
        spec=SourceSpec(source, WatermarkStrategy.no_watermarks()),
        kind="source",
        parallelism=1,
        parallelism_fixed=True,
    )
    types = tuple(row_type.field_types())
    columns = OperatorTransformation(
        "ElementsToColumns",
        inputs=(read,),
        spec=RowsToColumnsSpec(types=types, names=tuple(row_type.field_names())),
        parallelism=1,
        parallelism_fixed=True,
    )
    fields = tuple(
        Field(name, kind) for name, kind in zip(row_type.field_names(), types, strict=True)
    )
    return LogicalStreamScan(schema=fields, transformation=columns, columnar=True, bounded=True)


def row_type_of(rows: Sequence[Any], schema: Any) -> t.RowType:
    """Return the type of rows: that of the schema, with inferred types where it has none."""
    if isinstance(schema, t.RowType):
        return schema
    if isinstance(schema, t.DataType):
        return t.RowType([t.RowField("value", schema)])
    names = None if schema is None else list(schema)
    if names is not None and all(isinstance(each, t.DataType) for each in names):
        return t.RowType([t.RowField(f"_{n}", kind) for n, kind in enumerate(names, 1)])
    if names is not None and not all(isinstance(each, str) for each in names):
        raise ArgumentTypeError(
            f"invalid schema {schema!r}",
            hint="use DataTypes.ROW([...]), or a list of column names",
        )
    if not rows:
        raise ArgumentError(
            "cannot infer types from an empty list", hint="pass a schema: DataTypes.ROW([...])"
        )
    if names is None:
        names = _names(rows[0])
    columns = list(zip(*(_values(row, names) for row in rows), strict=True))
    return t.RowType(
        [t.RowField(name, guess(values, name)) for name, values in zip(names, columns, strict=True)]
    )


def _names(row: object) -> list[str]:
    if isinstance(row, Row):
        given = row.get_field_names()
        return list(given) if given is not None else [f"_{n}" for n in range(1, len(row) + 1)]
    if isinstance(row, dict):
        return sorted(row)
    if isinstance(row, list | tuple):
        fields = getattr(row, "_fields", None)
        return list(fields) if fields else [f"_{n}" for n in range(1, len(row) + 1)]
    return ["value"]


def _values(row: Any, names: Sequence[str]) -> tuple[Any, ...]:
    if isinstance(row, Row):
        given = row.get_field_names()
        if given is not None and set(given) == set(names):
            return tuple(row[name] for name in names)
        found: tuple[Any, ...] = tuple(row)
    elif isinstance(row, dict):
        found = tuple(row.get(name) for name in names)
    elif isinstance(row, list | tuple):
        found = tuple(row)
    elif len(names) == 1:
        found = (row,)
    else:
        raise ArgumentTypeError(f"element {row!r} is not a row", hint="use tuples or Rows")
    if len(found) != len(names):
        raise ArgumentError(
            f"element {row!r} has {len(found)} fields, but the schema has {len(names)}"
        )
    return found


_GUESSES: list[tuple[type, t.DataType]] = [
    (bool, t.BooleanType()),
    (int, t.BigIntType()),
    (float, t.DoubleType()),
    (str, t.VarCharType(_LONGEST)),
    (bytes, t.VarBinaryType(_LONGEST)),
    (bytearray, t.VarBinaryType(_LONGEST)),
    (Decimal, t.DecimalType(38, 18)),
    (dt.datetime, t.TimestampType(6)),
    (dt.date, t.DateType()),
    (dt.time, t.TimeType(0)),
    (dt.timedelta, t.DayTimeIntervalType()),
    (Instant, t.LocalZonedTimestampType(3)),
]


def guess(values: Iterable[Any], where: str) -> t.DataType:
    """Return the type that all values have.

    >>> str(guess([1, None], "a")), str(guess([[1.5]], "b")), str(guess([1, 2.5], "c"))
    ('BIGINT', 'ARRAY<DOUBLE>', 'DOUBLE')
    """
    found: t.DataType | None = None
    for value in values:
        if value is None:
            continue
        kind = _guess_one(value, where)
        if found is None or found == kind:
            found = kind
        elif {type(found), type(kind)} == {t.BigIntType, t.DoubleType}:
            found = t.DoubleType()
        elif isinstance(kind, t.NullType) or isinstance(found, t.NullType):
            found = kind if isinstance(found, t.NullType) else found
        else:
            raise ArgumentTypeError(
                f"column '{where}' mixes types {found} and {kind}",
                hint="pass a schema: DataTypes.ROW([...])",
            )
    if found is None:
        raise ArgumentTypeError(
            f"column '{where}' contains only None: cannot infer its type",
            hint="pass a schema: DataTypes.ROW([...])",
        )
    return found


def _guess_one(value: object, where: str) -> t.DataType:
    for kind, guessed in _GUESSES:
        if isinstance(value, kind):
            return guessed
    if isinstance(value, dict):
        return t.MapType(guess(value.keys(), where), guess(value.values(), where))
    if isinstance(value, list):
        return t.ArrayType(guess(value, where))
    if isinstance(value, Row | tuple):
        names = _names(value)
        return t.RowType(
            [
                t.RowField(name, guess([each], where))
                for name, each in zip(names, value, strict=True)
            ]
        )
    raise ArgumentTypeError(
        f"column '{where}' has values of Python type {type(value).__name__}, which maps to no SQL type",
        hint="pass a schema: DataTypes.ROW([...])",
    )


_ACCEPTED: dict[type[t.DataType], tuple[type, ...]] = {
    t.BooleanType: (bool,),
    t.TinyIntType: (int,),
    t.SmallIntType: (int,),
    t.IntType: (int,),
    t.BigIntType: (int,),
    t.FloatType: (float, int),
    t.DoubleType: (float, int),
    t.DecimalType: (Decimal, int),
    t.CharType: (str,),
    t.VarCharType: (str,),
    t.BinaryType: (bytes, bytearray),
    t.VarBinaryType: (bytes, bytearray),
    t.BitmapType: (bytes, bytearray),
    t.DateType: (dt.date,),
    t.TimeType: (dt.time,),
    t.TimestampType: (dt.datetime,),
    t.LocalZonedTimestampType: (dt.datetime, Instant),
    t.ArrayType: (list, tuple),
    t.MapType: (dict,),
    t.MultisetType: (dict,),
    t.RowType: (Row, tuple, list, dict),
}
_BITS: dict[type[t.DataType], int] = {
    t.TinyIntType: 8,
    t.SmallIntType: 16,
    t.IntType: 32,
    t.BigIntType: 64,
}


def _verify(row: tuple[Any, ...], row_type: t.RowType) -> None:
    for value, field in zip(row, row_type.fields, strict=True):
        kind = field.data_type
        if value is None:
            if not kind.is_nullable:
                raise ArgumentError(f"None in column '{field.name}', which is {kind}")
            continue
        accepted = _ACCEPTED.get(type(kind))
        if accepted is not None and (
            not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted)
        ):
            raise ArgumentTypeError(
                f"{value!r} in column '{field.name}' is not of type {kind.nullable()}",
                hint="change the schema, or convert the value",
            )
        bits = _BITS.get(type(kind))
        if bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ArgumentError(f"{value} in column '{field.name}' does not fit {kind.nullable()}")


def plan_of_pandas(frame: object, schema: object, splits: int) -> LogicalStreamScan:
    """Return the plan that reads a pandas.DataFrame."""
    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl

    from penstock.runtime.columnar.dtypes import dtype_of

    if not isinstance(frame, pd.DataFrame):
        from_spark = type(frame).__module__.startswith("pyspark.")
        raise ArgumentTypeError(
            f"pdf must be a pandas.DataFrame, got {type(frame).__name__}",
            hint=READ_FROM_SPARK if from_spark else None,
        )
    check_int(splits, "splits_num", minimum=1)
    columns = pl.from_pandas(frame.reset_index(drop=True))
    names, types = _pandas_schema(columns, schema)
    made = columns.select(
        pl.nth(index).cast(dtype_of(kind)).alias(f"c{index}") for index, kind in enumerate(types)
    )
    fields = tuple(Field(name, kind) for name, kind in zip(names, types, strict=True))
    return scan_of_frame(made, fields, splits)


def _pandas_schema(frame: Any, schema: Any) -> tuple[list[str], list[t.DataType]]:
    given = None if schema is None else schema
    if isinstance(given, t.RowType):
        names, types = given.field_names(), given.field_types()
    elif given is None or all(isinstance(each, str) for each in given):
        names = list(map(str, frame.columns)) if given is None else list(given)
        types = [type_of_series(frame[column]) for column in frame.columns]
    else:
        names, types = list(map(str, frame.columns)), list(given)
    if len(names) != frame.width or len(types) != frame.width:
        raise ArgumentError(
            f"the DataFrame has {frame.width} columns, but the schema has {len(names)}"
        )
    return names, types


def type_of_series(series: Any) -> t.DataType:
    """Return the type of SQL that a Polars column has."""
    import polars as pl

    dtype = series.dtype
    simple: dict[Any, t.DataType] = {
        pl.Boolean: t.BooleanType(),
        pl.Int8: t.TinyIntType(),
        pl.Int16: t.SmallIntType(),
        pl.Int32: t.IntType(),
        pl.Int64: t.BigIntType(),
        pl.UInt8: t.SmallIntType(),
        pl.UInt16: t.IntType(),
        pl.UInt32: t.BigIntType(),
        pl.UInt64: t.DecimalType(20, 0),
        pl.Float32: t.FloatType(),
        pl.Float64: t.DoubleType(),
        pl.String: t.VarCharType(_LONGEST),
        pl.Categorical: t.VarCharType(_LONGEST),
        pl.Binary: t.VarBinaryType(_LONGEST),
        pl.Date: t.DateType(),
        pl.Time: t.TimeType(0),
    }
    if dtype.base_type() in simple:
        return simple[dtype.base_type()]
    if isinstance(dtype, pl.Datetime):
        precision = {"ms": 3, "us": 6, "ns": 9}[dtype.time_unit]
        zoned = dtype.time_zone is not None
        return t.LocalZonedTimestampType(precision) if zoned else t.TimestampType(precision)
    if isinstance(dtype, pl.Decimal):
        return t.DecimalType(38, dtype.scale)
    return guess(series.to_list(), series.name)


def scan_of_frame(frame: Any, fields: tuple[Field, ...], splits: int) -> LogicalStreamScan:
    """Return the plan that reads a Polars DataFrame with the columns c0, c1, ..."""
    from penstock.connectors.base.frames import FrameSource

    read = OperatorTransformation(
        "DataFrame",
        spec=SourceSpec(FrameSource(frame, splits), WatermarkStrategy.no_watermarks()),
        kind="source",
        parallelism=splits,
        parallelism_fixed=splits == 1,
    )
    return LogicalStreamScan(schema=fields, transformation=read, columnar=True, bounded=True)
