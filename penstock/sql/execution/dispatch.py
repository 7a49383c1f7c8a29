"""Dispatch of statements to their implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import UnsupportedOperationError
from penstock.sql.errors import SqlError
from penstock.sql.execution import (
    alter,
    ddl,
    describe,
    explaining,
    jobs,
    queries,
    session,
    show,
)
from penstock.sql.execution.parsing import parse_one
from penstock.sql.parse import statements as sql
from penstock.sql.parse.locating import locate

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext
    from penstock.sql.results.table_result import TableResult

_ACTIONS: dict[type[sql.Statement], Callable[[StatementContext, Any], TableResult]] = {
    sql.AlterDatabaseStatement: ddl.alter_database,
    sql.AlterFunctionStatement: ddl.alter_function,
    sql.AlterTableStatement: alter.alter_table,
    sql.AlterViewStatement: alter.alter_view,
    sql.CreateCatalogStatement: ddl.create_catalog,
    sql.CreateDatabaseStatement: ddl.create_database,
    sql.CreateFunctionStatement: ddl.create_function,
    sql.CreateTableStatement: ddl.create_table,
    sql.CreateViewStatement: ddl.create_view,
    sql.DescribeStatement: describe.describe,
    sql.DropStatement: ddl.drop,
    sql.ExplainStatement: explaining.explain,
    sql.InsertStatement: queries.insert,
    sql.JobControlStatement: jobs.stop,
    sql.QueryStatement: queries.select,
    sql.ResetStatement: session.reset,
    sql.SetStatement: session.set_option,
    sql.ShowStatement: show.show,
    sql.StatementSetBlock: queries.statement_set,
    sql.UseStatement: session.use,
}
_PLANNED = (sql.QueryStatement, sql.InsertStatement, sql.StatementSetBlock, sql.ExplainStatement)


def execute(context: StatementContext, text: str) -> TableResult:
    """Carry out one statement."""
    return execute_statement(context, parse_one(text))


def execute_statement(context: StatementContext, statement: sql.Statement) -> TableResult:
    """Carry out a statement that was parsed."""
    action = _ACTIONS.get(type(statement))
    if action is None:
        raise _refused(statement)
    try:
        return action(context, statement)
    except SqlError as error:
        if not isinstance(statement, _PLANNED):  # a plan knows its places
            locate(error, statement.source, statement.text)
        raise


def _refused(statement: sql.Statement) -> UnsupportedOperationError:
    if isinstance(statement, sql.DeleteStatement):
        return UnsupportedOperationError(
            f"{statement.kind} is not supported",
            detail="no connector supports row-level changes",
            hint="use INSERT INTO a table with a primary key, which replaces its rows",
        )
    if isinstance(statement, sql.TruncateStatement):
        return UnsupportedOperationError(
            "TRUNCATE TABLE is not supported",
            hint="INSERT OVERWRITE replaces the content of a filesystem table",
        )
    return UnsupportedOperationError(
        f"{type(statement).__name__.removesuffix('Statement')} is not supported"
    )
