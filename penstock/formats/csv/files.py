"""CSV files: reading and writing."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, Any

from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
)
from penstock.errors import ArgumentTypeError, RecordError
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.file_formats import (
    Faults,
    FilePart,
    LineFormat,
    bad_record,
    byte_lines,
    check_on_error,
    not_text,
    without_end,
)
from penstock.formats.base.lines import LineChunk
from penstock.formats.base.rows import rows_of
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.csv.text import RowFormatter, text_reader


class CsvReaderFormat(LineFormat):
    """Reads CSV files as Rows with named fields.

    Empty lines are skipped. A quoted value may contain line feeds, so a file is one split unless quotes are disabled in the
    schema or `single_line=True` promises that no value contains one. A row with too few or too many columns, or with text that
    does not match its column's type, is malformed: `on_error` says how it is handled.
    """

    def __init__(
        self,
        schema: CsvSchema,
        *,
        charset_name: str = "UTF-8",
        on_error: str = "fail",
        single_line: bool = False,
    ) -> None:
        super().__init__(charset_name, check_on_error(on_error))
        _check_schema(schema)
        self.schema = schema
        self.single_line = single_line or schema.quote_char is None

    @staticmethod
    def for_schema(
        schema: CsvSchema, on_error: str = "fail", *, single_line: bool = False
    ) -> CsvReaderFormat:
        """Create the format."""
        return CsvReaderFormat(schema, on_error=on_error, single_line=single_line)

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Split a file only if no value can span lines."""
        if not self.single_line:
            return [(0, None)] if file.size else []
        return super().plan(file, files, part_size)

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield rows."""
        decoder = RowDecoder(self.schema, part.path, faults)
        skip = self.schema.use_header + self.schema.skip_first_data_row
        if self.schema.use_header and self.schema.strict_headers:
            first = next(self.chunks(FilePart(part.root, part.path), files, 0, 1), None)
            if first is not None:
                decoder.check_header(self._pieces(first, part.path, faults)[0][0])
        charset = self.charset if self.linewise else "utf-8"
        feed = _Feed(self.schema, part.path, faults, skip if position == 0 else 0, charset)
        done = end = position
        for chunk in self.chunks(part, files, position, batch_size):
            end = chunk.end
            if feed.at_row and not feed.skip and self._is_plain(chunk.data):
                lines = self.text_lines(chunk, charset, part.path, faults)
                rows = [line.split(self.schema.column_separator) for line in lines if line]
                if len(rows) == len(lines):
                    done = end
                    yield decoder.decode(rows, partial(_places, chunk.data, chunk.start)), end
                    continue
            feed.add(self._pieces(chunk, part.path, faults))
            rows, places, resume = feed.parse(final=False)
            if rows:
                done = end if resume is None else resume
                yield decoder.decode(rows, partial(list, places)), done
        rows, places, _ = feed.parse(final=True)
        # The position also advances past rows that were malformed or skipped.
        if rows or done != end:
            yield decoder.decode(rows, partial(list, places)), end

    def _is_plain(self, data: bytes) -> bool:
        if data.count(b"\r") != data.count(b"\r\n"):
            return False
        schema = self.schema
        special = [schema.quote_char, schema.escape_char, "#" if schema.allow_comments else None]
        return not any(char is not None and char.encode(self.charset) in data for char in special)

    def _pieces(self, chunk: LineChunk, path: str, faults: Faults) -> list[tuple[str, int]]:
        """Return lines with their ends, each with its offset."""
        charset = self.charset if self.linewise else "utf-8"
        pieces: list[tuple[str, int]] = []
        offset = chunk.start
        for raw in byte_lines(chunk.data):
            try:
                pieces.append((raw.decode(charset), offset))
            except UnicodeDecodeError as error:
                line = without_end(raw)
                fault = not_text(error, path, offset, line)
                faults.handle(fault, error, data=line, offset=offset)
            offset += len(raw)
        return pieces


def _places(data: bytes, start: int) -> list[tuple[int, bytes]]:
    """Return the offset and the text of each line."""
    lines = byte_lines(data)
    offsets = itertools.accumulate(map(len, lines), initial=start)
    return [(offset, without_end(line)) for offset, line in zip(offsets, lines, strict=False)]


class _Feed:
    """Lines that are buffered until the last row among them is complete."""

    def __init__(
        self, schema: CsvSchema, path: str, faults: Faults, skip: int, charset: str
    ) -> None:
        self._schema = schema
        self._path = path
        self._faults = faults
        self._charset = charset
        self._pieces: list[tuple[str, int]] = []
        self.skip = skip  # rows to skip at the start of a file

    @property
    def at_row(self) -> bool:
        """Whether a new row starts with the next line."""
        return not self._pieces

    def add(self, pieces: list[tuple[str, int]]) -> None:
        """Add lines, each with its offset."""
        self._pieces += pieces

    def parse(self, *, final: bool) -> tuple[list[list[str]], list[tuple[int, bytes]], int | None]:
        """Return the complete rows, the offset and text of each, and the offset of a row that needs more lines."""
        pieces, self._pieces = self._pieces, []
        rows: list[list[str]] = []
        places: list[tuple[int, bytes]] = []
        at = 0
        while at < len(pieces):
            reader = csv_reader((text for text, _ in pieces[at:]), self._schema)
            base = at
            try:
                while at < len(pieces):
                    text, offset = pieces[at]
                    if self._schema.allow_comments and text.startswith("#"):
                        at += 1
                        break  # start a new reader: this one must not see the comment
                    row = next(reader)
                    first, at = at, base + reader.line_num
                    if row and self.skip:
                        self.skip -= 1
                    elif row:
                        rows.append(row)
                        places.append((offset, self._raw(pieces[first:at])))
            except csv.Error as error:
                text, offset = pieces[at]
                if not final and "unexpected end" in str(error):
                    self._pieces = pieces[at:]
                    return rows, places, offset
                fault = bad_record(error, self._path, offset, text)
                self._faults.handle(
                    fault, error, data=self._raw(pieces[at : at + 1]), offset=offset
                )
                at += 1  # a stray quote must not consume the rows after it
        return rows, places, None

    def _raw(self, pieces: list[tuple[str, int]]) -> bytes:
        """Return the raw lines of the file."""
        return without_end("".join(text for text, _ in pieces).encode(self._charset))


class RowDecoder:
    """Converts rows of text to Rows of values.

    If `lenient`, invalid values and missing columns are None, like Flink's `ignore-parse-errors`: only a row with too many
    columns is malformed.
    """

    def __init__(
        self, schema: CsvSchema, path: str, faults: Faults, *, lenient: bool = False
    ) -> None:
        self._schema = schema
        self._path = path
        self._faults = faults
        self._readers = [
            text_reader(column, schema.null_value, lenient=lenient) for column in schema.columns
        ]
        self._width = schema.size()
        self._lenient = lenient

    def check_header(self, text: str) -> None:
        """Reject a header whose names are not those of the schema."""
        names: list[str] = next(csv_reader(iter([text]), self._schema), [])
        wanted = list(self._schema.names)
        if names != wanted:
            raise RecordError(
                "the header of a CSV file does not match the schema",
                detail=f"{self._path}: the header is {names}, the schema has {wanted}",
                hint="correct the schema, or read by position: set_strict_headers(False)",
            )

    def decode(
        self, rows: list[list[str]], places: Callable[[], list[tuple[int, bytes]]]
    ) -> list[Any]:
        """Return Rows; `places` has the offset and the text of each row, used in messages."""
        if not rows:
            return []
        width = self._width
        try:
            if any(len(row) != width for row in rows):
                raise ValueError
            columns: Sequence[Sequence[str]] = list(zip(*rows, strict=True))
            values = [
                list(map(read, col)) for read, col in zip(self._readers, columns, strict=True)
            ]
            return rows_of(self._schema.names, zip(*values, strict=True))
        except (ValueError, ArithmeticError):
            return self._one_by_one(rows, places())

    def _one_by_one(self, rows: list[list[str]], places: list[tuple[int, bytes]]) -> list[Any]:
        good: list[list[Any]] = []
        for row, (offset, raw) in zip(rows, places, strict=True):
            try:
                missing = self._width - len(row)
                if missing and not (self._lenient and missing > 0):
                    raise ValueError(f"{len(row)} columns instead of {self._width}")
                values = []
                for column, read, text in zip(
                    self._schema.columns, self._readers, row, strict=False
                ):
                    try:
                        values.append(read(text))
                    except (ValueError, ArithmeticError):
                        raise ValueError(
                            f"column {column.name!r}: cannot read {text!r} as {column.type.kind}"
                        ) from None
                good.append([*values, *[None] * missing])
            except ValueError as error:
                text = self._schema.column_separator.join(row)
                fault = bad_record(error, self._path, offset, text)
                self._faults.handle(fault, error, data=raw, offset=offset)
        return rows_of(self._schema.names, good)


class CsvBulkWriters:
    """Factories of writers for CSV files."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvWriterFactory:
        """Write rows with the columns of a schema."""
        return CsvWriterFactory(schema)


