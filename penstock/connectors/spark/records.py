"""Records on their way to Spark: batches of rows or of columns become Arrow tables of one schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.formats.base.arrow_rows import ArrowRows
from penstock.formats.base.field_types import ANY, FieldType, arrow_schema, field_type
from penstock.spark.data_frame_types import spark_arrow_schema, spark_schema, spark_table
from penstock.spark.staged_frames import from_arrow_schema, with_text
from penstock.sql import types as t

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

#: The column that says what each row of a changelog does: +I, -U, +U or -D
ROW_KIND: Final = "_row_kind"
#: The column of a stream whose records are not rows
SINGLE: Final = "value"


class Records(ABC):
    """What the records of a stream are, and how they become Arrow tables. It is sent to tasks."""

    #: The columns as Spark's
    types: StructType
    #: Of the tables: how Spark takes the columns in Arrow
    schema: pa.Schema

    @abstractmethod
    def table(self, records: Any) -> pa.Table:
        """Return a batch of records as a table."""


class RowRecords(Records):
    """Records of a DataStream: Rows, tuples, dicts or objects with the fields of a type; or single values."""

    def __init__(self, row: FieldType) -> None:
        self._declared = row
        self._single = row.kind != "ROW"
        fields = FieldType("ROW", ((SINGLE, row),)) if self._single else row
        stored = arrow_schema(fields)
        self.types = from_arrow_schema(stored)
        self.schema = spark_arrow_schema(self.types)
        self._convert = ArrowRows(fields, stored)

    def __reduce__(self) -> tuple[type[RowRecords], tuple[FieldType]]:
        return RowRecords, (self._declared,)  # converters cannot be pickled

    def table(self, records: Sequence[Any]) -> pa.Table:
        """Return a batch of records as a table; a record that does not fit is rejected."""
        convert = self._convert
        rows: Any = [(each,) for each in records] if self._single else convert.values(records)
        return spark_table(convert.table(rows), self.types)


class ColumnRecords(Records):
    """The rows of a table: columns, with the kinds of changes as one more column if they are asked for."""

    def __init__(
        self, names: Sequence[str], types: Sequence[t.DataType], *, row_kinds: bool = False
    ) -> None:
        if row_kinds and ROW_KIND in names:
            raise ArgumentError(
                f"column '{ROW_KIND}' exists, which the DataFrame has for the kind of change",
                hint=f"rename it: table.rename_columns(col('{ROW_KIND}').alias('kind'))",
            )
        self._names, self._types = tuple(names), tuple(types)
        self._row_kinds = row_kinds
        self._columns = spark_schema(names, types)
        self.types = with_text(ROW_KIND, self._columns) if row_kinds else self._columns
        self.schema = spark_arrow_schema(self.types)

    def table(self, records: Any) -> pa.Table:
        """Return a frame with the columns c0, c1, ... as a table."""
        import pyarrow as pa

        from penstock.runtime.columnar.arrow_columns import arrow_table
        from penstock.runtime.columnar.changelogs import KINDS, kind_numbers

        made = spark_table(arrow_table(records, self._names, self._types), self._columns)
        if not self._row_kinds:
            return made
        kinds = pa.array(KINDS, pa.string()).take(kind_numbers(records).to_arrow())
        return pa.table([kinds, *made.columns], schema=self.schema)


def records_of(declared: Any, what: str) -> RowRecords:
    """Return the records of a declared type; refuse a type that does not say what the columns are."""
    found = field_type(declared)
    if found == ANY:
        raise ArgumentTypeError(
            f"{what} needs the type of the records",
            detail="the stream has no declared type, so the columns are not known",
            hint="declare it where the records are made, map(function, output_type=Types.ROW_NAMED([...], [...])), or pass row_type",
        )
    return RowRecords(found)
