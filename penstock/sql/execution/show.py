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
from penstock.sql.results import table_result
from penstock.sql.results.table_result import STRING, TableResult
from penstock.sql.types import BooleanType

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


def show(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    """Carry out SHOW."""
    action: Any = _SHOWN.get(statement.what)
    if action is None:
        raise ValidationError(f"SHOW {statement.what} is not supported")
    found: TableResult = action(context, statement)
    return found


def built_in_functions() -> list[str]:
    """Return the names of the functions of SQL, as SHOW FUNCTIONS lists them."""
    from penstock.sql.expr.functions import function_names

    return sorted(name.lower() for name in function_names() if re.match(r"[A-Za-z]\w*$", name))


def _catalogs(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    return _names("catalog name", context.catalogs.catalogs(), statement)


def _databases(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    manager = context.catalogs
    catalog = statement.target[0] if statement.target else manager.current_catalog
    return _names("database name", manager.catalog(catalog).databases(), statement)


def _tables(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    return _names("table name", context.catalogs.tables(*_place(context, statement)), statement)


def _views(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    return _names("view name", context.catalogs.views(*_place(context, statement)), statement)


def _functions(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    return _names("function name", all_functions(context), statement)


def _user_functions(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    return _names("function name", context.catalogs.functions(), statement)


def _columns(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    rows = column_rows(context, statement.target)
    keep = _pattern(statement)
    return rows_of_columns([row for row in rows if keep(row[0])])


def _partitions(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = context.catalogs.get(statement.target)
    if not isinstance(found, ResolvedTable) or not found.partition_keys:
        raise ValidationError(f"{found.path} is not partitioned")
    return table_result.of_texts("partition name", [])


def _modules(_context: StatementContext, _statement: sql.ShowStatement) -> TableResult:
    return table_result.of_texts("module name", ["core"])


def _full_modules(_context: StatementContext, _statement: sql.ShowStatement) -> TableResult:
    types = [STRING, BooleanType()]
    return table_result.of_rows(["module name", "used"], types, [("core", True)])


def _current_catalog(context: StatementContext, _statement: sql.ShowStatement) -> TableResult:
    return table_result.of_texts("current catalog name", [context.catalogs.current_catalog])


def _current_database(context: StatementContext, _statement: sql.ShowStatement) -> TableResult:
    return table_result.of_texts("current database name", [context.catalogs.current_database])


def _jobs(context: StatementContext, _statement: sql.ShowStatement) -> TableResult:
    return jobs.show(context)


def _create_table(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = context.catalogs.get(statement.target)
    if isinstance(found, ResolvedView):
        raise ValidationError(f"{found.path} is a view", hint="use SHOW CREATE VIEW")
    temporary = context.catalogs.is_temporary(found.path)
    return table_result.of_text("create table", create_table(found, temporary=temporary))


def _create_view(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = context.catalogs.get(statement.target)
    if isinstance(found, ResolvedTable):
        raise ValidationError(f"{found.path} is a table", hint="use SHOW CREATE TABLE")
    names = [row[0] for row in column_rows(context, statement.target)]
    temporary = context.catalogs.is_temporary(found.path)
    return table_result.of_text("create view", create_view(found, names, temporary=temporary))


def _create_catalog(context: StatementContext, statement: sql.ShowStatement) -> TableResult:
    assert statement.target is not None
    found = context.catalogs.catalog(statement.target[0])
    return table_result.of_text("create catalog", create_catalog(found))


_SHOWN: dict[str, Callable[[StatementContext, sql.ShowStatement], TableResult]] = {
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


def all_functions(context: StatementContext) -> list[str]:
    """Return the names of the functions of SQL and of the user's functions."""
    return sorted({*built_in_functions(), *context.catalogs.functions()})


def _names(title: str, names: Iterable[str], statement: sql.ShowStatement) -> TableResult:
    keep = _pattern(statement)
    return table_result.of_texts(title, [name for name in names if keep(name)])


def _place(context: StatementContext, statement: sql.ShowStatement) -> Sequence[str]:
    if not statement.target:
        return ()
    return context.catalogs.database_path(statement.target)


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
