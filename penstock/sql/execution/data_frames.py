"""Tables of Arrow and Polars data: columns go into the job as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_int
from penstock.runtime.columnar.arrow_columns import frame_of_arrow
from penstock.runtime.columnar.arrow_types import TYPE_KEY, arrow_type, type_of_arrow
from penstock.sql import types as t
from penstock.sql.execution.elements import scan_of_frame
from penstock.sql.logical.nodes import Field, LogicalStreamScan
from penstock.sql.parse.types import data_type_of


def plan_of_arrow(data: Any, schema: Any, splits: int) -> LogicalStreamScan:
    """Return the plan that reads Arrow data."""
    check_int(splits, "splits_num", minimum=1)
    return _plan(_table_of(data), schema, splits)


def plan_of_polars(frame: Any, schema: Any, splits: int) -> LogicalStreamScan:
    """Return the plan that reads a polars.DataFrame or LazyFrame."""
    check_int(splits, "splits_num", minimum=1)
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, pl.DataFrame):
        hint = f"use {_METHODS[_package(frame)]}()" if _package(frame) in _METHODS else None
        raise ArgumentTypeError(
            f"df must be a polars.DataFrame or LazyFrame, got {_shown_type(frame)}", hint=hint
        )
    _check_polars(frame)
    categories = [
        name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Categorical | pl.Enum)
    ]
    plain = frame.with_columns(pl.col(categories).cast(pl.String)) if categories else frame
    return _plan(pa.table(plain), schema, splits)


_METHODS = {"pandas": "from_pandas", "pyarrow": "from_arrow", "pyspark": "from_spark"}


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _shown_type(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{_package(value)}.{kind.__name__}"


def _check_polars(frame: pl.DataFrame) -> None:
    """Refuse columns that Arrow has no type for."""
    for name, dtype in frame.schema.items():
        if dtype.base_type() in {pl.Object, pl.Int128, pl.UInt128}:
            raise ArgumentTypeError(
                f"column '{name}' has Polars type {dtype}, which has no counterpart in SQL",
                hint="cast it before: pl.col(...).cast(pl.Decimal(38, 0))"
                if dtype != pl.Object
                else "convert it before, for instance to pl.String",
            )


def _table_of(data: Any) -> pa.Table:
    """Return what holds Arrow data as a table; readers and datasets are read to their end."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if callable(getattr(data, "to_table", None)) and isinstance(
        getattr(data, "schema", None), pa.Schema
    ):
        return data.to_table()  # a dataset or a scanner
    package = _package(data)
    if package in {"pandas", "polars", "pyspark"}:
        raise ArgumentTypeError(
            f"data must be Arrow data, got {_shown_type(data)}",
            hint=f"use from_{package.removeprefix('py')}()",
        )
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise ArgumentTypeError(
        f"data must be Arrow data, got {_shown_type(data)}",
        hint="pass a pyarrow.Table, RecordBatch, RecordBatchReader or Dataset, or an object with __arrow_c_stream__",
    )


def _plan(table: pa.Table, schema: Any, splits: int) -> LogicalStreamScan:
    if not table.num_columns:
        raise ArgumentError("the data has no columns", hint="a table needs at least one column")
    names, types = _names_and_types(table.schema, schema)
    _check_names(names)
    fields = tuple(Field(name, kind) for name, kind in zip(names, types, strict=True))
    return scan_of_frame(frame_of_arrow(table, types), fields, splits)


def _check_names(names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ArgumentError(
            f"column '{repeated[0]}' exists more than once",
            hint="pass other names: schema=['a', 'b']",
        )


def _names_and_types(given: pa.Schema, schema: Any) -> tuple[list[str], list[t.DataType]]:
    """Return the columns of a table; `schema` is a row type, a list of names, a list of types, or None."""
    if schema is None:
        return list(given.names), _types(given)
    if isinstance(schema, t.RowType):
        names, types = schema.field_names(), list(schema.field_types())
    elif isinstance(schema, str) or not isinstance(schema, Sequence):
        raise ArgumentTypeError(
            f"invalid schema {schema!r}", hint="use DataTypes.ROW([...]), or a list of column names"
        )
    elif all(isinstance(each, t.DataType) for each in schema):
        names, types = list(given.names), list(schema)
    elif all(isinstance(each, str) for each in schema):
        names, types = list(schema), []
    else:
        raise ArgumentTypeError(
            f"invalid schema {schema!r}", hint="use DataTypes.ROW([...]), or a list of column names"
        )
    if len(names) != len(given.names) or (types and len(types) != len(names)):
        raise ArgumentError(
            f"the data has {len(given.names)} columns, but the schema has {len(types or names)}"
        )
    return names, types or _types(given)


def _types(schema: pa.Schema) -> list[t.DataType]:
    return [_type_of(field) for field in schema]


def _type_of(field: pa.Field) -> t.DataType:
    """Return the type of a column: the one that to_arrow() noted, if it is still true."""
    noted = (field.metadata or {}).get(TYPE_KEY)
    if noted is not None:
        kind = data_type_of(noted.decode())
        if arrow_type(kind) == field.type:
            return kind if field.nullable else kind.not_null()
    return type_of_arrow(field)
