"""The failure history of a job: the last failures, each with its time and subtask."""

from __future__ import annotations

from dataclasses import dataclass

KEPT_FAILURES = 16  # as many as Flink keeps (web.exception-history-size)


@dataclass(frozen=True, slots=True)
class FailureEntry:
    """One failure of a job.

    `name` is the class of the exception, `stacktrace` its text. `vertex` and `subtask` are where it occurred, if in a
    subtask, and `attempt` is the attempt; `task` is its name. `tasks` is the number of subtasks that were restarted for it, None: all.
    """

    timestamp: int
    name: str
    stacktrace: str
    vertex: str | None = None
    subtask: int | None = None
    attempt: int | None = None
    task: str | None = None
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class FailureHistory:
    """The last failures of a job, oldest first, and their total number."""

    entries: tuple[FailureEntry, ...] = ()
    count: int = 0

    def with_entry(self, entry: FailureEntry) -> FailureHistory:
        """Return the history after one more failure."""
        return FailureHistory((*self.entries, entry)[-KEPT_FAILURES:], self.count + 1)
