"""File formats that are read in columns, as polars.DataFrames."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from penstock.common.serialization import DeserializationSchema
from penstock.connectors.filesystem.table.avro_records import needs_records, read_records
from penstock.connectors.filesystem.table.parts import NANOS_OF_MILLI
from penstock.errors import PenstockError, RecordError
from penstock.errors.user_errors import shorten
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.field_types import field_type
from penstock.formats.base.file_formats import (
    BulkFormat,
    Faults,
    FileFormat,
    FilePart,
    LineFormat,
    bad_record,
    byte_lines,
    without_end,
)
from penstock.formats.json.fields import LOOKED_AT, FieldNameCheck
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.values import series_of
from penstock.sql.types import DataType, RowField, RowType

# A batch of columns is worth its fixed cost from some ten thousand rows on (measured: a projection of 1 000 rows costs as much as one of 10 000).
ROWS_AT_ONCE: Final = 64
LEAST_ASKED: Final = 64  # a slow query does not get faster with smaller batches


def rows_at_once(asked: int) -> int:
    """Return the number of rows per frame for a requested number of records."""
    return max(asked, LEAST_ASKED) * ROWS_AT_ONCE


class FrameFormat(BulkFormat):
    """Base of these formats. A table's `names` and `types` are the columns that are in files; `columns` are those to read."""

    title: ClassVar[str]  # the format, for messages

    def __init__(self, names: Sequence[str], types: Sequence[DataType]) -> None:
        self.names = list(names)
        self.types = list(types)
        self.columns = list(names)

    def project(self, columns: Sequence[str]) -> None:
        """Read these columns only."""
        self.columns = list(columns)

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns that are given, in their order."""
        known = dict(zip(self.names, self.types, strict=True))
        return {name: dtype_of(known[name]) for name in self.columns}

    def first_position(self, start: int) -> int:
        """Return 0: no row of the part was read."""
        return 0

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[Any, int]]:
        """Yield frames, and how many rows of the part were read with them."""
        at = 0
        frames = self.frames(part, files, rows_at_once(batch_size))
        while (frame := self._following(frames, part.path)) is not None:
            begin, at = at, at + frame.height
            if at > position:
                rest = frame.slice(max(0, position - begin))
                yield self._typed(rest, part.path), at

    def _following(self, frames: Iterator[pl.DataFrame], path: str) -> pl.DataFrame | None:
        try:
            return next(frames, None)
        except (pl.exceptions.PolarsError, pa.ArrowException, OSError) as error:
            # An errno means that the storage failed, which may be transient; a file of another format has none.
            if isinstance(error, PenstockError) or getattr(error, "errno", None) is not None:
                raise
            raise RecordError(
                f"cannot read file as {self.title}: {str(error).splitlines()[0]}",
                detail=f"file: {path}",
                hint="fix the table's 'format' or 'path', or remove the file",
            ) from error

    @abstractmethod
    def frames(self, part: FilePart, files: FileSystem, rows: int) -> Iterator[pl.DataFrame]:
        """Yield the frames of a part from its start, with at most the given number of rows each; columns in any order."""

    def _typed(self, frame: pl.DataFrame, path: str) -> pl.DataFrame:
        missing = [name for name in self.columns if name not in frame.columns]
        if missing:
            raise RecordError(
                f"file has no column '{missing[0]}'",
                detail=f"{path}: it has {', '.join(frame.columns) or 'no columns'}",
            )
        return pl.DataFrame(
            [self._column(frame[name], kind, path) for name, kind in self.schema.items()]
        )

    def _column(self, values: pl.Series, kind: pl.DataType, path: str) -> pl.Series:
        try:
            return values if values.dtype == kind else values.cast(kind)
        except pl.exceptions.PolarsError as error:
            declared = dict(zip(self.names, self.types, strict=True))[values.name]
            raise RecordError(
                f"cannot read column '{values.name}' of file as {declared}",
                detail=f"{path}: its type in the file is {values.dtype}, with values such as {_misfit(values, kind)}",
                hint="declare the column with its type in the file",
            ) from error


def _misfit(values: pl.Series, kind: pl.DataType) -> str:
    """Return a value of a column that is none of another type."""
    lost = values.is_not_null() & values.cast(kind, strict=False).is_null()
    return shorten(values.filter(lost).first() if lost.any() else values.first())


class ParquetFrames(FrameFormat):
    """Parquet; large files are read in parts of row groups."""

    title = "Parquet"

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Give each file as one part: rows of a file are in the order of time, and parts would be read side by side."""
        return [(0, None)] if file.size else []

    def frames(self, part: FilePart, files: FileSystem, rows: int) -> Iterator[pl.DataFrame]:
        """Read batches of columns."""
        with files.open_input(part.path) as stream:
            parquet = pyarrow.parquet.ParquetFile(stream)
            there = set(parquet.schema_arrow.names)
            columns = [name for name in self.columns if name in there]
            for batch in parquet.iter_batches(rows, columns=columns):
                yield pl.DataFrame(pl.from_arrow(batch))


