"""SET, RESET, USE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.options.configuration import shown
from penstock.sql.parse import statements as sql
from penstock.table import table_result
from penstock.table.table_result import STRING, TableResult

if TYPE_CHECKING:
    from penstock.table.table_environment import TableEnvironment


def set_option(environment: TableEnvironment, statement: sql.SetStatement) -> TableResult:
    """Set an option, or show all that are set."""
    config = environment.get_config()
    if statement.key is None:
        rows = [(key, shown(key, text)) for key, text in sorted(config.to_map().items())]
        return table_result.of_rows(["key", "value"], [STRING, STRING], rows)
    if statement.value is None:
        rows = [(statement.key, shown(statement.key, config.get(statement.key, "")))]
        return table_result.of_rows(["key", "value"], [STRING, STRING], rows)
    config.set(statement.key, statement.value)
    return table_result.ok()


def reset(environment: TableEnvironment, statement: sql.ResetStatement) -> TableResult:
    """Unset an option, or all."""
    config = environment.get_config()
    for key in list(config.to_map()) if statement.key is None else [statement.key]:
        config.reset(key)
    return table_result.ok()


def use(environment: TableEnvironment, statement: sql.UseStatement) -> TableResult:
    """Change where names are looked up."""
    if statement.kind == "CATALOG":
        environment.use_catalog(statement.name[0])
    elif statement.kind == "DATABASE":
        environment.manager.use_database(statement.name)
    else:
        environment.use_modules(*statement.name)
    return table_result.ok()
