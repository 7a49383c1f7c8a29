"""Schema: the columns of a table as a program declares them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_text
from penstock.sql.types import DataType, RowType

if TYPE_CHECKING:
    from penstock.sql.table_api.expression import Expression


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column: `kind` is physical, metadata or computed. A type may still be text, and so may an expression."""

    name: str
    kind: str
    type: DataType | str | None = None
    expression: Any = None
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None


class Schema:
    """Columns, watermark and primary key of a table.

    >>> print(Schema.new_builder().column("id", "BIGINT NOT NULL").column("name", "STRING").primary_key("id").build())
    (
      `id` BIGINT NOT NULL,
      `name` STRING,
      CONSTRAINT `PK_id` PRIMARY KEY (`id`) NOT ENFORCED
    )
    """

    def __init__(
        self,
        columns: Iterable[DeclaredColumn] = (),
        watermark: tuple[str, Any] | None = None,
        primary_key: tuple[str, ...] | None = None,
        primary_key_name: str | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.watermark = watermark
        self.primary_key = primary_key
        self.primary_key_name = primary_key_name

    @staticmethod
    def new_builder() -> Builder:
        """Start building a schema."""
        return Schema.Builder()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        lines = [_shown(column) for column in self.columns]
        if self.watermark is not None:
            lines.append(f"WATERMARK FOR `{self.watermark[0]}` AS [{self.watermark[1]}]")
        if self.primary_key is not None:
            names = ", ".join(f"`{name}`" for name in self.primary_key)
            lines.append(f"CONSTRAINT `{self.primary_key_name}` PRIMARY KEY ({names}) NOT ENFORCED")
        return "(\n" + ",\n".join(f"  {line}" for line in lines) + "\n)"

    class Builder:
        """A schema that is being put together."""

        def __init__(self) -> None:
            self._columns: list[DeclaredColumn] = []
            self._watermark: tuple[str, Any] | None = None
            self._key: tuple[str, ...] | None = None
            self._key_name: str | None = None

        def from_schema(self, unresolved_schema: Schema) -> Builder:
            """Take over all of another schema."""
            self._columns += unresolved_schema.columns
            self._watermark = self._watermark or unresolved_schema.watermark
            if unresolved_schema.primary_key is not None:
                self._key = unresolved_schema.primary_key
                self._key_name = unresolved_schema.primary_key_name
            return self

        def from_row_data_type(self, data_type: DataType) -> Builder:
            """Add the fields of a row type as columns."""
            if not isinstance(data_type, RowType):
                raise ArgumentTypeError(
                    f"data_type must be a row type, got {data_type!r}",
                    hint='use DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())])',
                )
            for field in data_type.fields:
                self.column(field.name, field.data_type)
            return self

        def from_fields(
            self, field_names: Sequence[str], field_data_types: Sequence[DataType | str]
        ) -> Builder:
            """Add columns, names and types apart."""
            if len(field_names) != len(field_data_types):
                raise ArgumentError(
                    f"got {len(field_names)} names for {len(field_data_types)} types"
                )
            for name, kind in zip(field_names, field_data_types, strict=True):
                self.column(name, kind)
            return self

        def column(self, column_name: str, data_type: str | DataType) -> Builder:
            """Add a column that the table's rows have."""
            return self._add(
                DeclaredColumn(check_text(column_name, "column_name"), "physical", _type(data_type))
            )

        def column_by_expression(self, column_name: str, expr: str | Expression) -> Builder:
            """Add a column that is computed when the table is read."""
            name = check_text(column_name, "column_name")
            return self._add(DeclaredColumn(name, "computed", expression=expr))

        def column_by_metadata(
            self,
            column_name: str,
            data_type: DataType | str,
            metadata_key: str | None = None,
            is_virtual: bool = False,
        ) -> Builder:
            """Add a column that the connector fills."""
            return self._add(
                DeclaredColumn(
                    check_text(column_name, "column_name"),
                    "metadata",
                    _type(data_type),
                    metadata_key=metadata_key,
                    virtual=is_virtual,
                )
            )

        def with_comment(self, comment: str) -> Builder:
            """Comment on the last column."""
            if not self._columns:
                raise ArgumentError("with_comment needs a preceding column")
            self._columns[-1] = replace(self._columns[-1], comment=comment)
            return self

        def watermark(self, column_name: str, watermark_expr: str | Expression) -> Builder:
            """Declare the event time: a column, and what the watermark is, such as "ts - INTERVAL '5' SECOND"."""
            if self._watermark is not None:
                raise ArgumentError("the schema already has a watermark")
            self._watermark = (check_text(column_name, "column_name"), watermark_expr)
            return self

        def primary_key(self, *column_names: str) -> Builder:
            """Declare which columns identify a row. It is not enforced."""
            return self.primary_key_named("PK_" + "_".join(column_names), *column_names)

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Builder:
            """Declare which columns identify a row, under a name."""
            if not column_names:
                raise ArgumentError("a primary key needs at least one column")
            if self._key is not None:
                raise ArgumentError("the schema already has a primary key")
            self._key = tuple(check_text(name, "a column name") for name in column_names)
            self._key_name = constraint_name
            return self

        def build(self) -> Schema:
            """Return the schema."""
            return Schema(self._columns, self._watermark, self._key, self._key_name)

        def _add(self, column: DeclaredColumn) -> Builder:
            if any(each.name == column.name for each in self._columns):
                raise ArgumentError(f"duplicate column '{column.name}'")
            self._columns.append(column)
            return self


Builder = Schema.Builder


def _type(given: object) -> DataType | str:
    if isinstance(given, DataType) or (isinstance(given, str) and given):
        return given
    raise ArgumentTypeError(
        f"invalid column type {given!r}",
        hint='use DataTypes.BIGINT() or a text such as "BIGINT"',
    )


def _shown(column: DeclaredColumn) -> str:
    parts = [f"`{column.name}`"]
    if column.kind == "computed":
        parts.append(f"AS [{column.expression}]")
    else:
        parts.append(str(column.type))
    if column.kind == "metadata":
        parts.append("METADATA")
        parts += [f"FROM '{column.metadata_key}'"] if column.metadata_key else []
        parts += ["VIRTUAL"] if column.virtual else []
    parts += [f"COMMENT '{column.comment}'"] if column.comment else []
    return " ".join(parts)


__all__ = ["Schema"]
