"""ORC files."""

from __future__ import annotations

from penstock.connectors.formats.columnar import OrcBulkWriters

__all__ = ["OrcBulkWriters"]
