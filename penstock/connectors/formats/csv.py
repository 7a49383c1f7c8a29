"""CSV: reading files, writing files, and rows as bytes."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import IO, Any

from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    DeserializationSchema,
    SerializationSchema,
)
from penstock.connectors.formats.base import (
    Faults,
    FilePart,
    LineFormat,
    bad_record,
    byte_lines,
    check_on_error,
    not_text,
)
from penstock.connectors.formats.csv_schema import CsvColumn, CsvSchema
from penstock.connectors.formats.csv_text import RowFormatter, text_reader
from penstock.connectors.formats.field_types import row_type
from penstock.connectors.formats.lines import Chunk
from penstock.connectors.formats.rows import rows_of
from penstock.errors import ArgumentTypeError, RecordError
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem


class CsvReaderFormat(LineFormat):
    """Reads CSV files as Rows with named fields.

    Empty lines are left out. A quoted value may hold line feeds, so a file is one split unless quotes are disabled in the
    schema or `single_line=True` promises that no value holds one. A row with too few or too many columns, or with text that
    is no value of its column's type, is a bad record: `on_error` says what becomes of it.
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
        """Cut a file into parts only if no value can span lines."""
        if not self.single_line:
            return [(0, None)] if file.size else []
        return super().plan(file, files, part_size)

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield rows."""
        decoder = _Decoder(self.schema, part.path, faults)
        skip = self.schema.use_header + self.schema.skip_first_data_row
        if self.schema.use_header and self.schema.strict_headers:
            first = next(self.chunks(FilePart(part.root, part.path), files, 0, 1), None)
            if first is not None:
                decoder.check_header(self._pieces(first, part.path, faults)[0][0])
        feed = _Feed(self.schema, part.path, faults, skip if position == 0 else 0)
        charset = self.charset if self.linewise else "utf-8"
        end = position
        for chunk in self.chunks(part, files, position, batch_size):
            end = chunk.end
            if feed.at_row and not feed.skip and self._is_plain(chunk.data):
                lines = self.text_lines(chunk, charset, part.path, faults)
                rows = [line.split(self.schema.column_separator) for line in lines if line]
                if len(rows) == len(lines):
                    yield decoder.decode(rows, partial(_offsets, chunk.data, chunk.start)), end
                    continue
            feed.add(self._pieces(chunk, part.path, faults))
            rows, offsets, resume = feed.parse(final=False)
            if rows:
                yield (
                    decoder.decode(rows, partial(list, offsets)),
                    end if resume is None else resume,
                )
        rows, offsets, _ = feed.parse(final=True)
        if rows:
            yield decoder.decode(rows, partial(list, offsets)), end

    def _is_plain(self, data: bytes) -> bool:
        if data.count(b"\r") != data.count(b"\r\n"):
            return False
        schema = self.schema
        special = [schema.quote_char, schema.escape_char, "#" if schema.allow_comments else None]
        return not any(char is not None and char.encode(self.charset) in data for char in special)

    def _pieces(self, chunk: Chunk, path: str, faults: Faults) -> list[tuple[str, int]]:
        """Return lines with their ends, each with its offset."""
        charset = self.charset if self.linewise else "utf-8"
        pieces: list[tuple[str, int]] = []
        offset = chunk.start
        for raw in byte_lines(chunk.data):
            try:
                pieces.append((raw.decode(charset), offset))
            except UnicodeDecodeError as error:
                faults.handle(not_text(error, path, offset, raw.rstrip(b"\r\n")), error)
            offset += len(raw)
        return pieces


def _offsets(data: bytes, start: int) -> list[int]:
    return list(itertools.accumulate(map(len, byte_lines(data)), initial=start))[:-1]


class _Feed:
    """Lines that wait until the last row among them is complete."""

    def __init__(self, schema: CsvSchema, path: str, faults: Faults, skip: int) -> None:
        self._schema = schema
        self._path = path
        self._faults = faults
        self._pieces: list[tuple[str, int]] = []
        self.skip = skip  # rows to leave out at the start of a file

    @property
    def at_row(self) -> bool:
        """Whether a new row begins with the next line."""
        return not self._pieces

    def add(self, pieces: list[tuple[str, int]]) -> None:
        """Take lines, each with its offset."""
        self._pieces += pieces

    def parse(self, *, final: bool) -> tuple[list[list[str]], list[int], int | None]:
        """Return the complete rows, where each begins, and where a row begins that needs more lines."""
        pieces, self._pieces = self._pieces, []
        rows: list[list[str]] = []
        offsets: list[int] = []
        at = 0
        while at < len(pieces):
            reader = _reader((text for text, _ in pieces[at:]), self._schema)
            base = at
            try:
                while at < len(pieces):
                    text, offset = pieces[at]
                    if self._schema.allow_comments and text.startswith("#"):
                        at += 1
                        break  # a new reader: this one must not see the comment
                    row = next(reader)
                    at = base + reader.line_num
                    if row and self.skip:
                        self.skip -= 1
                    elif row:
                        rows.append(row)
                        offsets.append(offset)
            except csv.Error as error:
                text, offset = pieces[at]
                if not final and "unexpected end" in str(error):
                    self._pieces = pieces[at:]
                    return rows, offsets, offset
                self._faults.handle(bad_record(error, self._path, offset, text), error)
                at += 1  # a stray quote must not swallow the rows after it
        return rows, offsets, None


class _Decoder:
    """Turns rows of text into Rows of values."""

    def __init__(self, schema: CsvSchema, path: str, faults: Faults) -> None:
        self._schema = schema
        self._path = path
        self._faults = faults
        self._readers = [text_reader(column, schema.null_value) for column in schema.columns]
        self._width = schema.size()

    def check_header(self, text: str) -> None:
        """Refuse a header whose names are not those of the schema."""
        names: list[str] = next(_reader(iter([text]), self._schema), [])
        wanted = list(self._schema.names)
        if names != wanted:
            raise RecordError(
                "the header of a CSV file does not fit the schema",
                detail=f"{self._path}: the header is {names}, the schema has {wanted}",
                hint="correct the schema, or read by position: set_strict_headers(False)",
            )

    def decode(self, rows: list[list[str]], offsets: Callable[[], list[int]]) -> list[Any]:
        """Return Rows; `offsets` tells where each row begins, if that is needed for a message."""
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
            return self._one_by_one(rows, offsets())

    def _one_by_one(self, rows: list[list[str]], offsets: list[int]) -> list[Any]:
        good: list[list[Any]] = []
        for row, offset in zip(rows, offsets, strict=True):
            try:
                if len(row) != self._width:
                    raise ValueError(f"{len(row)} columns instead of {self._width}")
                values = []
                for column, read, text in zip(
                    self._schema.columns, self._readers, row, strict=True
                ):
                    try:
                        values.append(read(text))
                    except (ValueError, ArithmeticError):
                        raise ValueError(
                            f"column {column.name!r} is no {column.type.kind}: {text!r}"
                        ) from None
                good.append(values)
            except ValueError as error:
                text = self._schema.column_separator.join(row)
                self._faults.handle(bad_record(error, self._path, offset, text), error)
        return rows_of(self._schema.names, good)


class CsvBulkWriters:
    """Makers of writers for CSV files."""

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

    def add_element(self, element: Any) -> None:
        """Write a row."""
        self.add_elements([element])

    def add_elements(self, values: list[Any]) -> None:
        """Write rows."""
        self._stream.write("".join(map(self._line, values)).encode("utf-8"))

    def finish(self) -> None:
        """Nothing is held back."""


class CsvRowDeserializationSchema(DeserializationSchema):
    """Reads a Row from the bytes of one CSV line."""

    def __init__(self, schema: CsvSchema, *, ignore_parse_errors: bool = False) -> None:
        self._schema = schema
        self._ignore = ignore_parse_errors

    def deserialize(self, message: bytes) -> Any:
        """Return the row; None if the message is bad and parse errors are ignored."""
        faults = Faults("skip" if self._ignore else "fail")
        rows = list(_reader(iter([message.decode("utf-8")]), self._schema))
        decoded = _Decoder(self._schema, "message", faults).decode(rows[:1], lambda: [0])
        return decoded[0] if decoded else None

    class Builder:
        """Builds a CsvRowDeserializationSchema for a row type."""

        def __init__(self, type_info: Any) -> None:
            self._schema = schema_of(type_info)
            self._options: dict[str, Any] = {}
            self._ignore = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the character between fields."""
            self._options["column_separator"] = delimiter
            return self

        def set_allow_comments(self) -> CsvRowDeserializationSchema.Builder:
            """Leave out lines that begin with #."""
            self._options["allow_comments"] = True
            return self

        def set_array_element_delimiter(
            self, delimiter: str
        ) -> CsvRowDeserializationSchema.Builder:
            """Set what separates the elements of arrays."""
            self._schema = _with_separator(self._schema, delimiter)
            return self

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the quote character."""
            self._options["quote_char"] = c
            return self

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the escape character."""
            self._options["escape_char"] = c
            return self

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text that stands for None."""
            self._options["null_value"] = null_literal
            return self

        def set_ignore_parse_errors(
            self, ignore_parse_errors: bool
        ) -> CsvRowDeserializationSchema.Builder:
            """Return None for bad messages instead of failing."""
            self._ignore = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Create the schema."""
            schema = _with_options(self._schema, self._options)
            return CsvRowDeserializationSchema(schema, ignore_parse_errors=self._ignore)


