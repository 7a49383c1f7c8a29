"""Rows that programs collect: they have values and a kind, and no names, as in PyFlink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types import Row, make_row
from penstock.sql import types as t

Convert = Callable[[Any], Any]


def without_names(data_types: Sequence[t.DataType]) -> Callable[[Row], Row]:
    """Return a function that removes the field names of a row and of nested rows.

    >>> without_names([t.IntType()])(Row(id=1))
    <Row(1)>
    """
    inner = [(at, found) for at, each in enumerate(data_types) if (found := _inner(each))]

    def convert(row: Row) -> Row:
        values = list(row)
        for at, change in inner:
            values[at] = change(values[at])
        return make_row(None, values, row.get_row_kind())

    return convert


def _inner(data_type: t.DataType) -> Convert | None:
    """Return a converter for values of a type; None if no conversion is needed."""
    match data_type:
        case t.RowType():
            found: Convert | None = without_names(data_type.field_types())
        case t.ArrayType():
            found = _items(_inner(data_type.element_type))
        case t.MultisetType():
            found = _entries(_inner(data_type.element_type), None)
        case t.MapType():
            found = _entries(_inner(data_type.key_type), _inner(data_type.value_type))
        case _:
            return None
    if found is None:
        return None
    convert = found
    return lambda value: None if value is None else convert(value)


def _items(change: Convert | None) -> Convert | None:
    return None if change is None else lambda value: [change(each) for each in value]


def _entries(key: Convert | None, item: Convert | None) -> Convert | None:
    if key is None and item is None:
        return None
    key_of, item_of = key or _same, item or _same
    return lambda value: {key_of(name): item_of(each) for name, each in value.items()}


def _same(value: object) -> Any:
    return value
