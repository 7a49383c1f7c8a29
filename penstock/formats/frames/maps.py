"""Maps in files: batches have them as lists of keys and values, files as maps, which other programs read as such."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from penstock.errors import RecordError
from penstock.runtime.columnar.dtypes import dtype_of, dtype_with_maps
from penstock.sql import types as t


def map_columns(columns: Mapping[str, t.DataType]) -> dict[str, pl.DataType]:
    """Return the columns that have maps, with the types that they get before they are written.

    >>> map_columns({"n": t.IntType(), "m": t.MapType(t.VarCharType(), t.IntType())})
    {'m': Map(String, Int32)}
    """
    found = {name: dtype_with_maps(kind) for name, kind in columns.items()}
    return {name: kind for name, kind in found.items() if kind != dtype_of(columns[name])}


def with_maps(frame: pl.DataFrame, maps: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a frame whose columns of maps have these types."""
    if not maps:
        return frame
    try:
        return frame.with_columns(pl.col(name).cast(kind) for name, kind in maps.items())
    except pl.exceptions.InvalidOperationError as error:
        raise RecordError(
            "cannot write a map with a NULL key to a file",
            detail=f"columns with maps: {', '.join(maps)}; {str(error).splitlines()[0]}",
            hint="leave such rows out with WHERE, or give the key another value with COALESCE",
        ) from error


def map_without_string_keys(kind: t.DataType) -> t.DataType | None:
    """Return the first map in a type whose keys are not strings."""
    match kind:
        case t.MapType(key_type=key) | t.MultisetType(element_type=key) if not isinstance(
            key, t.CharType | t.VarCharType
        ):
            return kind
        case t.MapType():
            return map_without_string_keys(kind.value_type)
        case t.ArrayType():
            return map_without_string_keys(kind.element_type)
        case t.RowType():
            inner = (map_without_string_keys(each.data_type) for each in kind.fields)
            return next((each for each in inner if each is not None), None)
    return None
