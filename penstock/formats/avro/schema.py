"""Avro schemas: parsed by fastavro, which is imported when a schema is used; and their conversion to other type systems."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.dependencies.extras import optional_module
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError
from penstock.formats.base.field_types import FieldType

_PLAIN = {
    "boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "string": "STRING",
    "bytes": "BYTES", "fixed": "BYTES", "enum": "STRING",
}  # fmt: skip
_LOGICAL = {
    "date": "DATE", "time-millis": "TIME", "time-micros": "TIME", "uuid": "STRING",
    "timestamp-millis": "TIMESTAMP_LTZ", "timestamp-micros": "TIMESTAMP_LTZ",
    "local-timestamp-millis": "TIMESTAMP", "local-timestamp-micros": "TIMESTAMP",
}  # fmt: skip


def fastavro() -> Any:
    """Return the module that reads and writes Avro."""
    return optional_module("fastavro", extra="avro", needed_by="the Avro format")


class AvroSchema:
    """A schema of Avro records.

    >>> schema = AvroSchema.parse_string('{"type": "record", "name": "Pair", "fields": [{"name": "a", "type": "int"}]}')
    >>> print(schema)
    {"type":"record","name":"Pair","fields":[{"name":"a","type":"int"}]}
    """

    def __init__(self, schema: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        try:
            self.json = json.loads(text)
        except ValueError as error:
            raise ArgumentError(
                "the Avro schema is not valid JSON", detail=f"{error}: {text!r:.200}"
            ) from None
        self._parsed: Any = None
        self._parse()

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Parse a schema from JSON text."""
        if not isinstance(json_schema, str):
            raise ArgumentTypeError(
                "an Avro schema must be a str", detail=f"got {json_schema!r:.200}"
            )
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Parse a schema from a JSON file."""
        return AvroSchema(Path(file_path).read_text(encoding="utf-8"))

    def _parse(self) -> object:
        try:
            return fastavro().parse_schema(json.loads(str(self)))
        except PenstockError:
            raise
        except Exception as error:
            raise ArgumentError(
                "invalid Avro schema", detail=f"{type(error).__name__}: {error}"
            ) from error

    @property
    def parsed(self) -> Any:
        """The schema in fastavro's form; names are fully qualified, and each is defined at its first use."""
        if self._parsed is None:
            self._parsed = self._parse()
        return self._parsed

    def __str__(self) -> str:
        return json.dumps(self.json, separators=(",", ":"))

    def __repr__(self) -> str:
        return f"AvroSchema({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.json == other.json

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (str(self),)


def check_schema(schema: object) -> AvroSchema:
    """Return the schema after checking its type."""
    if not isinstance(schema, AvroSchema):
        raise ArgumentTypeError(
            "the schema is not an AvroSchema",
            detail=f"got {schema!r:.200}",
            hint="use AvroSchema.parse_string(...)",
        )
    return schema


def column_type(schema: AvroSchema) -> FieldType:
    """Return a record's type as used for file columns."""
    found = _field_type(schema.parsed, {})
    if found.kind != "ROW":
        raise ArgumentTypeError("the Avro schema is not a record", detail=f"schema: {schema}")
    return found


def _field_type(schema: Any, named: dict[str, FieldType]) -> FieldType:
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) == 1:
            return _field_type(others[0], named)
        # As in Flink's Parquet files: a group with a field for each type, one of which has the value.
        members = [(f"member{at}", _field_type(each, named)) for at, each in enumerate(others)]
        return FieldType("UNION", tuple(members))
    if isinstance(schema, str):
        if schema in _PLAIN:
            return FieldType(_PLAIN[schema])
        if schema not in named:
            raise ArgumentTypeError(
                "a recursive type cannot be a column", detail=f"the type is {schema!r}"
            )
        return named[schema]
    found = _defined(schema, named)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def record_reader(schema: object, kind: FieldType) -> Callable[[Any], Any]:
    """Return the converter from column values to values of the schema: unions have one member, missing columns are null."""
    found = _reader(schema, kind)
    return (lambda value: value) if found is None else found


def _reader(schema: object, kind: FieldType) -> Callable[[Any], Any] | None:
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if kind.kind != "UNION":
            return _reader(others[0], kind)
        members = [
            (name, record_reader(each, inner))
            for each, (name, inner) in zip(others, kind.fields, strict=True)
        ]
        return lambda value: next(
            (read(value[name]) for name, read in members if value and value[name] is not None), None
        )
    if not isinstance(schema, dict):
        return None
    if kind.kind == "ROW":
        kinds = dict(kind.fields)
        readers = [
            (each["name"], record_reader(each["type"], kinds[each["name"]]))
            if each["name"] in kinds
            else (each["name"], None)
            for each in schema["fields"]
        ]
        return lambda value: (
            None
            if value is None
            else {name: None if read is None else read(value[name]) for name, read in readers}
        )
    if kind.kind == "ARRAY":
        item = record_reader(schema["items"], kind.fields[0][1])
        return lambda value: None if value is None else [item(each) for each in value]
    if kind.kind == "MAP":
        entry = record_reader(schema["values"], kind.fields[1][1])
        return lambda value: (
            None if value is None else {key: entry(each) for key, each in value.items()}
        )
    return None


def is_null(schema: Any) -> bool:
    """Whether a type is null, or a union of nulls only."""
    if isinstance(schema, list):
        return all(map(is_null, schema))
    return schema == "null" or (isinstance(schema, dict) and schema["type"] == "null")


def _defined(schema: dict[str, Any], named: dict[str, FieldType]) -> FieldType:
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in {"record", "error"}:
        # A field that is always null has no column in Flink's files either.
        fields = [
            (each["name"], _field_type(each["type"], named))
            for each in schema["fields"]
            if not is_null(each["type"])
        ]
        return FieldType("ROW", tuple(fields))
    if kind == "array":
        return FieldType("ARRAY", (("element", _field_type(schema["items"], named)),))
    if kind == "map":
        value = _field_type(schema["values"], named)
        return FieldType("MAP", (("key", FieldType("STRING")), ("value", value)))
    if logical == "decimal":
        return FieldType("DECIMAL", (), schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return FieldType(_LOGICAL[logical])
    return _field_type(kind, named)
