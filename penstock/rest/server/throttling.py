"""Throttles requests, so that handling them uses at most a given share of a processor.

Requests must not slow a job down, so their processor time is measured and bounded (a token bucket). After an idle period a burst
passes at once, which is enough for people, pages and scrapers; a flood of requests is handled at the rate that the share allows.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from penstock.rest.messages import HttpError
from penstock.rest.server.limits import RequestLimits

_LONGEST_WAIT_S = (
    2.0  # upper bound of the debt: one expensive request must not delay all others for longer
)

_SHORTEST_WAIT_S = 1e-6  # shorter waits are rounding errors


class ProcessorBudget:
    """A token bucket of processor time: refilled at `share`, up to `burst_s`. Pure but for its lock."""

    def __init__(self, share: float, burst_s: float) -> None:
        self._share = share
        self._burst_s = burst_s
        self._left_s = burst_s
        self._at: float | None = None
        self._lock = threading.Lock()

    def take(self, seconds: float) -> None:
        """Subtract used processor time."""
        with self._lock:
            self._left_s = max(self._left_s - seconds, -_LONGEST_WAIT_S * self._share)

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next request may start; 0 is now."""
        with self._lock:
            passed = 0.0 if self._at is None else max(0.0, now - self._at)
            self._at = now
            self._left_s = min(self._burst_s, self._left_s + passed * self._share)
            wait_s = -self._left_s / self._share
            return wait_s if wait_s > _SHORTEST_WAIT_S else 0.0


class RequestThrottle:
    """The throttle of a server. It belongs to the thread of the event loop."""

    def __init__(
        self,
        limits: RequestLimits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.budget = ProcessorBudget(limits.processor_share, limits.burst_s)
        self._most = limits.waiting
        self._waiting = 0
        self._turn = asyncio.Lock()  # first come, first served
        self._clock = clock
        self._sleep = sleep
        self._loop_s = time.thread_time()

    def note_loop_time(self) -> None:
        """Subtract the processor time of this thread since the last call."""
        now = time.thread_time()
        self.budget.take(now - self._loop_s)
        self._loop_s = now

    async def pass_through(self) -> None:
        """Wait until the request may start; an error if too many requests are queued."""
        if self._waiting >= self._most:
            raise HttpError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many requests: {self._waiting} are queued",
                headers={"Retry-After": "5"},
            )
        self._waiting += 1
        try:
            async with self._turn:
                self.note_loop_time()
                while (wait_s := self.budget.wait_s(self._clock())) > 0:
                    await self._sleep(wait_s)
        finally:
            self._waiting -= 1
