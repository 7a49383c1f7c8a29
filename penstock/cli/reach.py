"""Finds the job that a command names, in the processes of this user or in a process at a given address."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import JobRequestError
from penstock.rest import processes
from penstock.rest.client.rest_client import RestClient, ServerUnreachableError
from penstock.rest.security.tokens import TOKEN_VARIABLE

RUNNING_STATES = frozenset(
    {"CREATED", "RUNNING", "FAILING", "RESTARTING", "CANCELLING", "RECONCILING"}
)

_TIMEOUT_S = 10.0  # for each process of this user


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job with its entry in `/jobs/overview` and the client of its process."""

    client: RestClient
    place: str
    overview: dict[str, Any]

    @property
    def id(self) -> str:
        """The job's id."""
        return str(self.overview["jid"])

    @property
    def name(self) -> str:
        """The job's name, on one line."""
        return " ".join(str(self.overview["name"]).split())

    @property
    def state(self) -> str:
        """The job's state."""
        return str(self.overview["state"])

    @property
    def runs(self) -> bool:
        """Whether the job has not ended."""
        return self.state in RUNNING_STATES

    @property
    def path(self) -> str:
        """The path of the job in the REST API."""
        return f"/jobs/{self.id}"

    def __str__(self) -> str:
        return f"{self.id}  {self.state:<10}  {self.name}  ({self.place})"


def client_of(address: str, token: str | None = None) -> RestClient:
    """Return a client of the process at an address; the tokens of this user's processes are known."""
    plain = RestClient(address)
    token = token or os.environ.get(TOKEN_VARIABLE)
    own = next((each for each in processes.read_all() if each.address == plain.address), None)
    if own is None:
        return RestClient(address, token)
    return RestClient(address, token or own.token, trusted=own.certificate)


def find_jobs(address: str | None = None, token: str | None = None) -> list[FoundJob]:
    """Return the jobs of the process at an address, or of all processes of this user that answer."""
    if address is not None:
        client = client_of(address, token)
        return _jobs_of(client, client.address)
    found: list[FoundJob] = []
    asked: set[str] = set()
    for record in processes.read_all():
        place = f"pid {record.pid} at {record.address}"
        client = RestClient(
            record.address, record.token, timeout_s=_TIMEOUT_S, trusted=record.certificate
        )
        try:
            jobs = _jobs_of(client, place)
            if (
                client.address not in asked
            ):  # otherwise it is a standby whose leader has answered already
                found += jobs
            asked.add(client.address)
        except ServerUnreachableError:  # it has just ended
            continue
        except JobRequestError as error:
            sys.stderr.write(f"penstock: pid {record.pid} is skipped: {error.message}\n")
    return found


def _jobs_of(client: RestClient, place: str) -> list[FoundJob]:
    return [FoundJob(client, place, each) for each in client.get("/jobs/overview")["jobs"]]


def select_job(jobs: Sequence[FoundJob], wanted: str) -> FoundJob:
    """Return the job with this id, name or id prefix; running jobs are preferred to finished ones."""
    ways: tuple[Callable[[FoundJob], bool], ...] = (
        lambda job: job.id == wanted.lower(),
        lambda job: job.overview["name"] == wanted,
        lambda job: job.id.startswith(wanted.lower()),
    )
    for matches in ways if wanted else ():
        found = [job for job in jobs if matches(job)]
        found = [job for job in found if job.runs] or found
        if len(found) == 1:
            return found[0]
        if found:
            raise JobRequestError(
                f"'{wanted}' matches {len(found)} jobs",
                detail=_table(found),
                hint="use the job id, or select the process with -m host:port",
            )
    running = [job for job in jobs if job.runs]
    raise JobRequestError(
        f"unknown job '{wanted}'",
        detail=_table(running) if running else "no running jobs",
        hint="'penstock list -a' includes finished jobs; -m host:port asks a process on another machine",
    )


def directory_of(path_or_job: str) -> str:
    """Return the checkpoint directory of a job, given by id or name; a path is returned unchanged."""
    if "/" in path_or_job or Path(path_or_job).exists():
        return path_or_job
    job = select_job(find_jobs(), path_or_job)
    directory = job.client.get(job.path)["penstock"]["checkpoints"]
    if directory is None:
        raise JobRequestError(
            f"job '{job.name}' has no checkpoint directory", hint="set execution.checkpointing.dir"
        )
    return str(directory)


def _table(jobs: Sequence[FoundJob]) -> str:
    return "".join(f"\n  {job}" for job in jobs)
