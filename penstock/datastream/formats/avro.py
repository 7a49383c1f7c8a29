"""Avro: container files, messages, and the type of records. Needs fastavro: `pip install 'penstock-stream[avro]'`."""

from __future__ import annotations

from penstock.formats.avro.records import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    GenericRecordAvroTypeInfo,
)
from penstock.formats.avro.schema import AvroSchema

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]
