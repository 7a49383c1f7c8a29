"""Parquet files."""

from __future__ import annotations

from penstock.connectors.formats.avro import AvroParquetReaders, AvroParquetWriters
from penstock.connectors.formats.columnar import ParquetBulkWriters, ParquetColumnarRowInputFormat

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]
