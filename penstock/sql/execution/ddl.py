"""CREATE, ALTER and DROP of tables, views, databases, catalogs and functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.catalogs.in_memory import CatalogStore, Database
from penstock.catalogs.tables import (
    Column,
    PhysicalColumn,
    ResolvedTable,
    ResolvedView,
)
from penstock.errors import UnsupportedOperationError
from penstock.sql.connector.catalogs import CATALOGS
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.execution import queries
from penstock.sql.execution.tables import checked, table_of
from penstock.sql.parse import statements as sql
from penstock.sql.results import table_result
from penstock.sql.results.table_result import TableResult

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


# Tables and views


def create_table(context: StatementContext, statement: sql.CreateTableStatement) -> TableResult:
    """Carry out CREATE TABLE; with a query, the table is filled by a job."""
    manager = context.catalogs
    path = manager.qualify(statement.table)
    existing = manager.find(path)
    if existing is not None and statement.if_not_exists and not statement.or_replace:
        return table_result.ok()
    table = table_of(path, statement, manager)
    given: tuple[str, ...] = ()
    if statement.query is not None:
        table, given = _filled(context, table, statement)
    context.planner.check_table(table)
    manager.create(
        table,
        temporary=statement.temporary,
        ignore_if_exists=statement.if_not_exists,
        replace_it=statement.or_replace,
    )
    if statement.query is None:
        return table_result.ok()
    try:
        insert = sql.InsertStatement(
            table=(path.catalog, path.database, path.name),
            query=statement.query,
            columns=given,
            text=statement.source or statement.text,
        )
        return queries.insert(context, insert)
    except Exception:
        if existing is None:  # a table that cannot be filled is not left behind
            manager.drop(path, ResolvedTable, temporary=statement.temporary, if_exists=True)
        raise


def _filled(
    context: StatementContext, table: ResolvedTable, statement: sql.CreateTableStatement
) -> tuple[ResolvedTable, tuple[str, ...]]:
    """Return a table with the columns of its query, and which columns the query fills.

    Columns that the statement describes come first; a column of the query that it describes too has the type that it says.
    """
    assert statement.query is not None
    schema = context.planner.query(statement.query, statement.source).schema
    described = {each.name: each for each in table.columns}
    columns: list[Column] = [
        each for each in table.columns if each.name not in {field.name for field in schema}
    ]
    for field in schema:
        own = described.get(field.name)
        columns.append(PhysicalColumn(field.name, field.type) if own is None else own)
    given = tuple(field.name for field in schema)
    return checked(replace(table, columns=tuple(columns))), given


def create_view(context: StatementContext, statement: sql.CreateViewStatement) -> TableResult:
    """Carry out CREATE VIEW; the query is validated now and planned again on each use."""
    manager = context.catalogs
    path = manager.qualify(statement.view)
    schema = context.planner.query(statement.query, statement.source).schema
    if statement.columns is not None and len(statement.columns) != len(schema):
        raise ValidationError(
            f"view {path} names {len(statement.columns)} columns, but its query returns {len(schema)}"
        )
    view = ResolvedView(
        path,
        statement.query.tree,
        statement.query.text,
        statement.columns,
        manager.current_catalog,
        manager.current_database,
        comment=statement.comment,
    )
    manager.create(view, temporary=statement.temporary, ignore_if_exists=statement.if_not_exists)
    return table_result.ok()


def drop(context: StatementContext, statement: sql.DropStatement) -> TableResult:
    """Carry out DROP."""
    manager = context.catalogs
    if statement.kind in {"TABLE", "VIEW"}:
        kind: Any = ResolvedTable if statement.kind == "TABLE" else ResolvedView
        path = manager.qualify(statement.name)
        manager.drop(path, kind, temporary=statement.temporary, if_exists=statement.if_exists)
    elif statement.kind == "DATABASE":
        _drop_database(context, statement)
    elif statement.kind == "CATALOG":
        if not statement.if_exists or manager.has_catalog(statement.name[0]):
            manager.drop_catalog(statement.name[0])
    elif statement.kind == "FUNCTION":
        _drop_function(context, statement)
    else:
        raise UnsupportedOperationError(f"DROP {statement.kind} is not supported")
    return table_result.ok()


# Databases and catalogs


def create_database(
    context: StatementContext, statement: sql.CreateDatabaseStatement
) -> TableResult:
    """Carry out CREATE DATABASE."""
    manager = context.catalogs
    catalog, name = manager.database_path(statement.database)
    store = manager.catalog(catalog)
    if store.database(name) is not None:
        if not statement.if_not_exists:
            raise ValidationError(
                f"database '{name}' already exists in catalog '{catalog}'",
                hint="use CREATE DATABASE IF NOT EXISTS",
            )
        return table_result.ok()
    store.create_database(name, Database(statement.comment, dict(statement.options)))
    return table_result.ok()


def alter_database(context: StatementContext, statement: sql.AlterDatabaseStatement) -> TableResult:
    """Carry out ALTER DATABASE: its options are changed."""
    manager = context.catalogs
    found = manager.database(*manager.database_path(statement.database))
    found.options.update(statement.options)
    return table_result.ok()


def _drop_database(context: StatementContext, statement: sql.DropStatement) -> None:
    manager = context.catalogs
    catalog, name = manager.database_path(statement.name)
    store = manager.catalog(catalog)
    if statement.if_exists and store.database(name) is None:
        return
    found = manager.database(catalog, name)
    if (catalog, name) == (manager.current_catalog, manager.current_database):
        raise ValidationError(
            f"database '{name}' is in use", hint="switch with USE before dropping it"
        )
    if (found.tables or found.functions) and not statement.cascade:
        raise ValidationError(
            f"database '{name}' of catalog '{catalog}' is not empty",
            hint="DROP DATABASE ... CASCADE also drops its tables and functions",
        )
    store.drop_database(name)


def create_catalog(context: StatementContext, statement: sql.CreateCatalogStatement) -> TableResult:
    """Carry out CREATE CATALOG."""
    manager = context.catalogs
    if statement.if_not_exists and manager.has_catalog(statement.catalog):
        return table_result.ok()
    catalog = new_catalog(statement.catalog, statement.options, statement.comment)
    manager.add_catalog(statement.catalog, catalog)
    return table_result.ok()


def new_catalog(name: str, options: dict[str, str], comment: str | None = None) -> CatalogStore:
    """Return a catalog as its options describe it."""
    kind = options.get("type")
    types = CATALOGS.names()
    if kind is None or kind not in types:
        shown = "no type" if kind is None else f"type '{kind}'"
        raise UnsupportedOperationError(
            f"catalog '{name}' has {shown}, which is not supported",
            hint=f"set 'type' to one of: {', '.join(types)}",
        )
    catalog = CATALOGS.find(kind).create(name, options)
    catalog.options = dict(options)
    catalog.comment = comment
    return catalog


# Functions


def create_function(
    context: StatementContext, statement: sql.CreateFunctionStatement
) -> TableResult:
    """Carry out CREATE FUNCTION: the name of a Python object, which is imported now."""
    from penstock.sql.table_api.udf import import_function

    manager = context.catalogs
    if statement.system:
        (name,) = statement.function
        exists = manager.has_system_function(name)
    else:
        path = manager.qualify(statement.function)
        name = path.name
        exists = manager.has_function(path, temporary=statement.temporary)
    if exists and statement.if_not_exists:
        return table_result.ok()
    if exists:
        raise ValidationError(
            f"function '{'.'.join(statement.function)}' already exists",
            hint="drop it first, or use CREATE FUNCTION IF NOT EXISTS",
        )
    _check_language(statement.language)
    made = import_function(name, statement.implementation)
    if statement.system:
        manager.add_system_function(name, made)
    else:
        manager.add_function(path, made, temporary=statement.temporary)
    return table_result.ok()


def alter_function(context: StatementContext, statement: sql.AlterFunctionStatement) -> TableResult:
    """Carry out ALTER FUNCTION: another Python object under the same name."""
    from penstock.sql.table_api.udf import import_function

    manager = context.catalogs
    path = manager.qualify(statement.function)
    if not manager.has_function(path, temporary=statement.temporary):
        if statement.if_exists:
            return table_result.ok()
        raise _no_function(context, statement.function)
    _check_language(statement.language)
    made = import_function(path.name, statement.implementation)
    manager.add_function(path, made, temporary=statement.temporary)
    return table_result.ok()


def _drop_function(context: StatementContext, statement: sql.DropStatement) -> None:
    manager = context.catalogs
    if statement.system:
        dropped = manager.drop_system_function(statement.name[-1])
    else:
        path = manager.qualify(statement.name)
        dropped = manager.drop_function(path, temporary=statement.temporary)
    if not dropped and not statement.if_exists:
        raise _no_function(context, statement.name)


def _no_function(context: StatementContext, name: sql.Name) -> ValidationError:
    return ValidationError(
        f"function '{'.'.join(name)}' does not exist",
        hint=did_you_mean(name[-1], context.catalogs.functions())
        or "SHOW USER FUNCTIONS lists the user functions",
    )


def _check_language(language: str) -> None:
    if language.upper() != "PYTHON":
        raise UnsupportedOperationError(
            f"{language} functions are not supported",
            detail="there is no JVM to call it",
            hint="write it in Python: CREATE FUNCTION f AS 'module.name' LANGUAGE PYTHON",
        )
