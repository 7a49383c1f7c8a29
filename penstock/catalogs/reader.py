"""Catalog interface of the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.catalogs.tables import ResolvedTable, ResolvedView
from penstock.sql.types import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFunction:
    """A user-defined function, as a query calls it.

    `kind`: SCALAR, TABLE, AGGREGATE or TABLE_AGGREGATE. `function` is what operators call. `result_types`: one type, or for a table function one per column.
    `input_types`: what operands are cast to; None if the function takes whatever it is given. `names`: of a table function's columns, if it has names for them.
    """

    name: str
    kind: str
    function: Any
    result_types: tuple[DataType, ...]
    input_types: tuple[DataType, ...] | None = None
    names: tuple[str, ...] | None = None
    deterministic: bool = True
    pandas: bool = False


class CatalogReader(Protocol):
    """Finds tables, views and functions by the parts of a name; those left out are the current catalog and database."""

    def find_table(self, name: Sequence[str]) -> ResolvedTable | ResolvedView | None:
        """The table or view of this name, or None."""

    def find_function(self, name: Sequence[str]) -> UserFunction | None:
        """The user's function of this name, or None; built-in functions are not in catalogs."""

    def table_names(self) -> Sequence[str]:
        """Names of tables and views as a query here could write them: for `did you mean`."""

    def function_names(self) -> Sequence[str]:
        """Names of the user's functions: for `did you mean`."""

    @property
    def here(self) -> tuple[str, str]:
        """The current catalog and database."""

    def at(self, catalog: str, database: str) -> CatalogReader:
        """The same catalogs, seen from another place: where a view was made."""
