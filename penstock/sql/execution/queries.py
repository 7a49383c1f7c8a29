"""SELECT, INSERT and statement sets: the statements that start jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.options import table as options
from penstock.sql.execution import jobs
from penstock.sql.logical.nodes import LogicalNode, LogicalSink
from penstock.sql.parse import statements as sql
from penstock.sql.results.printing import ResultTable
from penstock.sql.results.resolved_schema import ResolvedSchema
from penstock.table import table_result
from penstock.table.result_kind import ResultKind
from penstock.table.table_result import JobRows, TableResult

if TYPE_CHECKING:
    from penstock.table.table_environment import TableEnvironment


def select(environment: TableEnvironment, statement: sql.QueryStatement) -> TableResult:
    """Start a query and return its rows."""
    return run(environment, environment.planning.query(statement))


def run(environment: TableEnvironment, node: LogicalNode) -> TableResult:
    """Start the job of a plan and return its rows."""
    rows, client = environment.planning.run_query(node)
    jobs.remember(environment, "collect", client)
    config = environment.get_config()
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


def insert(environment: TableEnvironment, statement: sql.InsertStatement) -> TableResult:
    """Start a job that writes a table."""
    return write(environment, [environment.planning.insert(statement)])


def statement_set(environment: TableEnvironment, statement: sql.StatementSetBlock) -> TableResult:
    """Start one job that writes several tables."""
    return write(environment, [environment.planning.insert(each) for each in statement.inserts])


def write(environment: TableEnvironment, writes: Sequence[LogicalSink]) -> TableResult:
    """Start the job of INSERTs."""
    names = [environment.name_of(each.table.path) for each in writes]
    job_name = f"insert-into_{','.join(names)}"
    client = environment.planning.run_inserts(writes, job_name)
    jobs.remember(environment, job_name, client)
    result = table_result.of_inserts(numbered(names), client)
    if environment.get_config().effective().get(options.DML_SYNC):
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
