"""Comma-separated values."""

from __future__ import annotations

from penstock.connectors.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
)
from penstock.connectors.formats.csv_messages import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.connectors.formats.csv_schema import CsvSchema, CsvSchemaBuilder

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
