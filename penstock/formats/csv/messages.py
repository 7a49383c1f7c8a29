"""CSV messages: one row each."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.common.serialization import (
    DeserializationSchema,
    Deserialized,
    SerializationSchema,
    deserialize_each,
)
from penstock.errors import RecordError
from penstock.formats.base.field_types import row_type
from penstock.formats.base.file_formats import Faults
from penstock.formats.csv.files import RowDecoder, csv_reader
from penstock.formats.csv.schema import CsvColumn, CsvSchema
from penstock.formats.csv.text import RowFormatter


class CsvRowDeserializationSchema(DeserializationSchema):
    """Deserializes one CSV line to a Row. An empty message, and a comment if allowed, is not a row.

    With `ignore_parse_errors` an invalid value, and a missing column, is None, as in Flink. A message with too many columns, or
    with invalid CSV, is skipped.
    """

    skip_hint = "set_ignore_parse_errors(True) of the builder skips such messages"

    def __init__(
        self, schema: CsvSchema, *, ignore_parse_errors: bool = False, type_info: Any = None
    ) -> None:
        self._schema = schema
        self._ignore = ignore_parse_errors
        self._type_info = type_info

    def deserialize(self, message: bytes) -> object:
        """Return the row; None if the message is not a row and parse errors are ignored."""
        try:
            text = message.decode("utf-8")
            if self._schema.allow_comments and text.startswith("#"):
                return None
            rows = [row for row in csv_reader(iter([text]), self._schema) if row]
            decoder = RowDecoder(self._schema, "message", Faults("fail"), lenient=self._ignore)
            decoded = decoder.decode(rows, lambda: [(0, message)] * len(rows))
        except (ValueError, csv.Error, RecordError) as error:
            if self._ignore:
                self.skipped += 1
                return None
            cause = error.__cause__ if isinstance(error, RecordError) else error
            raise RecordError(
                f"invalid CSV record: {cause}",
                detail=f"message: {message[:200]!r}",
                hint=self.skip_hint,
            ) from error
        return decoded[0] if decoded else None

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the rows of many messages: by column, if all of them are valid."""
        rows = self._all_at_once(messages)
        return deserialize_each(self.deserialize, messages) if rows is None else Deserialized(rows)

    def _all_at_once(self, messages: Sequence[bytes | None]) -> list[Any] | None:
        """Return the rows of messages, None if one of them must be handled separately."""
        try:
            texts = list(map(bytes.decode, messages))  # type: ignore[arg-type]
            if self._schema.allow_comments and any(text.startswith("#") for text in texts):
                return None
            rows = list(csv_reader(iter(texts), self._schema))
            # A quote is not closed, or a line is empty.
            if len(rows) != len(texts) or not all(rows):
                return None
            return RowDecoder(self._schema, "message", Faults("fail")).decode(
                rows, lambda: [(0, b"")] * len(rows)
            )
        except (TypeError, ValueError, csv.Error, RecordError):
            return None

    def get_produced_type(self) -> object:
        """Return the type of the rows."""
        return self._type_info

    class Builder:
        """Builds a CsvRowDeserializationSchema for a row type."""

        def __init__(self, type_info: Any) -> None:
            self._type_info = type_info
            self._schema = schema_of(type_info)
            self._options: dict[str, Any] = {}
            self._ignore = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the character between fields."""
            self._options["column_separator"] = delimiter
            return self

        def set_allow_comments(self) -> CsvRowDeserializationSchema.Builder:
            """Skip lines that start with #."""
            self._options["allow_comments"] = True
            return self

        def set_array_element_delimiter(
            self, delimiter: str
        ) -> CsvRowDeserializationSchema.Builder:
            """Set the separator of array elements."""
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
            """Read invalid values as None, and skip messages that are not rows, instead of failing."""
            self._ignore = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Create the schema."""
            schema = _with_options(self._schema, self._options)
            return CsvRowDeserializationSchema(
                schema, ignore_parse_errors=self._ignore, type_info=self._type_info
            )


class CsvRowSerializationSchema(SerializationSchema):
    """Serializes a Row as one CSV line."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        self._line = RowFormatter(schema).line

    def serialize(self, value: object) -> bytes:
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
            """Set the separator of array elements."""
            self._schema = _with_separator(self._schema, delimiter)
            return self

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that stands for None."""
            self._options["null_value"] = s
            return self

        def build(self) -> CsvRowSerializationSchema:
            """Create the schema."""
            return CsvRowSerializationSchema(_with_options(self._schema, self._options))


def schema_of(type_info: object) -> CsvSchema:
    """Return the CSV schema of a row type."""
    row = row_type(type_info)
    return CsvSchema(tuple(CsvColumn(name, kind) for name, kind in row.fields))


def _with_options(schema: CsvSchema, options: dict[str, Any]) -> CsvSchema:
    return replace(schema, **options)


def _with_separator(schema: CsvSchema, separator: str) -> CsvSchema:
    columns = tuple(CsvColumn(c.name, c.type, separator) for c in schema.columns)
    return _with_options(schema, {"columns": columns})
