"""Parquet files."""

from __future__ import annotations

from penstock.common.not_implemented import not_implemented_class as _absent
from penstock.connectors.formats.columnar import ParquetBulkWriters, ParquetColumnarRowInputFormat

_REASON = "there is no Avro format yet"

AvroParquetReaders = _absent(
    "AvroParquetReaders", _REASON, hint="use ParquetColumnarRowInputFormat, which reads rows"
)
AvroParquetWriters = _absent(
    "AvroParquetWriters", _REASON, hint="use ParquetBulkWriters, which writes rows"
)

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]
