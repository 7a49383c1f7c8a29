"""The formats `debezium-json`, `canal-json` and `maxwell-json` of SQL tables: each message or line is a change of a row."""

from __future__ import annotations

from typing import ClassVar

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.formats.changelog.canal import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from penstock.formats.changelog.change_events import ChangeEventWriter
from penstock.formats.changelog.debezium import (
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
)
from penstock.formats.json.table import JSON_OPTIONS, json_style
from penstock.formats.json.table_rows import (
    ChangeJsonSerializationSchema,
    RowJsonSerializationSchema,
)
from penstock.sql.connector.formats import FormatContext, MessageFormatFactory
from penstock.sql.connector.options import flag, text


class ChangelogFormatFactory(MessageFormatFactory):
    """Base of these formats: they write the same values, in different envelopes."""

    is_changelog = True
    envelopes: ClassVar[type[ChangeEventWriter]]

    def serializer(self, context: FormatContext) -> SerializationSchema:
        """Return how changes are written."""
        rows = RowJsonSerializationSchema(context.row_type, json_style(context))
        return ChangeJsonSerializationSchema(self.envelopes, rows)


class DebeziumJsonFormatFactory(ChangelogFormatFactory):
    """Change events of Debezium."""

    identifier = "debezium-json"
    options = (
        *JSON_OPTIONS,
        flag("schema-include", "Messages contain the schema of their payload."),
    )
    metadata_keys = tuple(DebeziumJsonDeserializationSchema.keys)
    envelopes = DebeziumJsonSerializationSchema

    def deserializer(self, context: FormatContext) -> DeserializationSchema:
        """Return how changes are read."""
        return DebeziumJsonDeserializationSchema(
            context.row_type,
            schema_include=context.options["schema-include"],
            metadata=context.metadata,
            ignore_parse_errors=context.options["ignore-parse-errors"],
        )


class CanalJsonFormatFactory(ChangelogFormatFactory):
    """Change events of Canal."""

    identifier = "canal-json"
    options = (
        *JSON_OPTIONS,
        text("database.include", "Regular expression of the databases whose changes are read."),
        text("table.include", "Regular expression of the tables whose changes are read."),
    )
    metadata_keys = tuple(CanalJsonDeserializationSchema.keys)
    envelopes = CanalJsonSerializationSchema

    def deserializer(self, context: FormatContext) -> DeserializationSchema:
        """Return how changes are read."""
        return CanalJsonDeserializationSchema(
            context.row_type,
            database_include=context.options["database.include"],
            table_include=context.options["table.include"],
            metadata=context.metadata,
            ignore_parse_errors=context.options["ignore-parse-errors"],
        )


class MaxwellJsonFormatFactory(ChangelogFormatFactory):
    """Change events of Maxwell.

    >>> MaxwellJsonFormatFactory.metadata_keys
    ('database', 'table', 'primary-key-columns', 'ingestion-timestamp')
    """

    identifier = "maxwell-json"
    options = JSON_OPTIONS
    metadata_keys = tuple(MaxwellJsonDeserializationSchema.keys)
    envelopes = MaxwellJsonSerializationSchema

    def deserializer(self, context: FormatContext) -> DeserializationSchema:
        """Return how changes are read."""
        return MaxwellJsonDeserializationSchema(
            context.row_type,
            metadata=context.metadata,
            ignore_parse_errors=context.options["ignore-parse-errors"],
        )