class OrcFrames(FrameFormat):
    """ORC."""

    title = "ORC"

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Give each file as one part."""
        return [(0, None)] if file.size else []

    def frames(self, part: FilePart, files: FileSystem, rows: int) -> Iterator[pl.DataFrame]:
        """Read stripe by stripe."""
        with files.open_input(part.path) as stream:
            orc = pyarrow.orc.ORCFile(stream)
            for number in range(orc.nstripes):
                frame = pl.DataFrame(pl.from_arrow(orc.read_stripe(number, columns=self.columns)))
                frame = frame.with_columns(_read_times(frame, self.schema))
                for start in range(0, frame.height, rows):
                    yield frame.slice(start, rows)


def _read_times(frame: pl.DataFrame, wanted: dict[str, pl.DataType]) -> list[pl.Expr]:
    """Return the times that files have in another form: times of a day as milliseconds, moments without their zone, which is UTC."""
    found = []
    for name, kind in wanted.items():
        there = frame.schema.get(name)
        if isinstance(kind, pl.Time) and there is not None and there.is_integer():
            found.append((pl.col(name).cast(pl.Int64) * NANOS_OF_MILLI).cast(pl.Time))
        elif (
            isinstance(kind, pl.Datetime)
            and isinstance(there, pl.Datetime)
            and kind.time_zone is not None
            and there.time_zone is None
        ):
            found.append(pl.col(name).dt.replace_time_zone("UTC"))
    return found


class AvroFrames(FrameFormat):
    """Avro container files."""

    title = "Avro"

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Give each file as one part."""
        return [(0, None)] if file.size else []

    def frames(self, part: FilePart, files: FileSystem, rows: int) -> Iterator[pl.DataFrame]:
        """Read the file, and give it in parts."""
        with files.open_input(part.path) as stream:
            data = stream.read()
        if needs_records(data):
            known = dict(zip(self.names, self.types, strict=True))
            yield from read_records(data, known, self.columns, rows)
            return
        frame = pl.read_avro(io.BytesIO(data), columns=self.columns)
        frame = frame.with_columns(_read_times(frame, self.schema))
        for start in range(0, frame.height, rows):
            yield frame.slice(start, rows)


class LineFrames(LineFormat):
    """Base of formats of lines that are read in columns. Positions are offsets of bytes.

    Columns of simple types are read at once. `rows` reads all columns line by line, with Flink's rules of conversion: it has the last word where values are
    not written as their types are, and reads what is nested. `careful`: it reads every line.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[DataType],
        rows: DeserializationSchema,
        *,
        careful: bool = False,
    ) -> None:
        super().__init__("UTF-8")
        self.names = list(names)
        self.types = dict(zip(names, types, strict=True))
        self.known = {name: dtype_of(kind) for name, kind in self.types.items()}
        self.columns = list(names)
        self.rows = rows
        self.careful = careful

    def project(self, columns: Sequence[str]) -> None:
        """Read these columns only."""
        self.columns = list(columns)

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[Any, int]]:
        """Yield frames of the lines that begin in the part, and the offset after them."""
        for chunk in self.chunks(part, files, position, rows_at_once(batch_size)):
            before = self.rows.skipped
            frame = self._frame(bytes(chunk.data), part.path, chunk.start)
            faults.skip(self.rows.skipped - before)
            yield frame, chunk.end

    @abstractmethod
    def parse(self, data: bytes) -> pl.DataFrame:
        """Return the columns of whole lines at once; times and decimals may be text."""

    def _frame(self, data: bytes, path: str, start: int) -> pl.DataFrame:
        if not self.careful and not any(_is_composed(self.known[name]) for name in self.columns):
            try:
                return self.parse(data).select(
                    _converted(name, self.known[name]) for name in self.columns
                )
            except pl.exceptions.PolarsError:
                pass  # again, line by line
        return self._line_by_line(data, path, start)

    def _line_by_line(self, data: bytes, path: str, start: int) -> pl.DataFrame:
        raws = byte_lines(data)
        lines = [without_end(each) or None for each in raws]
        found = self.rows.deserialize_batch(lines)
        if found.failures:
            index, error = found.failures[0]
            offset = start + sum(map(len, raws[:index]))
            raise bad_record(error, path, offset, lines[index]) from error
        at = [self.names.index(name) for name in self.columns]
        return pl.DataFrame(
            [
                series_of(name, [row[index] for row in found.records], self.types[name], name)
                for name, index in zip(self.columns, at, strict=True)
            ]
        )


class CsvFrames(LineFrames):
    """CSV as Flink reads it: columns by position, without a header.

    `options` are those of Polars: separator, quote_char, null_values, comment_prefix.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[DataType],
        rows: DeserializationSchema,
        *,
        careful: bool = False,
        options: dict[str, Any],
    ) -> None:
        super().__init__(names, types, rows, careful=careful)
        self.options = options

    def parse(self, data: bytes) -> pl.DataFrame:
        """Read the columns that are wanted."""
        return pl.read_csv(
            io.BytesIO(data),
            has_header=False,
            schema={name: _as_read(kind) for name, kind in self.known.items()},
            columns=[self.names.index(name) for name in self.columns],
            truncate_ragged_lines=False,
            empty_string_is_null=False,
            **self.options,
        )


