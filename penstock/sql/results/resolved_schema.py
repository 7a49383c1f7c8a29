"""ResolvedSchema: the columns of a table or a result, with their types known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import ArgumentError
from penstock.sql.logical.nodes import Schema as PlanSchema
from penstock.sql.types import DataType, RowField, RowType


@dataclass(frozen=True, slots=True)
class ResolvedColumn:
    """A name and a type; `time` is rowtime or proctime for time attributes. `extras`: what DESCRIBE shows, such as METADATA VIRTUAL."""

    name: str
    type: DataType
    time: str | None = None
    extras: str | None = None
    comment: str | None = None

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def get_data_type(self) -> DataType:
        """Return the type."""
        return self.type

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self.comment

    @property
    def shown_type(self) -> str:
        """The type as SQL writes it; time attributes are marked."""
        if self.time is None:
            return str(self.type)
        base = str(self.type.nullable())
        mark = {"rowtime": "*ROWTIME*", "proctime": "*PROCTIME*"}[self.time]
        return f"{base}{'' if self.type.is_nullable else ' NOT NULL'} {mark}"


class ResolvedSchema:
    """Columns, watermarks and the primary key.

    >>> from penstock.table import DataTypes
    >>> schema = ResolvedSchema.physical(["id", "name"], [DataTypes.BIGINT().not_null(), DataTypes.STRING()])
    >>> print(schema)
    (
      `id` BIGINT NOT NULL,
      `name` STRING
    )
    """

    def __init__(
        self,
        columns: Iterable[ResolvedColumn] = (),
        watermark_specs: Sequence[tuple[str, str]] = (),
        primary_key: Sequence[str] | None = None,
    ) -> None:
        self._columns = tuple(columns)
        self._watermarks = tuple(watermark_specs)
        self._primary_key = None if primary_key is None else tuple(primary_key)

    @staticmethod
    def of(columns: Iterable[ResolvedColumn]) -> ResolvedSchema:
        """Return a schema of columns alone."""
        return ResolvedSchema(columns)

    @staticmethod
    def physical(
        column_names: Sequence[str], column_data_types: Sequence[DataType]
    ) -> ResolvedSchema:
        """Return a schema of names and types."""
        if len(column_names) != len(column_data_types):
            raise ArgumentError(f"got {len(column_names)} names for {len(column_data_types)} types")
        pairs = zip(column_names, column_data_types, strict=True)
        return ResolvedSchema(ResolvedColumn(name, kind) for name, kind in pairs)

    @staticmethod
    def of_plan(schema: PlanSchema) -> ResolvedSchema:
        """Return the schema of a plan's rows."""
        return ResolvedSchema(ResolvedColumn(each.name, each.type, each.time) for each in schema)

    def get_column_count(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def get_columns(self) -> list[ResolvedColumn]:
        """Return all columns."""
        return list(self._columns)

    def get_column_names(self) -> list[str]:
        """Return the names of all columns."""
        return [each.name for each in self._columns]

    def get_column_data_types(self) -> list[DataType]:
        """Return the types of all columns."""
        return [each.type for each in self._columns]

    def get_column(self, column_index_or_name: int | str) -> ResolvedColumn | None:
        """Return a column by its position or name, or None."""
        if isinstance(column_index_or_name, int):
            inside = 0 <= column_index_or_name < len(self._columns)
            return self._columns[column_index_or_name] if inside else None
        return next((each for each in self._columns if each.name == column_index_or_name), None)

    def get_watermark_specs(self) -> list[tuple[str, str]]:
        """Return the time column and the text of the watermark, if there is one."""
        return list(self._watermarks)

    def get_primary_key(self) -> tuple[str, ...] | None:
        """Return the columns of the primary key, if there is one."""
        return self._primary_key

    def get_primary_key_indexes(self) -> list[int]:
        """Return the positions of the primary key's columns."""
        names = self.get_column_names()
        return [names.index(name) for name in self._primary_key or ()]

    def to_physical_row_data_type(self) -> RowType:
        """Return the type of the table's rows."""
        return RowType([RowField(each.name, each.type) for each in self._columns], nullable=False)

    to_source_row_data_type = to_physical_row_data_type
    to_sink_row_data_type = to_physical_row_data_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        lines = []
        for each in self._columns:
            extras = f" {each.extras}" if each.extras else ""
            comment = f" COMMENT '{each.comment}'" if each.comment else ""
            lines.append(f"`{each.name}` {each.shown_type}{extras}{comment}")
        lines += [f"WATERMARK FOR `{name}` AS {text}" for name, text in self._watermarks]
        if self._primary_key is not None:
            names = ", ".join(f"`{name}`" for name in self._primary_key)
            lines.append(
                f"CONSTRAINT `PK_{'_'.join(self._primary_key)}` PRIMARY KEY ({names}) NOT ENFORCED"
            )
        return "(\n" + ",\n".join(f"  {line}" for line in lines) + "\n)"


__all__ = ["ResolvedColumn", "ResolvedSchema"]
