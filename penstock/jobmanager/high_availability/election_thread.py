"""The common base of elections: a thread that takes part, and its leadership."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from penstock.jobmanager.high_availability.election import Candidate, LeaderContender
from penstock.jobmanager.high_availability.leadership import LeadershipState


class ElectionThread(ABC):
    """Takes part in an election in its own thread, from `start` to `close`."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._leadership: LeadershipState | None = None

    def start(self, candidate: Candidate, contender: LeaderContender) -> None:
        """Take part in the election until `close`."""
        self._leadership = LeadershipState(contender)
        self._prepare()
        self._thread = threading.Thread(
            target=self._run,
            args=(candidate, self._leadership),
            name="penstock-election",
            daemon=True,
        )
        self._thread.start()

    def _prepare(self) -> None:
        """Prepare, before the thread starts."""

    @abstractmethod
    def _run(self, candidate: Candidate, leadership: LeadershipState) -> None:
        """Take part until the stop event is set."""

    @property
    def token(self) -> int | None:
        """The token of this candidate while it is the leader."""
        return None if self._leadership is None else self._leadership.token

    def close(self) -> None:
        """Leave the election: the contender is notified, then leadership is released."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
