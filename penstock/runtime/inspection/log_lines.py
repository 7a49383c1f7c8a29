"""Keeps the last log lines of this process in memory.

Tasks log to wherever Spark's executors write, which may be a pipe, another user's file or an inaccessible machine.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from penstock.logs.handler import take_records
from penstock.logs.lines import TEXT
from penstock.runtime.inspection.requests import LogLines, LogTail

_KEPT_LINES: Final = 10_000
_KEPT_CHARACTERS: Final = 2_000_000


class LogMemory:
    """The last lines of a log, numbered from 1. Thread-safe.

    >>> memory = LogMemory()
    >>> for line in ("one", "two", "three"):
    ...     memory.add(line)
    >>> memory.tail(LogTail(lines=2))
    LogLines(lines=('two', 'three'), last=3, lost=0)
    >>> memory.tail(LogTail(after=2))
    LogLines(lines=('three',), last=3, lost=0)
    """

    def __init__(self, lines: int = _KEPT_LINES, characters: int = _KEPT_CHARACTERS) -> None:
        self._lock = threading.Lock()
        self._lines: deque[str] = deque()
        self._most_lines = lines
        self._most_characters = characters
        self._characters = 0
        self._last = 0

    def add(self, line: str) -> None:
        """Add a line; the oldest lines are dropped if there are too many."""
        line = line[: self._most_characters]
        with self._lock:
            self._lines.append(line)
            self._characters += len(line)
            self._last += 1
            while (
                len(self._lines) > self._most_lines or self._characters > self._most_characters
            ) and len(self._lines) > 1:
                self._characters -= len(self._lines.popleft())

    def tail(self, request: LogTail) -> LogLines:
        """Return the last lines. `lost` counts those after `after` that were dropped, or exceed the requested number."""
        with self._lock:
            lines, last = list(self._lines), self._last
        wanted = len(lines) if request.after is None else max(last - request.after, 0)
        shown = lines[max(len(lines) - min(wanted, request.lines), 0) :]
        lost = 0 if request.after is None else wanted - len(shown)
        return LogLines(tuple(shown), last, lost)


MEMORY = LogMemory()


def remember_log() -> None:
    """Start keeping the log lines of this process, whatever handlers are installed."""
    take_records("inspection", lambda line: MEMORY.add(line.in_format(TEXT)))
