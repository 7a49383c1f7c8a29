"""The interface of a session for the REST API: submit jobs, describe it, shut it down."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.jobmanager.dispatcher.submission import Submission

PROGRAM = "penstock session"  # distinguishes sessions from other processes with jobs


class JobSession(Protocol):
    """A process that accepts jobs. Methods may be called from any thread."""

    def submit(self, submission: Submission) -> str:
        """Start the job of a submission, and return its id."""

    def ignored_options(self, submission: Submission) -> list[str]:
        """Return the options of a submission that have no effect because the session sets them."""

    def describe(self) -> dict[str, Any]:
        """Return the description of the session as JSON data."""

    def shut_down(self, *, keeps_jobs: bool) -> None:
        """Start to shut the process down: its jobs are cancelled, or suspended for another JobManager to resume. Returns at once."""
