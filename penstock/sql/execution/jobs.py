"""The jobs that an environment started: SHOW JOBS, STOP JOB, DESCRIBE JOB."""

from __future__ import annotations

import datetime as dt
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.common.job_client import JobClient
from penstock.options import SAVEPOINT_DIR
from penstock.sql.errors import ValidationError, did_you_mean
from penstock.sql.parse import statements as sql
from penstock.sql.types import LocalZonedTimestampType
from penstock.table import table_result
from penstock.table.table_result import STRING, TableResult

if TYPE_CHECKING:
    from penstock.table.table_environment import TableEnvironment


@dataclass(frozen=True, slots=True)
class StartedJob:
    """A job with its name and when it was started."""

    name: str
    client: JobClient
    started: dt.datetime


_started: weakref.WeakKeyDictionary[TableEnvironment, dict[str, StartedJob]] = (
    weakref.WeakKeyDictionary()
)


def remember(environment: TableEnvironment, name: str, client: JobClient) -> None:
    """Note a job, so that statements can name it."""
    job = StartedJob(name, client, dt.datetime.now(dt.UTC))
    _started.setdefault(environment, {})[str(client.get_job_id())] = job


def show(environment: TableEnvironment) -> TableResult:
    """Return the jobs that this environment started."""
    return _result(environment, _started.get(environment, {}))


def describe(environment: TableEnvironment, number: str) -> TableResult:
    """Return one job."""
    return _result(environment, {number: _find(environment, number)})


def _result(environment: TableEnvironment, jobs: Mapping[str, StartedJob]) -> TableResult:
    rows = [
        (number, job.name, job.client.get_job_status().result().name, job.started)
        for number, job in jobs.items()
    ]
    names = ["job id", "job name", "status", "start time"]
    types = [STRING, STRING, STRING, LocalZonedTimestampType(3)]
    return table_result.of_rows(names, types, rows, environment.get_config().zone)


def stop(environment: TableEnvironment, statement: sql.JobControlStatement) -> TableResult:
    """Cancel a job, or stop it with a savepoint."""
    job = _find(environment, statement.job_id)
    if statement.savepoint or statement.drain:
        path = job.client.stop_with_savepoint(statement.drain, _target(environment)).result()
        return table_result.of_texts("savepoint path", [path])
    job.client.cancel().result()
    return table_result.ok()


def _target(environment: TableEnvironment) -> str | None:
    """Return where savepoints go by what is set now; None if nothing is: where they went when the job was started."""
    target: str | None = environment.get_config().effective().get(SAVEPOINT_DIR)
    return target


def _find(environment: TableEnvironment, number: str) -> StartedJob:
    known = _started.get(environment, {})
    if number not in known:
        raise ValidationError(
            f"this session has no job '{number}'",
            hint=did_you_mean(number, known) or "SHOW JOBS lists the jobs",
        )
    return known[number]
