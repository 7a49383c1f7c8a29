"""SqlDialect, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.execution.sql_dialect import SqlDialect

__all__ = ["SqlDialect"]
