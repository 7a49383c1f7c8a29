"""Types of columns, by the names of PyFlink's module."""

from __future__ import annotations

from typing import Any

from penstock.common.types import Row, RowKind
from penstock.sql import types
from penstock.sql.types import *  # noqa: F403 - all of them
from penstock.table.data_types import DataTypes

__all__ = [*types.__all__, "DataTypes", "Row", "RowKind"]  # noqa: PLE0604 - the names of another module


def __getattr__(name: str) -> Any:
    """Give the class that PyFlink's module has besides, which raises."""
    if name == "UserDefinedType":
        from penstock import table

        return table.UserDefinedType
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
