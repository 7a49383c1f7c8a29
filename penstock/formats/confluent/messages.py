"""Confluent's wire format for Avro and JSON: a zero byte, the schema id in the registry as four bytes, then the record."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.common.serialization import (
    DeserializationSchema,
    Deserialized,
    SerializationSchema,
    deserialize_each,
)
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError, RecordError
from penstock.formats.avro.schema import AvroSchema, check_schema, fastavro
from penstock.formats.avro.values import datum_maker, row_maker
from penstock.formats.confluent.registry import RegisteredSchema, SchemaRegistry

HEADER = 5


def schema_id_of(message: bytes) -> int:
    """Return the id in a message's header.

    >>> schema_id_of(wire_header(258) + b"record")
    258
    """
    if len(message) < HEADER or message[0]:
        raise RecordError(
            "a message is not in Confluent's wire format",
            detail=f"it starts with {bytes(message[:16])!r}, not with a zero byte and a schema id",
            hint="if it was written without a registry, use the plain format",
        )
    return int.from_bytes(message[1:HEADER], "big")


def wire_header(schema_id: int) -> bytes:
    """Return the header of messages of a schema."""
    return b"\0" + schema_id.to_bytes(4, "big")


def check_subject(subject: object) -> str:
    """Return a subject's name after checking it."""
    if not isinstance(subject, str) or not subject:
        raise ArgumentTypeError(
            "subject is not a non-empty str",
            detail=f"got {subject!r}",
            hint='use the topic with "-value" or "-key"; see SubjectNameStrategy',
        )
    return subject


