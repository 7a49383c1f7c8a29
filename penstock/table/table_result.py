"""TableResult, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.results.table_result import TableResult

__all__ = ["TableResult"]
