"""What all elections do alike: a thread that takes part, and what is known of its success."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from penstock.jobmanager.high_availability.election import Candidate, Contender
from penstock.jobmanager.high_availability.leadership import Leadership


class ElectionThread(ABC):
    """Takes part in an election in a thread of its own, from `start` to `close`."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._leadership: Leadership | None = None

    def start(self, candidate: Candidate, contender: Contender) -> None:
        """Take part, until `close`."""
        self._leadership = Leadership(contender)
        self._prepare()
        self._thread = threading.Thread(
            target=self._run,
            args=(candidate, self._leadership),
            name="penstock-election",
            daemon=True,
        )
        self._thread.start()

    def _prepare(self) -> None:
        """Get ready, before the thread runs."""

    @abstractmethod
    def _run(self, candidate: Candidate, leadership: Leadership) -> None:
        """Take part until told to stop."""

    @property
    def token(self) -> int | None:
        """The token of this candidate while it leads."""
        return None if self._leadership is None else self._leadership.token

    def close(self) -> None:
        """Take part no more: the contender is told, then the next one may lead."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
