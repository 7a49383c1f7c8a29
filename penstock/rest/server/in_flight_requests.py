"""Requests in flight, so that the shutdown of a process can wait for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class InFlightRequest:
    """One request in flight."""

    def __init__(self, in_flight_requests: InFlightRequests) -> None:
        self._in_flight_requests = in_flight_requests
        self._under_way = True

    def leave(self) -> None:
        """Stop counting: the shutdown does not wait for this request."""
        if self._under_way:
            self._under_way = False
            self._in_flight_requests.count(-1)


class InFlightRequests:
    """Counts the requests in flight."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def one(self) -> Iterator[InFlightRequest]:
        """Count a request until its response is sent."""
        in_flight_request = InFlightRequest(self)
        self.count(1)
        try:
            yield in_flight_request
        finally:
            in_flight_request.leave()

    def count(self, change: int) -> None:
        """Add to the number of requests in flight."""
        with self._changed:
            self._number += change
            self._changed.notify_all()

    def wait_until_none(self, timeout_s: float) -> bool:
        """Wait until no requests are in flight, for at most `timeout_s`; return whether there are none."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._number, timeout_s)
