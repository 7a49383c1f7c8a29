"""The format `json` of SQL tables: messages, and lines of files."""

from __future__ import annotations

from functools import partial
from typing import Final

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.errors import ConfigurationError
from penstock.formats.frames.line_parts import RowLines, TextPart, writes_rows
from penstock.formats.json.frames import JsonFrames, write_json
from penstock.formats.json.rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.formats.json.table_rows import (
    JsonStyle,
    LenientJsonDeserializationSchema,
    RowJsonSerializationSchema,
    has_times,
)
from penstock.sql.connector.formats import (
    FileFormatFactory,
    FileWriting,
    FormatContext,
    MessageFormatFactory,
)
from penstock.sql.connector.options import Option, flag, text

#: Options of all formats whose values are JSON.
JSON_OPTIONS: Final[tuple[Option, ...]] = (
    flag(
        "ignore-parse-errors",
        "Read fields that cannot be parsed as NULL, and skip messages that are not JSON.",
    ),
    text(
        "timestamp-format.standard",
        "How timestamps are written.",
        default="SQL",
        choices=("sql", "iso-8601"),
    ),
    text(
        "map-null-key.mode",
        "What is written for NULL keys of maps.",
        default="FAIL",
        choices=("fail", "drop", "literal"),
    ),
    text(
        "map-null-key.literal", "The key that is written for NULL in mode LITERAL.", default="null"
    ),
    flag("encode.decimal-as-plain-number", "Write decimals without an exponent."),
    flag("encode.ignore-null-fields", "Leave out fields that are NULL."),
    flag(
        "decode.json-parser.enabled",
        "Use the faster parser of Flink.",
        default=True,
        no_effect="there is only one parser",
    ),
)


class JsonFormatFactory(MessageFormatFactory, FileFormatFactory):
    """One JSON object per message or line."""

    identifier = "json"
    options = (
        flag(
            "fail-on-missing-field",
            "Fail if the field of a column is missing, instead of reading NULL.",
        ),
        *JSON_OPTIONS,
    )

    def check(self, context: FormatContext) -> None:
        """Reject mutually exclusive options."""
        if context.options["fail-on-missing-field"] and context.options["ignore-parse-errors"]:
            raise ConfigurationError(
                f"table {context.table}: 'fail-on-missing-field' and 'ignore-parse-errors' are mutually exclusive",
                hint="remove 'json.fail-on-missing-field' or 'json.ignore-parse-errors'",
            )

    def deserializer(self, context: FormatContext) -> DeserializationSchema:
        """Return how rows are read from objects."""
        if context.options["ignore-parse-errors"]:
            return LenientJsonDeserializationSchema(context.row_type)
        return JsonRowDeserializationSchema(
            context.row_type, fail_on_missing_field=context.options["fail-on-missing-field"]
        )

    def serializer(self, context: FormatContext) -> SerializationSchema:
        """Return how rows are written as objects."""
        style = json_style(context)
        if style == JsonStyle() and not has_times(context.row_type):
            return JsonRowSerializationSchema(context.row_type)  # the same, and faster
        return RowJsonSerializationSchema(context.row_type, style)

    def file_reader(self, context: FormatContext) -> JsonFrames:
        """Return how lines are read in columns."""
        columns, options = context.columns, context.options
        careful = options["fail-on-missing-field"] or options["ignore-parse-errors"]
        rows = self.reader(context)
        return JsonFrames(list(columns), list(columns.values()), rows, careful=careful)

    def file_writer(self, context: FormatContext) -> FileWriting:
        """Return how lines are written: in columns, or row by row where columns or options need it."""
        by_row = any(writes_rows(kind, "json") for kind in context.columns.values())
        if json_style(context) == JsonStyle() and not by_row:
            return FileWriting(partial(TextPart, write_json))
        return FileWriting(partial(TextPart, RowLines(context.columns, self.serializer(context))))


def json_style(context: FormatContext) -> JsonStyle:
    """Return how values are written as JSON."""
    options = context.options
    return JsonStyle(
        iso=options["timestamp-format.standard"].lower() == "iso-8601",
        plain_decimals=options["encode.decimal-as-plain-number"],
        without_nulls=options["encode.ignore-null-fields"],
        null_keys=options["map-null-key.mode"].lower(),
        null_key=options["map-null-key.literal"],
    )
