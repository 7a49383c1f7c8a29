"""Formats of messages: how rows of a table are read from bytes, and written as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.errors import ConfigurationError
from penstock.formats.changelog.canal import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from penstock.formats.changelog.change_events import ChangeEventSchema, ChangeEventWriter
from penstock.formats.changelog.debezium import (
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
)
from penstock.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.csv.table_columns import csv_columns
from penstock.formats.json.rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.formats.json.table_rows import (
    ChangeJsonSerializationSchema,
    JsonStyle,
    LenientJsonDeserializationSchema,
    RowJsonSerializationSchema,
    has_times,
)
from penstock.formats.raw.messages import RawDeserializationSchema, RawSerializationSchema
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.options import (
    Option,
    checked,
    flag,
    text,
)
from penstock.sql.types import DataType, RowField, RowType

CHANGE_FORMATS: Final = ("debezium-json", "canal-json", "maxwell-json")
MESSAGE_FORMATS: Final = ("json", "csv", "raw", *CHANGE_FORMATS)
_JSON: Final = (
    flag("fail-on-missing-field"),
    flag("ignore-parse-errors"),
    text("timestamp-format.standard", "SQL", choices=("sql", "iso-8601")),
    text("map-null-key.mode", "FAIL", choices=("fail", "drop", "literal")),
    text("map-null-key.literal", "null"),
    flag("encode.decimal-as-plain-number"),
    flag("encode.ignore-null-fields"),
    flag("decode.json-parser.enabled", default=True, no_effect="there is only one parser"),
)
_CHANGES: Final = tuple(option for option in _JSON if option.name != "fail-on-missing-field")
DECIMALS: Final = flag(
    "write-bigdecimal-in-scientific-notation",
    default=True,
    no_effect="decimals are always written with all digits",
)
_OPTIONS: Final[dict[str, tuple[Option, ...]]] = {
    "json": _JSON,
    "csv": (
        text("field-delimiter", ","),
        flag("disable-quote-character"),
        text("quote-character", '"'),
        flag("allow-comments"),
        text("array-element-delimiter", ";"),
        text("escape-character"),
        flag("ignore-parse-errors"),
        text("null-literal"),
        DECIMALS,
    ),
    "raw": (text("charset", "UTF-8"), text("endianness", "big-endian")),
    "debezium-json": (*_CHANGES, flag("schema-include")),
    "canal-json": (*_CHANGES, text("database.include"), text("table.include")),
    "maxwell-json": _CHANGES,
}


_WRITERS: Final[dict[str, type[ChangeEventWriter]]] = {
    "debezium-json": DebeziumJsonSerializationSchema,
    "canal-json": CanalJsonSerializationSchema,
    "maxwell-json": MaxwellJsonSerializationSchema,
}
_READERS: Final[dict[str, type[ChangeEventSchema]]] = {
    "debezium-json": DebeziumJsonDeserializationSchema,
    "canal-json": CanalJsonDeserializationSchema,
    "maxwell-json": MaxwellJsonDeserializationSchema,
}


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """A format with its options, for the columns of a table that are in the message."""

    kind: str
    options: dict[str, Any]
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    metadata: tuple[str, ...] = ()  # metadata that follows the columns of a change
    table: str = ""
    prefix: str = ""  # of the names of its options

    @property
    def row_type(self) -> RowType:
        """The columns as one type."""
        fields = zip(self.names, self.types, strict=True)
        return RowType([RowField(name, kind) for name, kind in fields])

    def changelog_mode(self) -> ChangelogMode:
        """The kinds of rows that messages stand for."""
        changes = self.kind in CHANGE_FORMATS
        return ChangelogMode.all() if changes else ChangelogMode.insert_only()

    def reader(self) -> DeserializationSchema:
        """Return the deserialization schema."""
        reader = self._reader()
        if "ignore-parse-errors" in self.options:
            reader.skip_hint = skip_hint(self.prefix)
        return reader

    def _reader(self) -> DeserializationSchema:
        options, ignore = self.options, self.options.get("ignore-parse-errors", False)
        match self.kind:
            case "json" if ignore:
                return LenientJsonDeserializationSchema(self.row_type)
            case "json":
                return JsonRowDeserializationSchema(
                    self.row_type, fail_on_missing_field=options["fail-on-missing-field"]
                )
            case "csv":
                return CsvRowDeserializationSchema(self._csv(), ignore_parse_errors=ignore)
            case "raw":
                return RawDeserializationSchema(
                    self.row_type, charset=options["charset"], endianness=options["endianness"]
                )
            case "debezium-json":
                return DebeziumJsonDeserializationSchema(
                    self.row_type,
                    schema_include=options["schema-include"],
                    metadata=self.metadata,
                    ignore_parse_errors=ignore,
                )
            case "canal-json":
                return CanalJsonDeserializationSchema(
                    self.row_type,
                    database_include=options["database.include"],
                    table_include=options["table.include"],
                    metadata=self.metadata,
                    ignore_parse_errors=ignore,
                )
        return MaxwellJsonDeserializationSchema(
            self.row_type, metadata=self.metadata, ignore_parse_errors=ignore
        )

    def writer(self) -> SerializationSchema:
        """Return the serialization schema."""
        match self.kind:
            case "json":
                return self._json_writer()
            case "csv":
                return CsvRowSerializationSchema(self._csv())
            case "raw":
                return RawSerializationSchema(
                    self.row_type,
                    charset=self.options["charset"],
                    endianness=self.options["endianness"],
                )
        rows = RowJsonSerializationSchema(self.row_type, self._json_style())
        return ChangeJsonSerializationSchema(_WRITERS[self.kind], rows)

    def is_plain(self) -> bool:
        """Whether no option changes how JSON is written."""
        return self._json_style() == JsonStyle()

    def _json_writer(self) -> SerializationSchema:
        if self.is_plain() and not has_times(self.row_type):
            return JsonRowSerializationSchema(self.row_type)  # the same, and faster
        return RowJsonSerializationSchema(self.row_type, self._json_style())

    def _json_style(self) -> JsonStyle:
        options = self.options
        return JsonStyle(
            iso=options["timestamp-format.standard"].lower() == "iso-8601",
            plain_decimals=options["encode.decimal-as-plain-number"],
            without_nulls=options["encode.ignore-null-fields"],
            null_keys=options["map-null-key.mode"].lower(),
            null_key=options["map-null-key.literal"],
        )

    def _csv(self) -> CsvSchema:
        options = self.options
        columns = dict(zip(self.names, self.types, strict=True))
        return CsvSchema(
            columns=csv_columns(columns, options["array-element-delimiter"], self.table),
            column_separator=options["field-delimiter"].replace("\\t", "\t"),
            quote_char=None if options["disable-quote-character"] else options["quote-character"],
            escape_char=options["escape-character"],
            null_value=options["null-literal"],
            allow_comments=options["allow-comments"],
        )


def metadata_of(kind: str) -> tuple[str, ...]:
    """Return the metadata keys of a format.

    >>> metadata_of("maxwell-json")
    ('database', 'table', 'primary-key-columns', 'ingestion-timestamp')
    """
    return tuple(_READERS[kind].keys) if kind in _READERS else ()


def message_format(
    kind: str,
    given: Mapping[str, str],
    prefixes: Sequence[str],
    columns: Mapping[str, DataType],
    table: str,
    metadata: Sequence[str] = (),
) -> MessageFormat:
    """Return the format of these columns; its options are those that begin with one of the prefixes."""
    if kind not in MESSAGE_FORMATS:
        raise ConfigurationError(
            f"table {table}: unknown message format '{kind}'",
            hint=f"valid values are {', '.join(MESSAGE_FORMATS)}",
        )
    own = {
        key.removeprefix(prefix): value
        for key, value in given.items()
        for prefix in prefixes
        if key.startswith(prefix)
    }
    options = checked(own, _OPTIONS[kind], f"{table}, format {kind}")
    if options.get("fail-on-missing-field") and options.get("ignore-parse-errors"):
        raise ConfigurationError(
            f"table {table}: 'fail-on-missing-field' and 'ignore-parse-errors' exclude each other",
            hint=f"remove '{kind}.fail-on-missing-field' or '{kind}.ignore-parse-errors'",
        )
    return MessageFormat(
        kind,
        options,
        tuple(columns),
        tuple(columns.values()),
        tuple(metadata),
        table,
        prefixes[0],
    )


def skip_hint(prefix: str) -> str:
    """Return how rows that cannot be read are left out, where options of the format begin with this.

    >>> skip_hint("csv.")
    "set 'csv.ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows"
    """
    return f"set '{prefix}ignore-parse-errors' = 'true' to read such values as NULL and skip unreadable rows"
