"""The log lines that a JobManager has: of itself and of all workers, the last ones of every job, by number."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.logs.lines import LogLine

LINES_OF_A_JOB: Final = 10_000
CHARACTERS_OF_A_JOB: Final = 8_000_000
JOBS: Final = 50  # the last ones that lines came from
JOBMANAGER: Final = "jobmanager"
LOCAL: Final = "local"  # the taskmanager of a process that runs its tasks itself


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line with its number: later ones have higher numbers."""

    number: int
    line: LogLine

    @property
    def source(self) -> str:
        """Which process it came from."""
        scope = self.line.scope
        return scope.taskmanager or (JOBMANAGER if scope.vertex_id is None else LOCAL)


@dataclass(slots=True)
class _Page:
    entries: deque[LogEntry]
    characters: int = 0
    left_out: int = 0


class LogBuffer:
    """Keeps lines. Any thread may add and read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: dict[str, _Page] = {}  # by job id; "" is for lines of no job
        self._next = 1

    def add(self, line: LogLine) -> None:
        """Keep a line; the oldest ones of its job go if there are too many."""
        size = len(line.message) + len(line.exception or "")
        with self._lock:
            job_id = line.scope.job_id or ""
            page = self._pages.pop(job_id, None) or _Page(deque())
            self._pages[job_id] = page  # the last is the one that was written to last
            page.entries.append(LogEntry(self._next, line))
            page.characters += size
            self._next += 1
            while len(page.entries) > LINES_OF_A_JOB or page.characters > CHARACTERS_OF_A_JOB:
                gone = page.entries.popleft().line
                page.characters -= len(gone.message) + len(gone.exception or "")
                page.left_out += 1
            while len(self._pages) > JOBS:
                del self._pages[next(iter(self._pages))]

    def entries(
        self, wanted: Callable[[LogEntry], bool] = lambda _: True, *, job_id: str | None = None
    ) -> list[LogEntry]:
        """Return the lines that are wanted, of one job or of all, in their order."""
        with self._lock:
            pages = [self._pages.get(job_id)] if job_id is not None else self._pages.values()
            found = [entry for page in pages if page is not None for entry in page.entries]
        return sorted(filter(wanted, found), key=lambda entry: entry.number)

    def left_out(self, job_id: str) -> int:
        """Return how many older lines of a job are no longer kept."""
        with self._lock:
            page = self._pages.get(job_id)
            return 0 if page is None else page.left_out


_book = LogBuffer()


def log_book() -> LogBuffer:
    """Return the book of this process."""
    return _book
