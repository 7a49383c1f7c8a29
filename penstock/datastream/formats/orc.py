"""ORC files."""

from __future__ import annotations

from penstock.common.connectors.columnar_format import OrcBulkWriters

__all__ = ["OrcBulkWriters"]
