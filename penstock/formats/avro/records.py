"""Avro: container files of records, messages, and records in Parquet files. Needs fastavro (`pip install 'penstock-stream[avro]'`)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    DeserializationSchema,
    SerializationSchema,
)
from penstock.common.type_information import TypeInformation
from penstock.dependencies.distribution import install_command
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.errors.not_implemented import not_implemented
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.files.paths import normalize
from penstock.formats.avro.schema import (
    AvroSchema,
    check_schema,
    column_type,
    fastavro,
    record_reader,
)
from penstock.formats.avro.values import datum_maker, row_maker
from penstock.formats.base.field_types import arrow_type
from penstock.formats.base.file_formats import (
    Faults,
    FilePart,
    StreamFormat,
    bad_record,
    check_on_error,
    open_stream,
)
from penstock.formats.base.rows import as_dict
from penstock.formats.columnar.files import ColumnarWriterFactory, ParquetColumnarRowInputFormat

_CODECS = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")


class GenericRecordAvroTypeInfo(TypeInformation):
    """The type of records of an Avro schema: dicts, or Rows and objects with the same fields."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = check_schema(schema)

    def validate(self, value: object) -> Any:
        """Return the value; its fields are checked when it is written."""
        if value is None or isinstance(value, (str, bytes, int, float)):
            raise self._rejected(value, hint="pass a dict or a Row with the fields of the schema")
        return value

    def to_arrow(self) -> object:
        """Return the Arrow type of a column of such records."""
        return arrow_type(column_type(self.schema))

    def _parts(self) -> tuple[Any, ...]:
        return (self.schema,)

    def __repr__(self) -> str:
        return f"GenericRecordAvroTypeInfo({self.schema})"


class AvroFileFormat(StreamFormat):
    """Reads Avro container files as dicts, in the reader's schema. Supports every codec of fastavro.

    A file is one split. A position is the offset of a block and the number of its records that were read, packed into one number.
    """

    def __init__(self, schema: AvroSchema, on_error: str = "fail") -> None:
        self.schema = check_schema(schema)
        self.on_error = check_on_error(on_error)

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Return the file as one part."""
        return [(0, None)] if file.size else []

    def bytes_left(self, part: FilePart, position: int) -> int | None:
        """Return how many bytes are left, starting with the current block."""
        size = super().bytes_left(part, position)
        return None if size is None else max(0, size - (position >> 32))

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield records from a position on."""
        offset, skip = position >> 32, position & 0xFFFFFFFF
        with open_stream(files, part.path) as stream:
            blocks = self._blocks(stream, part.path)
            if offset:
                stream.seek(offset)
            while (block := self._next_block(blocks, part.path)) is not None:
                start, end = block.offset, block.offset + block.size
                records = self._records(block, part.path, faults)
                for first in range(skip, max(len(records), 1), batch_size):
                    last = first + batch_size
                    done = last >= len(records)
                    yield records[first:last], end << 32 if done else start << 32 | last
                skip = 0

    def _blocks(self, stream: IO[bytes], path: str) -> Any:
        try:
            return fastavro().block_reader(stream, self.schema.parsed)
        except (ValueError, EOFError, fastavro().schema.SchemaParseException) as error:
            raise _unreadable(error, path) from error

    def _next_block(self, blocks: Any, path: str) -> Any:
        try:
            return next(blocks, None)
        except (ValueError, EOFError, OSError) as error:
            raise _unreadable(error, path) from error

    def _records(self, block: Any, path: str, faults: Faults) -> list[Any]:
        """Return the records of a block; a block that cannot be decoded counts as one malformed record."""
        try:
            return list(block)
        except Exception as error:  # noqa: BLE001 - fastavro raises errors of many classes on damaged bytes
            faults.handle(
                bad_record(error, path, block.offset, f"{block.num_records} records"),
                error,
                offset=block.offset,
            )
            return []


class AvroInputFormat:
    """An Avro container file, or a directory of them, for `StreamExecutionEnvironment.create_input`. Records are dicts."""

    get_java_object = not_implemented("there is no JVM object behind an input format")

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self.path = normalize(path)
        self.schema = check_schema(schema)

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Return the type of the records."""
        return GenericRecordAvroTypeInfo(self.schema)

    def file_format(self) -> AvroFileFormat:
        """Return how the files are read."""
        return AvroFileFormat(self.schema)


class AvroBulkWriters:
    """Factories of writers for Avro container files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema, *, codec: str = "null") -> AvroWriterFactory:
        """Write dicts, Rows or objects with the fields of a record; blocks may be compressed ("deflate", "snappy", ...)."""
        return AvroWriterFactory(check_schema(schema), codec)


