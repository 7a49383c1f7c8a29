"""Keys made of columns: the values that state and key groups know them by.

A key of one column is its value, of several a tuple, of none the empty tuple. Times are whole numbers in the column's unit, so that a key is the same however it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock.graph.keys import as_key
from penstock.graph.operator_specs.columnar.common import column


@dataclass(frozen=True, slots=True)
class ColumnsKey:
    """The key selector of a hash exchange by columns."""

    columns: tuple[int, ...]

    def __call__(self, row: Sequence[Any]) -> object:
        """Return the key of one row; a ColumnBatch has those of all its rows at once."""
        values = tuple(row[index] for index in self.columns)
        return values[0] if len(values) == 1 else values

    def __str__(self) -> str:
        return f"columns {', '.join(map(str, self.columns))}"


def physical(series: pl.Series) -> pl.Series:
    """Return a column as its keys have it: times as numbers, all else as it is."""
    return series.to_physical() if series.dtype.is_temporal() else series


def keys_of(frame: pl.DataFrame, columns: Sequence[int]) -> list[Any]:
    """Return the key of each row.

    >>> keys_of(pl.DataFrame({"c0": [1, 2], "c1": ["a", "b"]}), (1, 0))
    [('a', 1), ('b', 2)]
    """
    values = [values_of(frame[column(index)]) for index in columns]
    if len(values) == 1:
        return values[0]
    return list(zip(*values, strict=True)) if values else [()] * len(frame)


def values_of(series: pl.Series) -> list[Any]:
    """Return the values of a column as keys have them."""
    values = physical(series).to_list()
    return [_plain(value) for value in values] if series.dtype.is_nested() else values


def _plain(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return tuple(map(_plain, value.values()))
    return as_key(value)


def series_of_keys(keys: Sequence[Any], dtypes: Sequence[pl.DataType]) -> list[pl.Series]:
    """Return the columns that keys were made of: what `keys_of` takes apart.

    >>> [each.to_list() for each in series_of_keys([("a", 1)], [pl.String(), pl.Int64()])]
    [['a'], [1]]
    """
    if len(dtypes) == 1:
        return [_series(column(0), list(keys), dtypes[0])]
    columns = list(zip(*keys, strict=True)) or [() for _ in dtypes]
    return [
        _series(column(at), list(values), dtype)
        for at, (values, dtype) in enumerate(zip(columns, dtypes, strict=True))
    ]


def _series(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    if dtype.is_temporal():
        return pl.Series(name, values, dtype=pl.Int64).cast(dtype)
    if dtype.is_nested():
        values = [_nested(value, dtype) for value in values]
    return pl.Series(name, values, dtype=dtype)


def _nested(value: Any, dtype: Any) -> object:
    """Return a list or struct of the tuples that stand for it in a key."""
    if value is None:
        return None
    if isinstance(dtype, pl.List):
        return [_nested(each, dtype.inner) for each in value]
    if isinstance(dtype, pl.Struct):
        return {
            field.name: _nested(each, field.dtype)
            for field, each in zip(dtype.fields, value, strict=True)
        }
    return value
