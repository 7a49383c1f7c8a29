"""ORC files."""

from __future__ import annotations

from penstock.formats.columnar.files import OrcBulkWriters

__all__ = ["OrcBulkWriters"]
