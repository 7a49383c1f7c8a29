"""Messages whose schemas are in a registry, in Confluent's wire format. `pip install 'penstock-stream[schema-registry]'`."""

from __future__ import annotations

from penstock.formats.confluent.messages import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    ConfluentRegistryJsonDeserializationSchema,
    ConfluentRegistryJsonSerializationSchema,
)
from penstock.formats.confluent.protobuf import (
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
)
from penstock.formats.confluent.registry import (
    RegisteredSchema,
    SchemaReference,
    SchemaRegistry,
    SchemaRegistryError,
    SubjectNameStrategy,
)

__all__ = [
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "ConfluentRegistryJsonDeserializationSchema",
    "ConfluentRegistryJsonSerializationSchema",
    "ConfluentRegistryProtobufDeserializationSchema",
    "ConfluentRegistryProtobufSerializationSchema",
    "RegisteredSchema",
    "SchemaReference",
    "SchemaRegistry",
    "SchemaRegistryError",
    "SubjectNameStrategy",
]
