"""Columnar files: reads Parquet, writes Parquet and ORC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.errors import ArgumentError, FileError, RecordError
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.arrow_rows import ArrowRows, python_values
from penstock.formats.base.field_types import FieldType, arrow_schema, row_type
from penstock.formats.base.file_formats import (
    BulkFormat,
    Faults,
    FilePart,
    open_stream,
)
from penstock.formats.base.rows import rows_of

_ROWS_PER_GROUP = 64 * 1024


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads Parquet files as Rows: the columns of a row type, or all columns if it is None.

    Large files are split by row groups. A position is the number of rows of a part that were read.
    """

    def __init__(
        self,
        row_type: Any = None,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if batch_size < 1:
            raise ArgumentError(
                "the batch size must be positive", detail=f"batch_size={batch_size}"
            )
        self._row: FieldType | None = None if row_type is None else _row_type(row_type)
        self._batch_size = batch_size
        self._utc = is_utc_timestamp
        self._case_sensitive = is_case_sensitive

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Divide a file into parts of row groups; start and end are indexes of row groups."""
        if file.size <= part_size:
            return [(0, None)] if file.size else []
        metadata = _open_parquet(files, file.path).metadata
        groups = metadata.num_row_groups
        sizes = [metadata.row_group(index).total_byte_size for index in range(groups)]
        scale = file.size / max(1, sum(sizes))  # approximate compression ratio
        parts: list[tuple[int, int | None]] = []
        start, filled = 0, 0.0
        for index, size in enumerate(sizes):
            filled += size * scale
            if filled >= part_size or index == groups - 1:
                parts.append((start, index + 1))
                start, filled = index + 1, 0.0
        return parts

    def first_position(self, start: int) -> int:
        """Return 0: no row of the part was read."""
        return 0

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield rows. The start of a part is a row group, a position is a number of rows within the part."""
        parquet = _open_parquet(files, part.path)
        try:
            names, columns = self._columns(parquet.schema_arrow.names, part.path)
            end = parquet.metadata.num_row_groups if part.end is None else part.end
            at = 0
            for group in range(part.start, end):
                count = parquet.metadata.row_group(group).num_rows
                if at + count <= position:
                    at += count
                    continue
                size = min(batch_size, self._batch_size)
                for batch in parquet.iter_batches(size, row_groups=[group], columns=columns):
                    skip = max(0, position - at)
                    at += batch.num_rows
                    if at <= position:
                        continue
                    taken = batch.slice(skip) if skip else batch
                    values = [
                        python_values(self._declared(at_column, taken.column(name)))
                        for at_column, name in enumerate(columns)
                    ]
                    yield rows_of(names, zip(*values, strict=True)), at
        finally:
            parquet.close(force=True)

    def _declared(self, index: int, column: Any) -> Any:
        """Return a column with its declared type: a TIMESTAMP has no time zone, even if the file has UTC timestamps."""
        if self._row is None:
            return column
        wanted = _without_zones(column.type, self._row.fields[index][1])
        return column if wanted == column.type else column.cast(wanted)

    def _columns(self, available: list[str], path: str) -> tuple[list[str], list[str]]:
        if self._row is None:
            return available, available
        known = {name if self._case_sensitive else name.lower(): name for name in available}
        names = list(self._row.names)
        wanted = names if self._case_sensitive else [name.lower() for name in names]
        missing = [name for name in wanted if name not in known]
        if missing:
            raise RecordError(
                "columns of the row type are missing in a Parquet file",
                detail=f"{path}: missing {missing}, the file has {available}",
            )
        return names, [known[name] for name in wanted]


def _without_zones(found: Any, declared: FieldType) -> object:
    """Return an Arrow type without the time zones of fields that are declared as TIMESTAMP."""
    import pyarrow as pa

    inner = declared.fields
    if declared.kind == "TIMESTAMP" and pa.types.is_timestamp(found):
        return pa.timestamp(found.unit)
    if declared.kind == "ROW" and pa.types.is_struct(found):
        kinds = dict(inner)
        return pa.struct(
            [
                pa.field(each.name, _without_zones(each.type, kinds[each.name]))
                if each.name in kinds
                else each
                for each in found
            ]
        )
    if declared.kind == "ARRAY" and pa.types.is_list(found):
        return pa.list_(_without_zones(found.value_type, inner[0][1]))
    if declared.kind == "MAP" and pa.types.is_map(found):
        key, item = (kind for _, kind in inner)
        return pa.map_(_without_zones(found.key_type, key), _without_zones(found.item_type, item))
    return found


class ParquetBulkWriters:
    """Factories of writers for Parquet files."""

    @staticmethod
    def for_row_type(
        row_type: object,
        hadoop_config: object = None,  # noqa: ARG004 - Flink's signature
        utc_timestamp: bool = False,
    ) -> ColumnarWriterFactory:
        """Write rows of a type; `row_type` may be an Arrow schema. Files are compressed with Snappy."""
        return ColumnarWriterFactory("parquet", _row_type(row_type), utc_timestamp=utc_timestamp)


class OrcBulkWriters:
    """Factories of writers for ORC files."""

    @staticmethod
    def for_row_type(
        row_type: object,
        writer_properties: object = None,  # noqa: ARG004 - Flink's signature
        hadoop_config: object = None,  # noqa: ARG004 - Flink's signature
    ) -> ColumnarWriterFactory:
        """Write rows of a type; `row_type` may be an Arrow schema."""
        return ColumnarWriterFactory("orc", _row_type(row_type), utc_timestamp=False)


class ColumnarWriterFactory(BulkWriterFactory):
    """Creates writers of Parquet or ORC files."""

    def __init__(self, kind: str, row: FieldType, *, utc_timestamp: bool) -> None:
        self._kind = kind
        self._row = row
        self._utc = utc_timestamp
        arrow_schema(row)  # rejects types that cannot be stored

    def create(self, stream: IO[bytes]) -> ColumnarWriter:
        """Create the writer of one file."""
        return ColumnarWriter(self._kind, self._row, stream, utc_timestamp=self._utc)


class ColumnarWriter(BulkWriter):
    """Buffers rows and writes them as columns, a row group at a time."""

    def __init__(
        self, kind: str, row: FieldType, stream: IO[bytes], *, utc_timestamp: bool
    ) -> None:
        schema = arrow_schema(row, utc_timestamp=utc_timestamp)
        self._arrow_rows = ArrowRows(row, schema, sized_text=kind == "orc")
        self._rows: list[Any] = []
        self._writer: Any
        if kind == "parquet":
            import pyarrow.parquet as pq

            self._writer = pq.ParquetWriter(stream, schema)
        else:
            from pyarrow import orc

            self._writer = orc.ORCWriter(stream)

    def add_element(self, element: object) -> None:
        """Add a row."""
        self.add_elements([element])

    def add_elements(self, values: list[Any]) -> None:
        """Add rows."""
        self._rows += self._arrow_rows.values(values)
        if len(self._rows) >= _ROWS_PER_GROUP:
            self._flush()

    def finish(self) -> None:
        """Write the remaining rows and the footer."""
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        table = self._arrow_rows.table(self._rows)
        if hasattr(self._writer, "write_table"):
            self._writer.write_table(table)
        else:
            self._writer.write(table)
        self._rows = []


def _open_parquet(files: FileSystem, path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(open_stream(files, path))
    except FileError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise RecordError(
            "cannot read a file as Parquet",
            detail=f"{path}: {error}",
            hint="check that the file is complete",
        ) from error


_row_type = row_type
