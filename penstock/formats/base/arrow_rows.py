"""Conversion of records to Arrow tables, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import RecordError
from penstock.formats.base.field_types import FieldType
from penstock.formats.base.rows import field_values, row_of, rows_of
from penstock.formats.base.storing import storing

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowRows:
    """Converts records to tables of one schema: Rows, tuples, dicts or objects with the fields of a row type."""

    def __init__(self, row: FieldType, schema: pa.Schema, *, sized_text: bool = False) -> None:
        self._row = row
        self._schema = schema
        # None: values are stored unchanged
        self._converters = [storing(inner, sized_text=sized_text) for _, inner in row.fields]

    def values(self, records: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the fields of each record; a record that does not fit is rejected."""
        names = self._row.names
        return [field_values(record, names) for record in records]

    def table(self, rows: Sequence[Sequence[Any]]) -> pa.Table:
        """Return a table of rows that `values` returned."""
        import pyarrow as pa

        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self._row.fields)
        arrays = []
        for field, (name, kind), convert, values in zip(
            self._schema, self._row.fields, self._converters, columns, strict=True
        ):
            try:
                stored = values if convert is None else list(map(convert, values))
                arrays.append(pa.array(stored, field.type))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise RecordError(
                    f"a value does not match its column type: {error}",
                    detail=f"column {name!r} of type {kind.kind}",
                ) from error
        return pa.table(arrays, schema=self._schema)


def to_rows(batch: pa.RecordBatch | pa.Table) -> list[Any]:
    """Return the rows of an Arrow batch or table as Rows."""
    return rows_of(batch.schema.names, zip(*map(python_values, batch.columns), strict=True))


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python values."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    values: list[Any] = column.to_pylist()
    if pa.types.is_nested(column.type):
        return [_from_arrow(value, column.type) for value in values]
    return values


def _from_arrow(value: Any, kind: pa.DataType) -> Any:
    """Return a nested value as a Python value: structs are Rows, maps are dicts."""
    import pyarrow as pa

    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        values = [_from_arrow(value[field.name], field.type) for field in fields]
        return row_of(tuple(field.name for field in fields), values)
    if pa.types.is_map(kind):
        return {key: _from_arrow(item, kind.item_type) for key, item in value}
    return [_from_arrow(item, kind.value_type) for item in value]
