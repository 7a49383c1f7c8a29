"""Requests and cancellation of a job by other threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.jobmanager.requests import Request

_POLL_S = 0.05


class Mailbox:
    """Queues requests of other threads for the job's own thread, and wakes it up if it waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        # Pending requests in order of arrival; none is added after `close`.
        self._waiting: list[Request] = []
        self._closed: Callable[[], Exception] | None = None
        self._wakers: list[Callable[[], None]] = []
        self.cancelled = False
        self.suspended = False
        self._at_once = False  # whether it was cancelled without waiting for the epoch under way
        self._ending = False

    # For other threads

    def add(self, request: Request) -> None:
        """Queue a request; if the job has ended, its result is an error."""
        with self._lock:
            if self._closed is None:
                self._waiting.append(request)
            else:
                request.result.set_exception(self._closed())
        self._wake_up()

    def cancel(self, *, graceful: bool = False) -> None:
        """Request the cancellation of the job; no effect once `settle` was called."""
        with self._lock:
            if self._ending:
                return
            self.cancelled = True
            self._at_once = self._at_once or not graceful
        self._wake_up()

    def suspend(self) -> None:
        """Request the suspension of the job, because another JobManager resumes it; no effect if it is cancelled already."""
        self.suspended = self.suspended or not self.cancelled
        self.cancel(graceful=True)

    def _wake_up(self) -> None:
        self._wake.set()
        for wake in self._wakers:
            wake()

    # For the job's own thread

    def on_interrupt(self, wake: Callable[[], None]) -> None:
        """Call a function on every new request or cancellation, in the requesting thread."""
        self._wakers.append(wake)

    def interrupted(self) -> bool:
        """Whether there is a pending request or cancellation."""
        self._wake.clear()  # cleared first: later requests set it again
        return self.cancelled or bool(self._waiting)

    def wait(self, seconds: float) -> None:
        """Wait, at most until a request arrives that `interrupted` has not seen."""
        self._wake.wait(seconds)

    def sleep(self, seconds: float) -> None:
        """Wait, at most until the job is cancelled."""
        until = time.monotonic() + seconds
        while not self.cancelled and (left := until - time.monotonic()) > 0:
            self._wake.wait(min(left, _POLL_S))
            self._wake.clear()

    def take(self) -> Request | None:
        """Return the oldest request whose future is not cancelled, if there is one."""
        with self._lock:
            while self._waiting:
                request = self._waiting.pop(0)
                if request.result.set_running_or_notify_cancel():
                    return request
        return None

    def settle(self) -> bool:
        """Take no cancellation from now on; return whether there was one at once, so that the job may not end as finished."""
        with self._lock:
            self._ending = True
            return self._at_once and not self.suspended

    def close(self, error: Callable[[], Exception]) -> None:
        """Fail pending and future requests."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._closed = error
        for request in waiting:
            if request.result.set_running_or_notify_cancel():
                request.result.set_exception(error())
