"""The format `csv` of SQL tables: messages, and lines of files."""

from __future__ import annotations

from functools import partial

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.formats.csv.frames import CsvFrames, write_csv
from penstock.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.csv.table_columns import csv_columns
from penstock.formats.frames.line_parts import RowLines, TextPart, writes_rows
from penstock.sql.connector.formats import (
    FileFormatFactory,
    FileWriting,
    FormatContext,
    MessageFormatFactory,
)
from penstock.sql.connector.options import flag, text


class CsvFormatFactory(MessageFormatFactory, FileFormatFactory):
    """One line of values per message or row, without a header."""

    identifier = "csv"
    options = (
        text("field-delimiter", "Character between values.", default=","),
        flag("disable-quote-character", "Read and write values without quotes."),
        text(
            "quote-character",
            "Character around values that contain special characters.",
            default='"',
        ),
        flag("allow-comments", "Skip lines that start with #."),
        text(
            "array-element-delimiter",
            "Characters between the elements of arrays and the fields of rows.",
            default=";",
        ),
        text("escape-character", "Character before special characters in values."),
        flag(
            "ignore-parse-errors",
            "Read values that cannot be parsed as NULL, and skip unreadable rows.",
        ),
        text("null-literal", "Text that stands for NULL."),
        flag(
            "write-bigdecimal-in-scientific-notation",
            "Write decimals with an exponent.",
            default=True,
            no_effect="decimals are always written with all digits",
        ),
    )

    def deserializer(self, context: FormatContext) -> DeserializationSchema:
        """Return how rows are read from lines."""
        return CsvRowDeserializationSchema(
            csv_schema(context), ignore_parse_errors=context.options["ignore-parse-errors"]
        )

    def serializer(self, context: FormatContext) -> SerializationSchema:
        """Return how rows are written as lines."""
        return CsvRowSerializationSchema(csv_schema(context))

    def file_reader(self, context: FormatContext) -> CsvFrames:
        """Return how lines are read in columns."""
        columns, options, schema = context.columns, context.options, csv_schema(context)
        return CsvFrames(
            list(columns),
            list(columns.values()),
            self.reader(context),
            careful=options["escape-character"] is not None,
            options={
                "separator": schema.column_separator,
                "quote_char": schema.quote_char,
                "null_values": options["null-literal"],
                "comment_prefix": "#" if options["allow-comments"] else None,
                "ignore_errors": options["ignore-parse-errors"],
            },
        )

    def file_writer(self, context: FormatContext) -> FileWriting:
        """Return how lines are written: in columns, or row by row where columns need it."""
        columns, options = context.columns, context.options
        if any(writes_rows(kind, "csv") for kind in columns.values()):
            return FileWriting(partial(TextPart, RowLines(columns, self.serializer(context))))
        style = {
            "separator": options["field-delimiter"].replace("\\t", "\t"),
            "null_value": options["null-literal"] or "",
            "quote_char": options["quote-character"],
            "quote_style": "never" if options["disable-quote-character"] else "necessary",
        }
        return FileWriting(partial(TextPart, partial(write_csv, options=style)))


def csv_schema(context: FormatContext) -> CsvSchema:
    """Return the columns and the syntax of lines."""
    options = context.options
    return CsvSchema(
        columns=csv_columns(context.columns, options["array-element-delimiter"], context.table),
        column_separator=options["field-delimiter"].replace("\\t", "\t"),
        quote_char=None if options["disable-quote-character"] else options["quote-character"],
        escape_char=options["escape-character"],
        null_value=options["null-literal"],
        allow_comments=options["allow-comments"],
    )
