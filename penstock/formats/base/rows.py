"""Conversion of records to field values, and back to Rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.common.types import Row, RowKind, make_row
from penstock.common.user_types import Record
from penstock.errors import RecordError


def rows_of(names: Sequence[str], values: Iterable[Sequence[Any]]) -> list[Row]:
    """Return Rows with named fields."""
    fields, insert = tuple(names), RowKind.INSERT
    return [make_row(fields, list(row), insert) for row in values]


def row_of(names: tuple[str, ...], values: Sequence[Any]) -> Row:
    """Return one Row with named fields."""
    return make_row(names, list(values), RowKind.INSERT)


def field_values(record: Record, names: Sequence[str]) -> Sequence[Any]:
    """Return the fields of a record in the order of names: of a Row, a tuple, a dict, or an object."""
    if type(record) is dict:  # isinstance(..., Mapping) is slower
        found: Sequence[Any] = [record.get(name) for name in names]
    elif isinstance(record, Row):
        if record.get_field_names() is None:
            found = list(record)
        else:
            found = record.get_fields_by_names(names)
    elif isinstance(record, (tuple, list)):
        found = record
    elif isinstance(record, Mapping):
        found = [record.get(name) for name in names]
    elif len(names) == 1 and isinstance(record, (str, int, float, bytes)):
        found = [record]
    else:
        try:
            found = [getattr(record, name) for name in names]
        except AttributeError:
            found = ()
    if len(found) != len(names):
        raise RecordError(
            "a record does not match the schema of the file",
            detail=f"the schema has the fields {list(names)}, record: {record!r:.200}",
            hint="emit a Row, a tuple or a dict with these fields",
        )
    return found


def as_dict(value: Any) -> Any:
    """Return a value with dicts instead of Rows, at any depth."""
    if isinstance(value, Row):
        names = value.get_field_names() or ()
        return {name: as_dict(item) for name, item in zip(names, value, strict=True)}
    if isinstance(value, list):
        return [as_dict(item) for item in value]
    if isinstance(value, dict):
        return {key: as_dict(item) for key, item in value.items()}
    return value
