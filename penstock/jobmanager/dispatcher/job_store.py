"""Where a Dispatcher keeps the jobs that it has taken, until they have ended: in memory, or on storage that a standby reads."""

from __future__ import annotations

import json
import logging
import threading
from typing import Protocol

from penstock.checkpoint.storage import CheckpointStorage
from penstock.errors import PenstockError
from penstock.jobmanager.dispatcher.submission import Submission

_log = logging.getLogger(__name__)

_SUFFIX = ".json"


class JobStore(Protocol):
    """The jobs that were taken and have not ended. Methods may be called from any thread."""

    def put(self, submission: Submission) -> None:
        """Keep a job; when this returns, it survives whatever the store survives. One with the same id is replaced."""

    def remove(self, job_id: str) -> None:
        """Forget a job, if it is there."""

    def all(self) -> list[Submission]:
        """Return the jobs, the oldest first."""


class MemoryJobStore:
    """A job store that lives as long as its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Submission] = {}

    def put(self, submission: Submission) -> None:
        """Keep a job."""
        with self._lock:
            self._jobs[submission.job_id] = submission

    def remove(self, job_id: str) -> None:
        """Forget a job."""
        with self._lock:
            self._jobs.pop(job_id, None)

    def all(self) -> list[Submission]:
        """Return the jobs, the oldest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=_age)


class FileJobStore:
    """A job store on storage that several JobManagers see: a file for each job, below `high-availability.storageDir`.

    A file is written whole or not at all. Only the leader writes; one that has lost the leadership and does not know it yet may
    remove the file of a job that has ended, which is as true for its successor, or put one whose client got no answer.
    """

    def __init__(self, directory: str) -> None:
        self._storage = CheckpointStorage(directory)

    def put(self, submission: Submission) -> None:
        """Keep a job."""
        content = json.dumps(submission.to_json()).encode()
        self._storage.write_atomic(_name(submission.job_id), content)

    def remove(self, job_id: str) -> None:
        """Forget a job."""
        self._storage.delete(_name(job_id))

    def all(self) -> list[Submission]:
        """Return the jobs, the oldest first. One that cannot be read is left where it is, and told of."""
        found = []
        for name in self._storage.list():
            if not name.endswith(_SUFFIX):
                continue
            try:
                found.append(Submission.from_json(json.loads(self._storage.read(name))))
            except (PenstockError, ValueError, TypeError) as error:
                _log.error("the job in %s cannot be read: %s", self._storage.path(name), error)
        return sorted(found, key=_age)


def _name(job_id: str) -> str:
    return f"{job_id}{_SUFFIX}"


def _age(submission: Submission) -> tuple[int, str]:
    return submission.submitted_ms, submission.job_id