class AvroWriterFactory(BulkWriterFactory):
    """Creates writers of Avro container files."""

    def __init__(self, schema: AvroSchema, codec: str) -> None:
        if codec not in _CODECS:
            raise ArgumentError(
                "unknown codec", detail=f"codec={codec!r}", hint=f"use one of {_CODECS}"
            )
        self._schema = schema
        self._codec = codec
        self.create(io.BytesIO())  # fails now if the codec is not installed

    def create(self, stream: IO[bytes]) -> AvroWriter:
        """Create the writer of one file."""
        return AvroWriter(self._schema, self._codec, stream)


class AvroWriter(BulkWriter):
    """Writes records to one container file."""

    def __init__(self, schema: AvroSchema, codec: str, stream: IO[bytes]) -> None:
        self._make = datum_maker(schema)
        try:
            self._writer = fastavro().write.Writer(stream, schema.parsed, codec)
        except ValueError as error:  # the codec's library is missing
            raise ArgumentError(
                "the codec is not available", detail=str(error), hint=install_command("avro")
            ) from error

    def add_element(self, element: object) -> None:
        """Write a record."""
        try:
            self._writer.write(self._make(element))
        except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
            raise _does_not_fit(element, error) from error

    def finish(self) -> None:
        """Write the last block."""
        self._writer.flush()


class AvroRowDeserializationSchema(DeserializationSchema):
    """Deserializes one Avro record to a Row."""

    def __init__(
        self, record_class: str | None = None, avro_schema_string: str | None = None
    ) -> None:
        self._schema = _message_schema(record_class, avro_schema_string)
        self._row = row_maker(self._schema)

    def deserialize(self, message: bytes) -> object:
        """Return the row."""
        try:
            return self._row(
                fastavro().schemaless_reader(io.BytesIO(message), self._schema.parsed, None)
            )
        except Exception as error:  # fastavro raises errors of many classes on damaged bytes
            raise RecordError(
                f"a message is not an Avro record of the schema: {type(error).__name__}: {error}",
                detail=f"message: {message!r:.200}",
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowDeserializationSchema, (None, str(self._schema))


class AvroRowSerializationSchema(SerializationSchema):
    """Serializes a Row as one Avro record."""

    def __init__(
        self, record_class: str | None = None, avro_schema_string: str | None = None
    ) -> None:
        self._schema = _message_schema(record_class, avro_schema_string)
        self._make = datum_maker(self._schema)

    def serialize(self, value: object) -> bytes:
        """Return the bytes of a row."""
        out = io.BytesIO()
        try:
            fastavro().schemaless_writer(out, self._schema.parsed, self._make(value))
        except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
            raise _does_not_fit(value, error) from error
        return out.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroRowSerializationSchema, (None, str(self._schema))


class AvroParquetReaders:
    """Factories of formats that read Parquet files as Avro records."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroParquetFormat:
        """Read dicts with the fields of a record."""
        return AvroParquetFormat(schema)


class AvroParquetFormat(ParquetColumnarRowInputFormat):
    """Reads Parquet files as dicts with the fields of an Avro record."""

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__(column_type(check_schema(schema)))
        self._schema = schema

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield records from a position on."""
        assert self._row is not None
        record = record_reader(self._schema.parsed, self._row)
        for rows, following in super().read(part, files, position, batch_size, faults):
            yield [record(as_dict(row)) for row in rows], following


class AvroParquetWriters:
    """Factories of writers for Parquet files of Avro records."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> ColumnarWriterFactory:
        """Write dicts, Rows or objects with the fields of a record."""
        row = column_type(check_schema(schema))
        return ColumnarWriterFactory("parquet", row, utc_timestamp=True)


def _message_schema(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise ArgumentError(
            "record_class is a Java class, which is not supported",
            detail=f"record_class={record_class!r}",
            hint="pass the schema: avro_schema_string=...",
        )
    if avro_schema_string is None:
        raise ArgumentTypeError("an Avro row schema needs avro_schema_string")
    schema = AvroSchema.parse_string(avro_schema_string)
    if not isinstance(schema.parsed, dict) or schema.parsed["type"] != "record":
        raise ArgumentTypeError("the Avro schema is not a record", detail=f"schema: {schema}")
    return schema


def _does_not_fit(value: object, error: Exception) -> RecordError:
    return RecordError(
        f"a record does not match the Avro schema: {type(error).__name__}: {error}",
        detail=f"record: {value!r:.200}",
    )


def _unreadable(error: Exception, path: str) -> RecordError:
    return RecordError(
        "cannot read a file as Avro",
        detail=f"{path}: {type(error).__name__}: {error}",
        hint="check that the file is complete and that its schema is compatible with the reader's",
    )
