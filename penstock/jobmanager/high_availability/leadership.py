"""Notifies a contender of gained and lost leadership, in order."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from penstock.jobmanager.high_availability.election import LeaderContender

_log = logging.getLogger(__name__)


class LeadershipState:
    """Whether this process is the leader, and until when that is certain. The election sets it, the contender is notified.

    An election that may lose its service sets the time until which leadership is certain; when it passes, a dedicated thread notifies
    the contender.
    """

    def __init__(
        self, contender: LeaderContender, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._contender = contender
        self._clock = clock
        self._changed = threading.Condition()
        self._token: int | None = None
        self._until = math.inf
        self._notified: int | None = None  # the token of the contender's last notification
        self._closed = False
        self._thread = threading.Thread(
            target=self._notify_loop, name="penstock-leadership", daemon=True
        )
        self._thread.start()

    @property
    def token(self) -> int | None:
        """The token while this process is the leader."""
        with self._changed:
            return self._token if self._clock() < self._until else None

    def grant(self, token: int, until: float = math.inf) -> None:
        """Gain leadership with this token."""
        with self._changed:
            self._token, self._until = token, until
            self._changed.notify_all()

    def extend(self, until: float) -> None:
        """Extend the certain time. No effect if it has passed."""
        with self._changed:
            if self._clock() < self._until:
                self._until = until
                self._changed.notify_all()

    def shorten(self, seconds: float) -> None:
        """Shorten the certain time to this long from now."""
        with self._changed:
            self._until = min(self._until, self._clock() + seconds)
            self._changed.notify_all()

    def revoke(self) -> None:
        """Lose leadership."""
        with self._changed:
            self._token, self._until = None, math.inf
            self._changed.notify_all()

    def close(self) -> None:
        """Lose leadership and wait until the contender was notified."""
        with self._changed:
            self._token, self._until, self._closed = None, math.inf, True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _notify_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_news, self._left())
                if self._clock() >= self._until:
                    _log.warning("leadership was not renewed in time and is lost")
                    self._token, self._until = None, math.inf
                token = self._token
                if self._closed and self._notified is None:
                    return
            if self._notified is not None and self._notified != token:
                self._notified = None
                self._call(self._contender.on_revoked)
            elif self._notified is None and token is not None:
                self._notified = token
                self._call(partial(self._contender.on_granted, token))

    def _has_news(self) -> bool:
        over = self._clock() >= self._until
        return over or self._token != self._notified or (self._closed and self._notified is None)

    def _left(self) -> float | None:
        return None if math.isinf(self._until) else max(0.0, self._until - self._clock())

    def _call(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception:  # noqa: BLE001 - the election continues
            _log.exception("handling a change of leadership failed")
