"""The job store of a Dispatcher: its jobs until they have ended, in memory or on storage that standbys read."""

from __future__ import annotations

import json
import logging
import threading
from typing import Protocol

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import PenstockError
from penstock.jobmanager.dispatcher.submission import Submission

_log = logging.getLogger(__name__)

_SUFFIX = ".json"


class JobStore(Protocol):
    """The jobs that were accepted and have not ended. Methods may be called from any thread."""

    def put(self, submission: Submission) -> None:
        """Store a job durably, as far as the store is durable. A job with the same id is replaced."""

    def remove(self, job_id: str) -> None:
        """Remove a job, if it exists."""

    def all(self) -> list[Submission]:
        """Return the jobs, the oldest first."""


class MemoryJobStore:
    """A job store that lives as long as its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Submission] = {}

    def put(self, submission: Submission) -> None:
        """Store a job."""
        with self._lock:
            self._jobs[submission.job_id] = submission

    def remove(self, job_id: str) -> None:
        """Remove a job."""
        with self._lock:
            self._jobs.pop(job_id, None)

    def all(self) -> list[Submission]:
        """Return the jobs, the oldest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=_age)


class FileJobStore:
    """A job store on storage that several JobManagers see: a file for each job, below `high-availability.storageDir`.

    Files are written atomically. Only the leader writes. A leader that has lost leadership and does not know it yet may still remove
    the file of an ended job, which is correct for its successor too, or add a job whose client got no response.
    """

    def __init__(self, directory: str) -> None:
        self._storage = CheckpointFileSystem(directory)

    def put(self, submission: Submission) -> None:
        """Store a job."""
        content = json.dumps(submission.to_json()).encode()
        self._storage.write_atomic(_name(submission.job_id), content)

    def remove(self, job_id: str) -> None:
        """Remove a job."""
        self._storage.delete(_name(job_id))

    def all(self) -> list[Submission]:
        """Return the jobs, the oldest first. A file that cannot be read is kept and logged."""
        found = []
        for name in self._storage.list():
            if not name.endswith(_SUFFIX):
                continue
            try:
                found.append(Submission.from_json(json.loads(self._storage.read(name))))
            except (PenstockError, ValueError, TypeError) as error:
                _log.error("cannot read the job in %s: %s", self._storage.path(name), error)
        return sorted(found, key=_age)


def _name(job_id: str) -> str:
    return f"{job_id}{_SUFFIX}"


def _age(submission: Submission) -> tuple[int, str]:
    return submission.submitted_ms, submission.job_id
