"""The progress of a job in a session, printed by its client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from penstock.jobmanager.metrics.progress import print_line


class RemoteProgress:
    """Prints the lines that a session has about a job, each once. May be used from any thread."""

    def __init__(self, say: Callable[[str], None] = print_line) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._start_ms = 0
        self._next = 0

    def query(self) -> str:
        """Return the part of a request that asks for the next lines."""
        with self._lock:
            return f"line={self._next}&start_ms={self._start_ms}"

    @property
    def started(self) -> bool:
        """Whether a line was printed."""
        return self._next > 0

    def show(self, answer: Mapping[str, Any]) -> None:
        """Print the new lines of an answer."""
        with self._lock:
            if answer["start_ms"] != self._start_ms:  # another JobManager has resumed the job
                self._start_ms, self._next = answer["start_ms"], 0
            first, lines = answer["first_line"], answer["lines"]
            if first > self._next:
                self._say(f"... {first - self._next:,} lines about the progress are not kept")
                self._next = first
            for line in lines[self._next - first :]:
                self._say(line)
            self._next = max(self._next, first + len(lines))
