"""TableConfig, by the name of PyFlink's module."""

from __future__ import annotations

from penstock.sql.execution.table_config import TableConfig

__all__ = ["TableConfig"]
