"""Protobuf in Confluent's wire format: after the schema id comes the path of the message type within its file, as indexes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.errors import ArgumentTypeError, RecordError
from penstock.formats.confluent.messages import (
    HEADER,
    check_subject,
    registered_header,
    schema_id_of,
)
from penstock.formats.confluent.registry import RegisteredSchema, SchemaReference, SchemaRegistry
from penstock.formats.protobuf.messages import (
    ProtobufDeserializationSchema,
    ProtobufSerializationSchema,
)

_WELL_KNOWN = ("google/protobuf/", "google/type/", "confluent/")  # known to every reader


class ConfluentRegistryProtobufDeserializationSchema(DeserializationSchema):
    """Deserializes Protobuf with Confluent's header. The reader knows the type: Protobuf does not need the writer's schema."""

    def __init__(self, schema: ProtobufDeserializationSchema) -> None:
        if not isinstance(schema, ProtobufDeserializationSchema):
            raise ArgumentTypeError(
                "the schema is not a ProtobufDeserializationSchema", detail=f"got {schema!r:.200}"
            )
        self._schema = schema

    def deserialize(self, message: bytes) -> object:
        """Return the record."""
        schema_id_of(message)
        return self._schema.deserialize(message[_after_path(message) :])

    def get_produced_type(self) -> object:
        """Return the type of the records."""
        return self._schema.get_produced_type()


class ConfluentRegistryProtobufSerializationSchema(SerializationSchema):
    """Serializes Protobuf with Confluent's header; the type's file, and its imports, are registered with the first record.

    With `register=False` it is looked up, and must have been registered.
    """

    def __init__(
        self,
        subject: str,
        schema: ProtobufSerializationSchema,
        registry: Any,
        registry_configs: Mapping[str, str] | None = None,
        *,
        register: bool = True,
    ) -> None:
        if not isinstance(schema, ProtobufSerializationSchema):
            raise ArgumentTypeError(
                "the schema is not a ProtobufSerializationSchema", detail=f"got {schema!r:.200}"
            )
        self._subject = check_subject(subject)
        self._schema = schema
        self._registry = SchemaRegistry.of(registry, registry_configs)
        self._register = register
        self._header: bytes | None = None

    def serialize(self, value: object) -> bytes:
        """Return header, path and the message's bytes."""
        data = self._schema.serialize(value)
        if self._header is None:
            descriptor = self._schema.message_type.descriptor
            file = self._registered(descriptor.file)
            header = registered_header(self._registry, self._subject, file, register=self._register)
            self._header = header + _path_bytes(message_path(descriptor))
        return self._header + data

    def _registered(self, file: Any) -> RegisteredSchema:
        """Return a registered file; its imports are registered under their own names."""
        references = []
        for each in file.dependencies:
            if each.name.startswith(_WELL_KNOWN):
                continue
            used = self._registered(each)
            if self._register:
                self._registry.register(each.name, used)
            version = self._registry.version_of(each.name, used)
            references.append(SchemaReference(each.name, each.name, version))
        text = base64.b64encode(file.serialized_pb).decode("ascii")
        return RegisteredSchema(text, "PROTOBUF", tuple(references))


def message_path(descriptor: Any) -> list[int]:
    """Return the path of a message type within its file: its index, after the index of the enclosing message, and so on."""
    path: list[int] = []
    while descriptor is not None:
        around = descriptor.containing_type
        siblings = (
            around.nested_types
            if around is not None
            else descriptor.file.message_types_by_name.values()
        )
        path.insert(0, [each.full_name for each in siblings].index(descriptor.full_name))
        descriptor = around
    return path


def _path_bytes(path: list[int]) -> bytes:
    """Encode a path as signed varints with its length first; the first message of a file, the usual one, is a single zero."""
    if path == [0]:
        return b"\0"
    return b"".join(_varint(2 * number) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _after_path(message: bytes) -> int:
    """Return the offset of the record, after the path."""
    count, at = _read_varint(message, HEADER)
    if count < 0 or count > len(message):
        raise _no_path(message)
    for _ in range(count):
        _, at = _read_varint(message, at)
    return at


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise _no_path(message)


def _no_path(message: bytes) -> RecordError:
    return RecordError(
        "a message has no Protobuf message index",
        detail=f"it starts with {bytes(message[:24])!r}",
        hint="check that it was written in Confluent's wire format for Protobuf",
    )