class JsonFrames(LineFrames):
    """One JSON object per line; a missing field is NULL, an unknown field is ignored."""

    _fields: FieldNameCheck | None = None

    def use_metrics(self, group: Any) -> None:
        """Look at the names of fields."""
        row = RowType([RowField(name, kind) for name, kind in self.types.items()])
        self._fields = FieldNameCheck(field_type(row), group)

    def _frame(self, data: bytes, path: str, start: int) -> pl.DataFrame:
        if self._fields is not None and not self._fields.done:
            self._fields.look(data.split(b"\n", LOOKED_AT)[:LOOKED_AT])
        return super()._frame(data, path, start)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fields": None}

    def parse(self, data: bytes) -> pl.DataFrame:
        """Read the columns that are wanted."""
        schema = {name: _as_json(self.known[name]) for name in self.columns}
        return pl.read_ndjson(io.BytesIO(data), schema=schema)


class PartitionedFrames(FileFormat):
    """Files below directories `column=value`: columns of files by an inner format, the others from the names of the directories."""

    def __init__(
        self, inner: Any, names: Sequence[str], types: Sequence[DataType], default: str
    ) -> None:
        self._inner = inner
        self._kinds = {name: dtype_of(kind) for name, kind in zip(names, types, strict=True)}
        self._default = default
        self.columns: list[str] = [*inner.columns, *names]

    def project(self, columns: Sequence[str]) -> None:
        """Read these columns only."""
        self.columns = list(columns)
        inner = [name for name in columns if name not in self._kinds]
        # Something must be read to know how many rows there are.
        self._inner.project(inner or self._inner.columns[:1])

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Cut as the inner format does."""
        parts: list[tuple[int, int | None]] = self._inner.plan(file, files, part_size)
        return parts

    def first_position(self, start: int) -> int:
        """Begin where the inner format does."""
        return int(self._inner.first_position(start))

    def use_metrics(self, group: Any) -> None:
        """Let the inner format use them."""
        self._inner.use_metrics(group)

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[Any, int]]:
        """Add the columns of the directories."""
        values = self._values(part.path)
        for frame, following in self._inner.read(part, files, position, batch_size, faults):
            yield frame.with_columns(values).select(self.columns), following

    def _values(self, path: str) -> list[pl.Expr]:
        found = dict(each.split("=", 1) for each in path.split("/") if "=" in each)
        missing = [name for name in self._kinds if name not in found]
        if missing:
            raise RecordError(
                "file of a partitioned table is not in a partition directory",
                detail=f"{path}: no directory '{missing[0]}=...' in its path",
            )
        return [
            pl.lit(self._value(found[name])).cast(pl.String).cast(kind).alias(name)
            for name, kind in self._kinds.items()
        ]

    def _value(self, written: str) -> str | None:
        return None if written == self._default else unquote(written)


def _as_read(kind: pl.DataType) -> pl.DataType:
    """Return how a column is read: times and decimals as text, which is converted at once."""
    return pl.String() if kind.is_temporal() or kind.is_decimal() or kind.is_nested() else kind


def _as_json(kind: pl.DataType) -> pl.DataType:
    """Return how a field is read: Polars reads no small numbers from JSON."""
    if isinstance(kind, pl.Int8 | pl.Int16):
        return pl.Int32()
    return pl.Float64() if isinstance(kind, pl.Float32) else _as_read(kind)


def _is_composed(kind: pl.DataType) -> bool:
    """Whether a column is read line by line: it cannot be cast from text as a whole."""
    return kind.is_nested() or isinstance(kind, pl.Binary)


def _converted(name: str, kind: pl.DataType) -> pl.Expr:
    read = pl.col(name)
    if _as_read(kind) != kind:
        read = pl.when(read != "").then(read).alias(name)
    if isinstance(kind, pl.Datetime):
        text = read.str.replace("T", " ", literal=True).str.strip_suffix("Z")
        moment = text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit=kind.time_unit)
        return moment if kind.time_zone is None else moment.dt.replace_time_zone("UTC")
    if isinstance(kind, pl.Date):
        return read.str.to_date("%Y-%m-%d")
    if isinstance(kind, pl.Time):
        return read.str.to_time("%H:%M:%S%.f")
    return read if isinstance(kind, pl.String | pl.Boolean) else read.cast(kind)
