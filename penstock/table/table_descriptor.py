"""TableDescriptor and FormatDescriptor, by the names of PyFlink's module."""

from __future__ import annotations

from penstock.sql.table_api.table_descriptor import FormatDescriptor, TableDescriptor

__all__ = ["FormatDescriptor", "TableDescriptor"]
