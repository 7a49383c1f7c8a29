"""Parquet files."""

from __future__ import annotations

from penstock.common.connectors.columnar_format import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat"]
