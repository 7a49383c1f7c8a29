"""Parquet files."""

from __future__ import annotations

from penstock.formats.avro.records import AvroParquetReaders, AvroParquetWriters
from penstock.formats.columnar.files import ParquetBulkWriters, ParquetColumnarRowInputFormat

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]
