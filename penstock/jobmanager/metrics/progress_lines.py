"""The lines that tell the progress of a job in a session, kept for its clients."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.jobmanager.metrics.progress import print_line

_KEPT = 1000


@dataclass(frozen=True, slots=True)
class ProgressLines:
    """The last lines of a job. Lines are numbered from 0; `first` is the number of the first one that is kept."""

    first: int = 0
    lines: tuple[str, ...] = ()

    @property
    def next(self) -> int:
        """The number of the next line."""
        return self.first + len(self.lines)

    def since(self, number: int) -> ProgressLines:
        """Return the lines from a number on.

        >>> ProgressLines(3, ("d", "e")).since(4), ProgressLines(3, ("d", "e")).since(0)
        (ProgressLines(first=4, lines=('e',)), ProgressLines(first=3, lines=('d', 'e')))
        """
        start = min(max(number, self.first), self.next)
        return ProgressLines(start, self.lines[start - self.first :])


class ProgressRecorder:
    """Keeps the last lines of a job, and prints each into the log of the session. May be used from any thread."""

    def __init__(self, kept: int = _KEPT, echo: Callable[[str], None] = print_line) -> None:
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=kept)
        self._count = 0
        self._echo = echo

    def say(self, line: str) -> None:
        """Add a line."""
        with self._lock:
            self._lines.append(line)
            self._count += 1
        self._echo(line)

    def lines(self) -> ProgressLines:
        """Return the lines that are kept."""
        with self._lock:
            return ProgressLines(self._count - len(self._lines), tuple(self._lines))
