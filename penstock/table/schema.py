"""Schema, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.table_api.schema import Schema

__all__ = ["Schema"]
