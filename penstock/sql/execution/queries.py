"""SELECT, INSERT and statement sets: the statements that start jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.job_client import JobClient
from penstock.options import table as options
from penstock.sql.logical.nodes import LogicalNode, LogicalSink
from penstock.sql.parse import statements as sql
from penstock.sql.results import table_result
from penstock.sql.results.printing import ResultTable
from penstock.sql.results.resolved_schema import ResolvedSchema
from penstock.sql.results.result_kind import ResultKind
from penstock.sql.results.table_result import JobRows, TableResult

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


def select(context: StatementContext, statement: sql.QueryStatement) -> TableResult:
    """Start a query and return its rows."""
    return run(context, context.planner.query(statement))


def run(context: StatementContext, node: LogicalNode) -> TableResult:
    """Start the job of a plan and return its rows."""
    rows, client = context.planner.run_query(node)
    context.jobs.add("collect", client)
    config = context.config
    schema = ResolvedSchema.of_plan(node.schema)
    tableau = ResultTable(
        schema,
        zone=config.zone,
        kinds=not config.is_batch,
        by_type=not config.is_batch,
        widest=config.effective().get(options.DISPLAY_WIDTH),
    )
    return TableResult(
        ResultKind.SUCCESS_WITH_CONTENT, schema, JobRows(rows), client=client, lines=tableau.lines
    )


def run_columns(
    context: StatementContext, node: LogicalNode, *, to_the_end: str | None = None
) -> tuple[Any, JobClient]:
    """Start the job of a plan and return its rows in columns; `to_the_end` is the method that waits for all of them."""
    frames, client = context.planner.run_columns(node, to_the_end=to_the_end)
    context.jobs.add("collect", client)
    return frames, client


def insert(context: StatementContext, statement: sql.InsertStatement) -> TableResult:
    """Start a job that writes a table."""
    return write(context, [context.planner.insert(statement)])


def statement_set(context: StatementContext, statement: sql.StatementSetBlock) -> TableResult:
    """Start one job that writes several tables."""
    return write(context, [context.planner.insert(each) for each in statement.inserts])


def write(context: StatementContext, writes: Sequence[LogicalSink]) -> TableResult:
    """Start the job of INSERTs."""
    paths = [each.table.path for each in writes]
    names = [f"{each.catalog}.{each.database}.{each.name}" for each in paths]
    job_name = f"insert-into_{','.join(names)}"
    client = context.planner.run_inserts(writes, job_name)
    context.jobs.add(job_name, client)
    result = table_result.of_inserts(numbered(names), client)
    if context.config.effective().get(options.DML_SYNC):
        result.wait()
    return result


def numbered(names: Sequence[str]) -> list[str]:
    """Return names without repetition: a table may be written twice in a set.

    >>> numbered(["a", "b", "a"])
    ['a_1', 'b', 'a_2']
    """
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if names.count(name) == 1 else f"{name}_{seen[name]}")
    return found
