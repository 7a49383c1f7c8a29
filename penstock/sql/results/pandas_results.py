"""The table that a query leaves, as a pandas.DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common.types import Row, RowKind
from penstock.sql import types as t
from penstock.sql.results.table_result import CloseableRows, TableResult

_NUMPY: dict[type[t.DataType], str] = {
    t.BooleanType: "bool",
    t.TinyIntType: "int8",
    t.SmallIntType: "int16",
    t.IntType: "int32",
    t.BigIntType: "int64",
    t.FloatType: "float32",
    t.DoubleType: "float64",
}


def to_pandas(result: TableResult) -> object:
    """Read a result to its end; changes are applied, so that the rows that are left are returned."""
    import pandas as pd  # type: ignore[import-untyped]

    schema = result.get_resolved_schema()
    # Unlike those of collect(), rows inside of rows keep their names.
    with CloseableRows(result.take()) as rows:
        left = final_rows(rows)
    columns = list(zip(*left, strict=True)) if left else [()] * schema.get_column_count()
    names = schema.get_column_names()
    series = [
        _series(pd, values, kind)
        for values, kind in zip(columns, schema.get_column_data_types(), strict=True)
    ]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame()
    frame.columns = names
    return frame


def _series(pd: Any, values: Iterable[Any], kind: t.DataType) -> object:
    values = list(values)
    dtype = _NUMPY.get(type(kind))
    if dtype is None:
        return pd.Series(values, dtype=None if values else "object")
    if None in values:  # as Arrow does: numbers with gaps become floats, and others objects
        return pd.Series(values, dtype="object" if dtype == "bool" else "float64")
    return pd.Series(values, dtype=dtype)


def final_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that are left after all changes, in the order in which they came.

    >>> final_rows([Row(1), Row.of_kind(RowKind.UPDATE_BEFORE, 1), Row.of_kind(RowKind.UPDATE_AFTER, 2)])
    [<Row(2)>]
    """
    left: dict[int, Row] = {}
    places: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        key = _key(row)
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            row.set_row_kind(RowKind.INSERT)
            left[number] = row
            places.setdefault(key, []).append(number)
        elif places.get(key):
            del left[places[key].pop()]
    return list(left.values())


def _key(value: object) -> Any:
    """Return a value that can be looked up: equal for equal rows, also with lists and maps inside."""
    if isinstance(value, Row | list | tuple):
        return tuple(_key(each) for each in value)
    if isinstance(value, dict):
        return frozenset((_key(key), _key(each)) for key, each in value.items())
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    return value
