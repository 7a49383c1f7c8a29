"""The progress of a job as lines: on standard error where there is no terminal, and for the clients of a session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.jobmanager.metrics.progress import (
    CheckpointReport,
    JobEnd,
    JobStart,
    QuietProgress,
    print_line,
)
from penstock.jobmanager.metrics.progress_texts import (
    RunTotals,
    checkpoint_text,
    page_text,
    start_text,
)

#: Calls a function with the address of the web page: at once if it is known, else when it is, from another thread.
WhenServed = Callable[[Callable[[str], None]], None]


def not_served(_: Callable[[str], None]) -> None:
    """Call nothing: there is no web page."""


class LineProgress(QuietProgress):
    """Says what runs and where at the start, and what it came to at the end; with `checkpoints` also each completed checkpoint.

    Lines go to `say`, by default to standard error: output of the program goes to standard output, so they do not mix with it.
    """

    def __init__(
        self,
        name: str,
        where: str,
        *,
        checkpoints: bool = False,
        when_served: WhenServed = not_served,
        say: Callable[[str], None] = print_line,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(say)
        self._name = name
        self._where = where
        self._checkpoints = checkpoints
        self._when_served = when_served
        self._clock = clock
        self._totals = RunTotals(clock())
        #: The page is announced by another thread: never after the end of the job
        self._lock = threading.Lock()
        self._page: str | None = None
        self._started: JobStart | None = None
        self._closed = False

    def on_start(self, start: JobStart) -> None:
        """Print what runs and where, with the page if it is served already."""
        self._when_served(self._serve)
        with self._lock:
            self._say(start_text(self._name, start, self._where, self._page))
            self._started = start

    def _serve(self, page: str) -> None:
        with self._lock:
            self._page = page
            if self._started is not None and not self._closed:
                self._say(page_text(self._name, self._started, page))

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Print a line, if wanted."""
        self._totals.add(report, self._clock())
        if self._checkpoints:
            self._say(checkpoint_text(self._name, report))

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Print the cause in short."""
        self._totals.restarts = restarts
        super().on_restart(restarts, delay_ms, error)

    def close(self, end: JobEnd) -> None:
        """Print the summary."""
        with self._lock:
            self._closed = True
            self._say(self._totals.end_text(self._name, end, self._clock()))
