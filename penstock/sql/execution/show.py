"""SHOW: names of objects, and their CREATE statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.catalogs.tables import ResolvedTable, ResolvedView
from penstock.sql.errors import ValidationError
from penstock.sql.execution import jobs
from penstock.sql.execution.describe import column_rows, rows_of_columns
from penstock.sql.execution.statements_of import create_catalog, create_table, create_view
from penstock.sql.parse import statements as sql
from penstock.sql.types import BooleanType
from penstock.table import table_result
from penstock.table.table_result import STRING, TableResult

if TYPE_CHECKING:
    from penstock.table.table_environment import TableEnvironment


def show(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    """Carry out SHOW."""
    action: Any = _SHOWN.get(statement.what)
    if action is None:
        raise ValidationError(f"SHOW {statement.what} is not supported")
    found: TableResult = action(environment, statement)
    return found


def built_in_functions() -> list[str]:
    """Return the names of the functions of SQL, as SHOW FUNCTIONS lists them."""
    from penstock.sql.expr.functions import function_names

    return sorted(name.lower() for name in function_names() if re.match(r"[A-Za-z]\w*$", name))


def _catalogs(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    return _names("catalog name", environment.list_catalogs(), statement)


def _databases(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    manager = environment.manager
    catalog = statement.target[0] if statement.target else manager.current_catalog
    return _names("database name", manager.catalog(catalog).databases(), statement)


def _tables(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    return _names(
        "table name", environment.manager.tables(*_place(environment, statement)), statement
    )


def _views(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    return _names(
        "view name", environment.manager.views(*_place(environment, statement)), statement
    )


def _functions(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    return _names("function name", environment.list_functions(), statement)


def _user_functions(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    return _names("function name", environment.list_user_defined_functions(), statement)


def _columns(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    rows = column_rows(environment, statement.target)
    keep = _pattern(statement)
    return rows_of_columns([row for row in rows if keep(row[0])])


def _partitions(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = environment.manager.get(statement.target)
    if not isinstance(found, ResolvedTable) or not found.partition_keys:
        raise ValidationError(f"{found.path} is not partitioned")
    return table_result.of_texts("partition name", [])


def _modules(_environment: TableEnvironment, _statement: sql.ShowStatement) -> TableResult:
    return table_result.of_texts("module name", ["core"])


def _full_modules(_environment: TableEnvironment, _statement: sql.ShowStatement) -> TableResult:
    types = [STRING, BooleanType()]
    return table_result.of_rows(["module name", "used"], types, [("core", True)])


def _current_catalog(environment: TableEnvironment, _statement: sql.ShowStatement) -> TableResult:
    return table_result.of_texts("current catalog name", [environment.get_current_catalog()])


def _current_database(environment: TableEnvironment, _statement: sql.ShowStatement) -> TableResult:
    return table_result.of_texts("current database name", [environment.get_current_database()])


def _jobs(environment: TableEnvironment, _statement: sql.ShowStatement) -> TableResult:
    return jobs.show(environment)


def _create_table(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = environment.manager.get(statement.target)
    if isinstance(found, ResolvedView):
        raise ValidationError(f"{found.path} is a view", hint="use SHOW CREATE VIEW")
    temporary = environment.manager.is_temporary(found.path)
    return table_result.of_text("create table", create_table(found, temporary=temporary))


def _create_view(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = environment.manager.get(statement.target)
    if isinstance(found, ResolvedTable):
        raise ValidationError(f"{found.path} is a table", hint="use SHOW CREATE TABLE")
    names = [row[0] for row in column_rows(environment, statement.target)]
    temporary = environment.manager.is_temporary(found.path)
    return table_result.of_text("create view", create_view(found, names, temporary=temporary))


def _create_catalog(environment: TableEnvironment, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = environment.manager.catalog(statement.target[0])
    return table_result.of_text("create catalog", create_catalog(found))


_SHOWN: dict[str, Callable[[TableEnvironment, sql.ShowStatement], TableResult]] = {
    "CATALOGS": _catalogs,
    "DATABASES": _databases,
    "TABLES": _tables,
    "VIEWS": _views,
    "FUNCTIONS": _functions,
    "USER FUNCTIONS": _user_functions,
    "COLUMNS": _columns,
    "PARTITIONS": _partitions,
    "MODULES": _modules,
    "FULL MODULES": _full_modules,
    "JOBS": _jobs,
    "CURRENT CATALOG": _current_catalog,
    "CURRENT DATABASE": _current_database,
    "CREATE TABLE": _create_table,
    "CREATE VIEW": _create_view,
    "CREATE CATALOG": _create_catalog,
}


def _names(title: str, names: Iterable[str], statement: sql.ShowStatement) -> TableResult:
    keep = _pattern(statement)
    return table_result.of_texts(title, [name for name in names if keep(name)])


def _place(environment: TableEnvironment, statement: sql.ShowStatement) -> Sequence[str]:
    if not statement.target:
        return ()
    return environment.manager.database_path(statement.target)


def _pattern(statement: sql.ShowStatement) -> Callable[[str], bool]:
    """Return a predicate for LIKE: % is any text, _ any character, a backslash escapes either."""
    if statement.like is None:
        return lambda _name: True
    parts = re.split(r"(\\.|%|_)", statement.like)
    words = {"%": ".*", "_": "."}
    text = "".join(words.get(part, re.escape(part.removeprefix("\\"))) for part in parts)
    pattern = re.compile(text, re.DOTALL)
    wanted = not statement.not_like
    return lambda name: (pattern.fullmatch(name) is not None) == wanted
