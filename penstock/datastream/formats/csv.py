"""Comma-separated values."""

from __future__ import annotations

from penstock.common.connectors.csv_format import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.common.connectors.csv_schema import CsvSchema, CsvSchemaBuilder

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
