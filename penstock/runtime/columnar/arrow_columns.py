"""Columns from the engine to Arrow and back. Columns stay columns, and share memory where the types are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.graph.operator_specs.columnar.common import column
from penstock.runtime.columnar.arrow_types import arrow_field, arrow_type
from penstock.runtime.columnar.dtypes import dtype_of, dtype_with_maps, schema_of
from penstock.sql import types as t

_Convert = Callable[[pa.Array, t.DataType], pa.Array]


def arrow_schema(names: Sequence[str], types: Sequence[t.DataType]) -> pa.Schema:
    """Return the schema of a table with these columns."""
    return pa.schema([arrow_field(name, kind) for name, kind in zip(names, types, strict=True)])


def arrow_table(frame: pl.DataFrame, names: Sequence[str], types: Sequence[t.DataType]) -> pa.Table:
    """Return the columns c0, c1, ... of a frame as an Arrow table."""
    schema = arrow_schema(names, types)
    made = frame.select(column(at) for at in range(len(types)))
    given = made.to_arrow(compat_level=pl.CompatLevel.oldest())
    columns = []
    for at, (field, kind) in enumerate(zip(schema, types, strict=True)):
        chunks = [_to_arrow(chunk, kind, field.name) for chunk in given.column(at).chunks]
        columns.append(pa.chunked_array(chunks, field.type))
    return pa.table(columns, schema=schema)


def named_frame(
    frame: pl.DataFrame, names: Sequence[str], types: Sequence[t.DataType]
) -> pl.DataFrame:
    """Return the columns c0, c1, ... of a frame with their names, and with maps as such."""
    return frame.select(
        pl.col(column(at)).cast(dtype_with_maps(kind)).alias(name)
        for at, (name, kind) in enumerate(zip(names, types, strict=True))
    )


def _to_arrow(array: pa.Array, kind: t.DataType, name: str) -> pa.Array:
    try:
        return _public(array, kind)
    except pa.ArrowInvalid as error:
        raise RecordError(
            f"column '{name}' cannot be given as {arrow_type(kind)}",
            detail=str(error),
            hint="Arrow's maps have no NULL keys: leave such rows out with WHERE, or give the key another value with COALESCE"
            if _has_map(kind)
            else "CAST the column in the query",
        ) from error


def _has_map(kind: t.DataType) -> bool:
    return "MAP<" in str(kind) or "MULTISET<" in str(kind)


def _public(array: pa.Array, kind: t.DataType) -> pa.Array:
    """Return an array of the engine with the Arrow type of its column."""
    wanted = arrow_type(kind)
    if array.type == wanted:
        return array
    if isinstance(kind, t.RowType):
        return _struct(array, kind, _public, list(wanted))
    if isinstance(kind, t.ArrayType):
        offsets, inner = _list_parts(array)
        values = _public(inner, kind.element_type)
        return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=array.is_null())
    if isinstance(kind, t.MapType | t.MultisetType):
        offsets, entries = _list_parts(array)
        keys, values = _map_types(kind)
        return pa.MapArray.from_arrays(
            offsets,
            _public(entries.field(0), keys),
            _public(entries.field(1), values),
            type=wanted,
            mask=array.is_null(),
        )
    return array.cast(wanted)


def frame_of_arrow(table: pa.Table, types: Sequence[t.DataType]) -> pl.DataFrame:
    """Return an Arrow table as a frame with the columns c0, c1, ... of these types."""
    if table.num_rows == 0:
        return pl.DataFrame(schema=schema_of(types))
    columns = []
    for at, (field, kind) in enumerate(zip(table.schema, types, strict=True)):
        chunks = [_from_arrow(chunk, kind, field) for chunk in table.column(at).chunks]
        made = pl.from_arrow(pa.chunked_array(chunks))
        assert isinstance(made, pl.Series)
        columns.append(made.cast(dtype_of(kind)).alias(column(at)))
    return pl.DataFrame(columns)


def _from_arrow(array: pa.Array, kind: t.DataType, field: pa.Field) -> pa.Array:
    try:
        made = _private(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ArgumentTypeError(
            f"column '{field.name}' of Arrow type {field.type} does not fit {kind.nullable()}",
            detail=str(error).splitlines()[0],
            hint="change the schema, or cast the column before",
        ) from error
    _check_nulls(made, kind, field.name)
    return made


def _private(array: pa.Array, kind: t.DataType) -> pa.Array:
    """Return an array with the Arrow type from which Polars makes a column of the engine."""
    given = array.type
    if pa.types.is_dictionary(given):
        return _private(array.dictionary_decode(), kind)
    if pa.types.is_fixed_size_list(given):
        return _private(array.cast(pa.list_(given.value_field)), kind)
    if isinstance(kind, t.RowType) and pa.types.is_struct(given):
        if given.num_fields != len(kind.fields):
            raise pa.ArrowInvalid(f"it has {given.num_fields} fields, not {len(kind.fields)}")
        return _struct(array, kind, _private)
    if isinstance(kind, t.ArrayType) and (pa.types.is_list(given) or pa.types.is_large_list(given)):
        offsets, inner = _list_parts(array)
        values = _private(inner, kind.element_type)
        return pa.ListArray.from_arrays(offsets, values, mask=array.is_null())
    if isinstance(kind, t.MapType | t.MultisetType) and pa.types.is_map(given):
        offsets, inner = _list_parts(array)
        parts = zip(_fields(inner), _map_types(kind), strict=True)
        converted = [_private(part, each) for part, each in parts]
        entries = pa.StructArray.from_arrays(converted, ["key", "value"])
        return pa.ListArray.from_arrays(offsets, entries, mask=array.is_null())
    return _plain(array, kind)


def _plain(array: pa.Array, kind: t.DataType) -> pa.Array:
    """Return an array without arrays inside; one that would lose something is refused."""
    given = array.type
    if isinstance(kind, t.CharType | t.VarCharType) and (
        pa.types.is_large_string(given) or pa.types.is_string_view(given)
    ):
        return array
    if isinstance(kind, t.BinaryType | t.VarBinaryType) and (
        pa.types.is_large_binary(given) or pa.types.is_binary_view(given)
    ):
        return array
    if (
        isinstance(kind, t.LocalZonedTimestampType)
        and pa.types.is_timestamp(given)
        and not given.tz
    ):
        raise pa.ArrowInvalid("its values have no time zone")
    if isinstance(kind, t.TimestampType) and pa.types.is_timestamp(given) and given.tz:
        raise pa.ArrowInvalid("its values have a time zone")
    if isinstance(kind, t.DecimalType):
        # The engine has decimals with 38 digits; the declared number of digits is checked before.
        return array.cast(arrow_type(kind)).cast(pa.decimal128(38, kind.scale))
    return array.cast(arrow_type(kind))


def _struct(
    array: pa.StructArray, kind: t.RowType, convert: _Convert, fields: list[Any] | None = None
) -> pa.Array:
    parts = [
        convert(part, each.data_type)
        for part, each in zip(_fields(array), kind.fields, strict=True)
    ]
    given: dict[str, Any] = {"fields": fields} if fields else {"names": kind.field_names()}
    return pa.StructArray.from_arrays(parts, **given, mask=array.is_null())


def _fields(array: pa.StructArray) -> list[pa.Array]:
    """Return the fields of rows, at the places of the rows, as they are where the row is NULL."""
    return [array.field(at) for at in range(array.type.num_fields)]


def _list_parts(array: Any) -> tuple[pa.Array, pa.Array]:
    """Return where the lists of an array begin and end, and all their elements."""
    if array.offset:  # Arrow makes no lists with NULLs of a part of the offsets
        array = pa.concat_arrays([array, array.slice(0, 0)])
    entries = array.values
    return array.offsets.cast(pa.int32()), entries


def _map_types(kind: t.MapType | t.MultisetType) -> tuple[t.DataType, t.DataType]:
    if isinstance(kind, t.MapType):
        return kind.key_type, kind.value_type
    return kind.element_type, t.IntType(nullable=False)


def _check_nulls(array: pa.Array, kind: t.DataType, name: str) -> None:
    """Refuse NULL where the type has none."""
    if not kind.is_nullable and array.null_count:
        raise ArgumentError(
            f"column '{name}' has {array.null_count} NULLs, but {kind} takes none",
            hint="declare the column as nullable, or leave the NULLs out",
        )
    if "NOT NULL" not in str(kind.nullable()):
        return
    valid = array.drop_null()
    if isinstance(kind, t.RowType):
        for part, each in zip(_fields(valid), kind.fields, strict=True):
            _check_nulls(part, each.data_type, f"{name}.{each.name}")
    elif isinstance(kind, t.ArrayType):
        _check_nulls(valid.flatten(), kind.element_type, name)
    elif isinstance(kind, t.MapType | t.MultisetType):
        entries = valid.flatten()
        for at, inner in enumerate(_map_types(kind)):
            _check_nulls(entries.field(at), inner, name)
