"""Requests in flight, so that the shutdown of a process can wait for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Flight:
    """One request in flight."""

    def __init__(self, flights: Flights) -> None:
        self._flights = flights
        self._under_way = True

    def leave(self) -> None:
        """Stop counting: the shutdown does not wait for this request."""
        if self._under_way:
            self._under_way = False
            self._flights.count(-1)


class Flights:
    """Counts the requests in flight."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def one(self) -> Iterator[Flight]:
        """Count a request until its response is sent."""
        flight = Flight(self)
        self.count(1)
        try:
            yield flight
        finally:
            flight.leave()

    def count(self, change: int) -> None:
        """Add to the number of requests in flight."""
        with self._changed:
            self._number += change
            self._changed.notify_all()

    def wait_until_none(self, patience_s: float) -> bool:
        """Wait until no requests are in flight, for at most `patience_s`; return whether there are none."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._number, patience_s)