class CsvWriterFactory(BulkWriterFactory):
    """Creates writers of CSV files."""

    def __init__(self, schema: CsvSchema) -> None:
        _check_schema(schema)
        self.schema = schema

    def create(self, stream: IO[bytes]) -> CsvWriter:
        """Create the writer of one file."""
        return CsvWriter(self.schema, stream)


class CsvWriter(BulkWriter):
    """Writes rows to one CSV file."""

    def __init__(self, schema: CsvSchema, stream: IO[bytes]) -> None:
        self._stream = stream
        formatter = RowFormatter(schema)
        self._line = formatter.line
        if schema.use_header:
            stream.write(formatter.header().encode("utf-8"))

    def add_element(self, element: object) -> None:
        """Write a row."""
        self.add_elements([element])

    def add_elements(self, values: list[Any]) -> None:
        """Write rows."""
        self._stream.write("".join(map(self._line, values)).encode("utf-8"))

    def finish(self) -> None:
        """Do nothing: nothing is buffered."""


def csv_reader(lines: Iterator[str], schema: CsvSchema) -> Any:
    """Return a csv reader with the syntax of the schema."""
    options: dict[str, Any] = {
        "delimiter": schema.column_separator,
        "escapechar": schema.escape_char,
    }
    if schema.quote_char is None:
        options["quoting"] = csv.QUOTE_NONE
    else:
        options["quotechar"] = schema.quote_char
    return csv.reader(lines, strict=True, **options)


def _check_schema(schema: object) -> None:
    if not isinstance(schema, CsvSchema):
        raise ArgumentTypeError(
            "the schema is not a CsvSchema",
            detail=f"got {schema!r}",
            hint="build one with CsvSchema.builder()",
        )
    if not schema.columns:
        raise ArgumentTypeError("a CSV schema needs columns", hint="call add_string_column(name)")
