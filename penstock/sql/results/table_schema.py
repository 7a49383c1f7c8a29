"""TableSchema: names and types of columns, in PyFlink's old form."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ArgumentError
from penstock.sql.types import DataType, RowField, RowType


class TableSchema:
    """Names and types of columns.

    >>> from penstock.table import DataTypes
    >>> schema = TableSchema.builder().field("id", DataTypes.INT()).build()
    >>> schema.get_field_names(), schema.get_field_data_type("id")
    (['id'], IntType(true))
    """

    def __init__(
        self,
        field_names: Sequence[str] | None = None,
        data_types: Sequence[DataType] | None = None,
    ) -> None:
        names, types = list(field_names or ()), list(data_types or ())
        if len(names) != len(types):
            raise ArgumentError(f"got {len(names)} names for {len(types)} types")
        self._names = names
        self._types = types

    @classmethod
    def builder(cls) -> Builder:
        """Start building a schema."""
        return TableSchema.Builder()

    def copy(self) -> TableSchema:
        """Return a copy."""
        return TableSchema(self._names, self._types)

    def get_field_count(self) -> int:
        """Return the number of columns."""
        return len(self._names)

    def get_field_names(self) -> list[str]:
        """Return the names."""
        return list(self._names)

    def get_field_name(self, field_index: int) -> str | None:
        """Return the name of a column by its position, or None."""
        return self._names[field_index] if 0 <= field_index < len(self._names) else None

    def get_field_data_types(self) -> list[DataType]:
        """Return the types."""
        return list(self._types)

    def get_field_data_type(self, field: int | str) -> DataType | None:
        """Return the type of a column by its position or name, or None."""
        if isinstance(field, str):
            field = self._names.index(field) if field in self._names else -1
        return self._types[field] if 0 <= field < len(self._types) else None

    def to_row_data_type(self) -> RowType:
        """Return the type of rows."""
        pairs = zip(self._names, self._types, strict=True)
        return RowType([RowField(name, kind) for name, kind in pairs], nullable=False)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TableSchema)
            and other._names == self._names
            and other._types == self._types
        )

    def __hash__(self) -> int:
        return hash((*self._names, *self._types))

    def __str__(self) -> str:
        pairs = zip(self._names, self._types, strict=True)
        return "root\n" + "".join(f" |-- {name}: {kind}\n" for name, kind in pairs)

    class Builder:
        """A schema that is being put together."""

        def __init__(self) -> None:
            self._names: list[str] = []
            self._types: list[DataType] = []

        def field(self, name: str, data_type: DataType) -> Builder:
            """Add a column."""
            self._names.append(name)
            self._types.append(data_type)
            return self

        def build(self) -> TableSchema:
            """Return the schema."""
            return TableSchema(self._names, self._types)


Builder = TableSchema.Builder

__all__ = ["TableSchema"]
