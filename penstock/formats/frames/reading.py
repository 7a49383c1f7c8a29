"""Base of file formats that are read in columns, as polars.DataFrames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from penstock.common.serialization import DeserializationSchema
from penstock.errors import PenstockError, RecordError
from penstock.errors.user_errors import shorten
from penstock.files.file_system import FileSystem
from penstock.formats.base.file_formats import (
    BulkFormat,
    Faults,
    FilePart,
    LineFormat,
    bad_record,
    byte_lines,
    without_end,
)
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.values import series_of
from penstock.sql.types import DataType

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


def as_read(kind: pl.DataType) -> pl.DataType:
    """Return how a column is read: times and decimals as text, which is converted at once."""
    return pl.String() if kind.is_temporal() or kind.is_decimal() or kind.is_nested() else kind


def _is_composed(kind: pl.DataType) -> bool:
    """Whether a column is read line by line: it cannot be cast from text as a whole."""
    return kind.is_nested() or isinstance(kind, pl.Binary)


def _converted(name: str, kind: pl.DataType) -> pl.Expr:
    read = pl.col(name)
    if as_read(kind) != kind:
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
