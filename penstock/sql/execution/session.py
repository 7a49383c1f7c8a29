"""SET, RESET, USE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import ArgumentError
from penstock.options.configuration import shown
from penstock.sql.parse import statements as sql
from penstock.sql.results import table_result
from penstock.sql.results.table_result import STRING, TableResult

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


def set_option(context: StatementContext, statement: sql.SetStatement) -> TableResult:
    """Set an option, or show all that are set."""
    config = context.config
    if statement.key is None:
        rows = [(key, shown(key, text)) for key, text in sorted(config.to_map().items())]
        return table_result.of_rows(["key", "value"], [STRING, STRING], rows)
    if statement.value is None:
        rows = [(statement.key, shown(statement.key, config.get(statement.key, "")))]
        return table_result.of_rows(["key", "value"], [STRING, STRING], rows)
    config.set(statement.key, statement.value)
    return table_result.ok()


def reset(context: StatementContext, statement: sql.ResetStatement) -> TableResult:
    """Unset an option, or all."""
    config = context.config
    for key in list(config.to_map()) if statement.key is None else [statement.key]:
        config.reset(key)
    return table_result.ok()


def check_modules(names: Sequence[str]) -> None:
    """Reject all modules but core."""
    if tuple(names) != ("core",):
        raise ArgumentError(f"unknown module {', '.join(names)}", hint="the only module is core")


def use(context: StatementContext, statement: sql.UseStatement) -> TableResult:
    """Change where names are looked up."""
    if statement.kind == "CATALOG":
        context.catalogs.use_catalog(statement.name[0])
    elif statement.kind == "DATABASE":
        context.catalogs.use_database(statement.name)
    else:
        check_modules(statement.name)
    return table_result.ok()