class CsvRowSerializationSchema(SerializationSchema):
    """Writes a Row as the bytes of one CSV line."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        self._line = RowFormatter(schema).line

    def serialize(self, value: Any) -> bytes:
        """Return the line."""
        return self._line(value).encode("utf-8")

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvRowSerializationSchema, (self._schema,)

    class Builder:
        """Builds a CsvRowSerializationSchema for a row type."""

        def __init__(self, type_info: Any) -> None:
            self._schema = schema_of(type_info)
            self._options: dict[str, Any] = {}

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the character between fields."""
            self._options["column_separator"] = c
            return self

        def set_line_terminator(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the end of the line; may be empty."""
            self._options["line_separator"] = delimiter
            return self

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the quote character."""
            self._options["quote_char"] = c
            return self

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Write no quotes."""
            self._options["quote_char"] = None
            return self

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the escape character."""
            self._options["escape_char"] = c
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set what separates the elements of arrays."""
            self._schema = _with_separator(self._schema, delimiter)
            return self

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that stands for None."""
            self._options["null_value"] = s
            return self

        def build(self) -> CsvRowSerializationSchema:
            """Create the schema."""
            return CsvRowSerializationSchema(_with_options(self._schema, self._options))


def schema_of(type_info: Any) -> CsvSchema:
    """Return the CSV schema of a row type."""
    row = row_type(type_info)
    return CsvSchema(tuple(CsvColumn(name, kind) for name, kind in row.fields))


def _reader(lines: Iterator[str], schema: CsvSchema) -> Any:
    options: dict[str, Any] = {
        "delimiter": schema.column_separator,
        "escapechar": schema.escape_char,
    }
    if schema.quote_char is None:
        options["quoting"] = csv.QUOTE_NONE
    else:
        options["quotechar"] = schema.quote_char
    return csv.reader(lines, strict=True, **options)


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, CsvSchema):
        raise ArgumentTypeError(
            "the schema is not a CsvSchema",
            detail=f"it is {schema!r}",
            hint="build one with CsvSchema.builder()",
        )
    if not schema.columns:
        raise ArgumentTypeError("a CSV schema needs columns", hint="call add_string_column(name)")


def _with_options(schema: CsvSchema, options: dict[str, Any]) -> CsvSchema:
    return replace(schema, **options)


def _with_separator(schema: CsvSchema, separator: str) -> CsvSchema:
    columns = tuple(CsvColumn(c.name, c.type, separator) for c in schema.columns)
    return _with_options(schema, {"columns": columns})
