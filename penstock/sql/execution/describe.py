"""DESCRIBE of tables, catalogs, databases and functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.catalogs.tables import (
    Column,
    ComputedColumn,
    MetadataColumn,
    ResolvedTable,
)
from penstock.sql.errors import ValidationError
from penstock.sql.execution import jobs
from penstock.sql.parse import statements as sql
from penstock.sql.results import table_result
from penstock.sql.results.resolved_schema import ResolvedColumn
from penstock.sql.results.table_result import STRING, TableResult
from penstock.sql.types import BooleanType

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext

ColumnRow = tuple[str, str, bool, str | None, str | None, str | None, str | None]


def describe(context: StatementContext, statement: sql.DescribeStatement) -> TableResult:
    """Carry out DESCRIBE."""
    if statement.kind == "CATALOG":
        return _catalog(context, statement)
    if statement.kind == "DATABASE":
        return _database(context, statement)
    if statement.kind == "FUNCTION":
        return _function(context, statement)
    if statement.kind == "JOB":
        return jobs.describe(context, statement.name[0])
    return rows_of_columns(column_rows(context, statement.name))


def rows_of_columns(rows: Sequence[ColumnRow]) -> TableResult:
    """Return the rows of DESCRIBE and SHOW COLUMNS; comments have a column of their own if there are any."""
    names = ["name", "type", "null", "key", "extras", "watermark"]
    types = [STRING, STRING, BooleanType(), STRING, STRING, STRING]
    if any(row[6] for row in rows):
        return table_result.of_rows([*names, "comment"], [*types, STRING], rows)
    return table_result.of_rows(names, types, [row[:6] for row in rows])


def column_rows(context: StatementContext, name: Sequence[str]) -> list[ColumnRow]:
    """Return the columns of a table or view, as DESCRIBE shows them."""
    found = context.catalogs.get(name)
    schema = context.planner.read(found.path).schema
    columns: Sequence[Column | None] = [None] * len(schema)
    key: tuple[str, ...] = ()
    watermark: tuple[str, Any, str] | None = None
    if isinstance(found, ResolvedTable):
        columns = found.columns
        key, watermark = found.primary_key or (), found.watermark
    rows: list[ColumnRow] = []
    for field, column in zip(schema, columns, strict=True):
        shown = ResolvedColumn(field.name, field.type.nullable(), field.time).shown_type
        rows.append(
            (
                field.name,
                shown,
                field.type.is_nullable,
                f"PRI({', '.join(key)})" if field.name in key else None,
                _extras(column),
                watermark[2] if watermark is not None and watermark[0] == field.name else None,
                None if column is None else column.comment,
            )
        )
    return rows


def _extras(column: Column | None) -> str | None:
    if isinstance(column, ComputedColumn):
        return f"AS {column.text}"
    if isinstance(column, MetadataColumn):
        source = f" FROM '{column.key}'" if column.key != column.name else ""
        return f"METADATA{source}{' VIRTUAL' if column.virtual else ''}"
    return None


def _facts(rows: list[tuple[str, str | None]], names: tuple[str, str]) -> TableResult:
    return table_result.of_rows(names, [STRING, STRING], rows)


def _catalog(context: StatementContext, statement: sql.DescribeStatement) -> TableResult:
    found = context.catalogs.catalog(statement.name[0])
    options = dict(found.options)
    kind = options.pop("type", "")
    rows: list[tuple[str, str | None]] = [
        ("name", found.name),
        ("type", kind),
        ("comment", found.comment or ""),
    ]
    if statement.extended:
        rows += [(f"option:{key}", value) for key, value in options.items()]
    return _facts(rows, ("info name", "info value"))


def _database(context: StatementContext, statement: sql.DescribeStatement) -> TableResult:
    catalog, name = context.catalogs.database_path(statement.name)
    found = context.catalogs.database(catalog, name)
    rows: list[tuple[str, str | None]] = [
        ("catalog name", catalog),
        ("database name", name),
        ("comment", found.comment or ""),
    ]
    if statement.extended:
        shown = ", ".join(f"{key}={value}" for key, value in found.options.items())
        rows.append(("options", f"({shown})"))
    return _facts(rows, ("info name", "info value"))


def _function(context: StatementContext, statement: sql.DescribeStatement) -> TableResult:
    from penstock.sql.execution.show import built_in_functions

    name = statement.name
    user = context.catalogs.find_function(name)
    built_in = len(name) == 1 and name[0].lower() in built_in_functions()
    if user is None and not built_in:
        raise ValidationError(f"function '{'.'.join(name)}' does not exist")
    system = len(name) == 1 and context.catalogs.has_system_function(name[0])
    rows: list[tuple[str, str | None]] = [
        ("is system function", str(user is None or system).lower()),
        ("is temporary", str(user is not None and system).lower()),
    ]
    if user is not None and statement.extended:
        rows += [
            ("kind", user.kind),
            ("is deterministic", str(user.deterministic).lower()),
            ("return type", ", ".join(map(str, user.result_types))),
        ]
    return _facts(rows, ("info name", "info value"))
