"""What the REST API knows of a session: its Dispatcher, and how it is looked at and ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

PROGRAM = (
    "penstock session"  # by which the command line tells sessions from other processes with jobs
)


class Session(Protocol):
    """A process that takes jobs. Methods may be called from any thread."""

    def submit(self, submission: Mapping[str, Any]) -> str:
        """Start the job of a submission, which is JSON data, and return its id."""

    def ignored_options(self, submission: Mapping[str, Any]) -> list[str]:
        """Return the options of a submission that have no effect, as they are the session's."""

    def describe(self) -> dict[str, Any]:
        """Return what there is to tell about the session, as JSON data."""

    def shut_down(self, *, keeps_jobs: bool) -> None:
        """End the process, soon: all jobs are cancelled, or left for another JobManager to go on with. Returns at once."""
