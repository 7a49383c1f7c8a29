"""The jobs that statements of one TableEnvironment started."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from penstock.common.job_client import JobClient
from penstock.sql.errors import ValidationError, did_you_mean


@dataclass(frozen=True, slots=True)
class StartedJob:
    """A job with its name and when it was started."""

    name: str
    client: JobClient
    started: dt.datetime


class StartedJobs:
    """Started jobs by id, in the order in which they were started."""

    def __init__(self) -> None:
        self._jobs: dict[str, StartedJob] = {}

    def add(self, name: str, client: JobClient) -> None:
        """Note a job, so that statements can name it."""
        job = StartedJob(name, client, dt.datetime.now(dt.UTC))
        self._jobs[str(client.get_job_id())] = job

    def all(self) -> dict[str, StartedJob]:
        """Return all jobs."""
        return dict(self._jobs)

    def find(self, number: str) -> StartedJob:
        """Return a job; reject an id that none has."""
        if number not in self._jobs:
            raise ValidationError(
                f"this session has no job '{number}'",
                hint=did_you_mean(number, self._jobs) or "SHOW JOBS lists the jobs",
            )
        return self._jobs[number]