class ConfluentRegistryAvroDeserializationSchema(DeserializationSchema):
    """Deserializes Avro records whose schemas are in a registry.

    Each message is read with its writer's schema, and converted to the reader's schema if one is given: new fields get their
    defaults. `for_generic` returns dicts, `for_row` Rows like AvroRowDeserializationSchema.
    """

    def __init__(self, registry: SchemaRegistry, schema: AvroSchema | None, *, rows: bool) -> None:
        fastavro()  # fails now if it is not installed
        self._registry = registry
        self._schema = schema
        self._rows = rows
        self._readers: dict[int, Callable[[io.BytesIO], Any]] = {}

    @staticmethod
    def for_generic(
        schema: AvroSchema | None,
        registry: object,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Read dicts; without a schema in the writer's schema. `registry` is a URL or a SchemaRegistry."""
        checked = None if schema is None else check_schema(schema)
        return ConfluentRegistryAvroDeserializationSchema(
            SchemaRegistry.of(registry, registry_configs), checked, rows=False
        )

    @staticmethod
    def for_row(
        schema: AvroSchema, registry: object, registry_configs: Mapping[str, str] | None = None
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Read Rows with the fields of a schema."""
        return ConfluentRegistryAvroDeserializationSchema(
            SchemaRegistry.of(registry, registry_configs), check_schema(schema), rows=True
        )

    def deserialize(self, message: bytes) -> object:
        """Return the record."""
        schema_id = schema_id_of(message)
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = self._reader(schema_id)
        data = io.BytesIO(message)
        data.seek(HEADER)
        try:
            return reader(data)
        except Exception as error:
            raise RecordError(
                f"a message is not an Avro record of its schema: {type(error).__name__}: {error}",
                detail=f"schema {schema_id} of {self._registry}; message: {message!r:.200}",
                hint="check that the writer's schema is compatible with the reader's",
            ) from error

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the records of many messages."""
        return deserialize_each(self.deserialize, messages)

    def _reader(self, schema_id: int) -> Callable[[io.BytesIO], Any]:
        registered = self._registry.schema(schema_id)
        if registered.kind != "AVRO":
            raise RecordError(
                f"a message is not Avro: its schema {schema_id} has type {registered.kind}"
            )
        written = _parsed(registered, self._registry)
        read = fastavro().schemaless_reader
        wanted = None if self._schema is None else self._schema.parsed
        if not self._rows or self._schema is None:
            return lambda data: read(data, written, wanted)
        make = row_maker(self._schema)
        return lambda data: make(read(data, written, wanted))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": {}}


class ConfluentRegistryAvroSerializationSchema(SerializationSchema):
    """Serializes Avro records whose schema is in a registry; it is registered with the first record, unless `register` is False.

    Records are dicts, Rows, tuples or objects with the fields of the schema.
    """

    def __init__(
        self, subject: str, schema: AvroSchema, registry: SchemaRegistry, *, register: bool = True
    ) -> None:
        self._subject = check_subject(subject)
        self._schema = check_schema(schema)
        self._registry = registry
        self._register = register
        self._make = datum_maker(schema)
        self._header: bytes | None = None

    @staticmethod
    def for_generic(
        subject: str,
        schema: AvroSchema,
        registry: object,
        registry_configs: Mapping[str, str] | None = None,
        *,
        register: bool = True,
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Write records under a subject. `registry` is a URL or a SchemaRegistry."""
        return ConfluentRegistryAvroSerializationSchema(
            subject, schema, SchemaRegistry.of(registry, registry_configs), register=register
        )

    def serialize(self, value: object) -> bytes:
        """Return the header and the record's bytes."""
        if self._header is None:
            self._header = registered_header(
                self._registry,
                self._subject,
                RegisteredSchema(str(self._schema)),
                register=self._register,
            )
        out = io.BytesIO()
        out.write(self._header)
        try:
            fastavro().schemaless_writer(out, self._schema.parsed, self._make(value))
        except (TypeError, ValueError, AttributeError, KeyError, ArithmeticError) as error:
            raise RecordError(
                f"a record does not match the Avro schema: {type(error).__name__}: {error}",
                detail=f"subject {self._subject!r}; record: {value!r:.200}",
            ) from error
        return out.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return _avro_writer, (self._subject, self._schema, self._registry, self._register)


def _avro_writer(
    subject: str, schema: AvroSchema, registry: SchemaRegistry, register: bool
) -> ConfluentRegistryAvroSerializationSchema:
    return ConfluentRegistryAvroSerializationSchema(subject, schema, registry, register=register)


class ConfluentRegistryJsonDeserializationSchema(DeserializationSchema):
    """Deserializes JSON with Confluent's header, with any schema for JSON messages.

    Messages are not validated against the registry's JSON Schema: the writer has done that.
    """

    def __init__(self, schema: DeserializationSchema) -> None:
        if not isinstance(schema, DeserializationSchema):
            raise ArgumentTypeError(
                "the schema is not a DeserializationSchema",
                detail=f"got {schema!r}",
                hint="pass JsonDeserializationSchema() or a JsonRowDeserializationSchema",
            )
        self._schema = schema

    def deserialize(self, message: bytes) -> object:
        """Return the record."""
        schema_id_of(message)
        return self._schema.deserialize(message[HEADER:])

    def use_metrics(self, group: object) -> None:
        """Pass the metric group on to the value schema."""
        self._schema.use_metrics(group)

    def get_produced_type(self) -> object:
        """Return the type of the records."""
        return self._schema.get_produced_type()


class ConfluentRegistryJsonSerializationSchema(SerializationSchema):
    """Serializes JSON with Confluent's header; its JSON Schema is registered with the first record, unless `register=False`."""

    def __init__(
        self,
        subject: str,
        json_schema: str,
        schema: SerializationSchema,
        registry: Any,
        registry_configs: Mapping[str, str] | None = None,
        *,
        register: bool = True,
    ) -> None:
        self._subject = check_subject(subject)
        try:
            json.loads(json_schema)
        except (TypeError, ValueError) as error:
            raise ArgumentError("the JSON Schema is not valid JSON", detail=str(error)) from None
        if not isinstance(schema, SerializationSchema):
            raise ArgumentTypeError("the schema is not a SerializationSchema")
        self._registered = RegisteredSchema(json_schema, "JSON")
        self._schema = schema
        self._registry = SchemaRegistry.of(registry, registry_configs)
        self._register = register
        self._header: bytes | None = None

    def serialize(self, value: object) -> bytes:
        """Return the header and the JSON text."""
        return self.serialize_batch([value])[0]

    def serialize_batch(self, values: Sequence[Any]) -> list[bytes]:
        """Return header and JSON text of many values."""
        if self._header is None:
            self._header = registered_header(
                self._registry, self._subject, self._registered, register=self._register
            )
        header = self._header
        return [header + text for text in self._schema.serialize_batch(values)]


def registered_header(
    registry: SchemaRegistry, subject: str, schema: RegisteredSchema, *, register: bool
) -> bytes:
    """Return the header of messages of a schema, which is registered or only looked up."""
    ask = registry.register if register else registry.lookup
    return wire_header(ask(subject, schema))


def _parsed(schema: RegisteredSchema, registry: SchemaRegistry) -> object:
    """Return a writer's schema in fastavro's form, including referenced schemas."""
    named: dict[str, Any] = {}
    try:
        _parse_references(schema, registry, named)
        return fastavro().parse_schema(json.loads(schema.text), named)
    except PenstockError:
        raise
    except Exception as error:
        raise RecordError(
            f"cannot parse a schema of the registry as Avro: {type(error).__name__}: {error}",
            detail=f"schema: {schema.text:.200}",
        ) from error


def _parse_references(
    schema: RegisteredSchema, registry: SchemaRegistry, named: dict[str, Any]
) -> None:
    for each in schema.references:
        if each.name not in named:
            _, _, used = registry.version(each.subject, each.version)
            _parse_references(used, registry, named)
            fastavro().parse_schema(json.loads(used.text), named)
