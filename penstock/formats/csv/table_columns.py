"""The columns of CSV: simple values, and arrays and rows of them."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigurationError
from penstock.formats.base.field_types import field_type
from penstock.formats.csv.schema import CsvColumn
from penstock.sql import types as t

_NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType)


def csv_columns(
    columns: Mapping[str, t.DataType], between: str, table: str
) -> tuple[CsvColumn, ...]:
    """Return columns whose arrays and rows have a delimiter `between` their parts; as in Flink, parts have no parts."""
    for name, kind in columns.items():
        for part in _parts(kind):
            if isinstance(part, _NESTED):
                raise ConfigurationError(
                    f"table {table}: CSV cannot represent the {kind} of column '{name}'",
                    detail=f"one delimiter cannot also separate the parts of {part}",
                    hint="use JSON, or only simple types and arrays and rows of them",
                )
    return tuple(CsvColumn(name, field_type(kind), between) for name, kind in columns.items())


def _parts(kind: t.DataType) -> list[t.DataType]:
    if isinstance(kind, t.ArrayType):
        return [kind.element_type]
    return list(kind.field_types()) if isinstance(kind, t.RowType) else []
