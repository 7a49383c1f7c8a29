"""JobStatus: where a job is in its life."""

from __future__ import annotations

import enum


class JobStatus(enum.Enum):
    """Where a job is in its life.

    CREATED -> RUNNING -> FINISHED is the normal path. A failure goes RUNNING -> FAILING -> RESTARTING -> RUNNING, or to FAILED
    if the restart strategy allows no restart; cancelling goes CANCELLING -> CANCELED.
    """

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over for good."""
        return self in {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}

    def is_terminal_state(self) -> bool:
        """Whether the job has ended in this process: a suspended job may be resumed in another one."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()


__all__ = ["JobStatus"]
