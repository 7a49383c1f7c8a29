"""TableSchema, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.results.table_schema import TableSchema

__all__ = ["TableSchema"]
