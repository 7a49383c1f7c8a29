"""SHOW JOBS, STOP JOB, DESCRIBE JOB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.options import SAVEPOINT_DIR
from penstock.sql.execution.started_jobs import StartedJob
from penstock.sql.parse import statements as sql
from penstock.sql.results import table_result
from penstock.sql.results.table_result import STRING, TableResult
from penstock.sql.types import LocalZonedTimestampType

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


def show(context: StatementContext) -> TableResult:
    """Return the jobs that statements started."""
    return _result(context, context.jobs.all())


def describe(context: StatementContext, number: str) -> TableResult:
    """Return one job."""
    return _result(context, {number: context.jobs.find(number)})


def _result(context: StatementContext, jobs: Mapping[str, StartedJob]) -> TableResult:
    rows = [
        (number, job.name, job.client.get_job_status().result().name, job.started)
        for number, job in jobs.items()
    ]
    names = ["job id", "job name", "status", "start time"]
    types = [STRING, STRING, STRING, LocalZonedTimestampType(3)]
    return table_result.of_rows(names, types, rows, context.config.zone)


def stop(context: StatementContext, statement: sql.JobControlStatement) -> TableResult:
    """Cancel a job, or stop it with a savepoint."""
    job = context.jobs.find(statement.job_id)
    if statement.savepoint or statement.drain:
        path = job.client.stop_with_savepoint(statement.drain, _target(context)).result()
        return table_result.of_texts("savepoint path", [path])
    job.client.cancel().result()
    return table_result.ok()


def _target(context: StatementContext) -> str | None:
    """Return where savepoints go by what is set now; None if nothing is: where they went when the job was started."""
    target: str | None = context.config.effective().get(SAVEPOINT_DIR)
    return target
