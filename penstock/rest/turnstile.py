"""Lets requests in one after another, no faster than a share of a processor can answer them.

A job must not become slower because somebody looks at it, so what answering takes is measured and bounded. After a rest a
burst passes at once, which is all that people, pages and scrapers need; a flood of requests is answered at the pace that
the share allows.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from penstock.rest.limits import Limits
from penstock.rest.messages import HttpError

_LONGEST_WAIT_S = (
    2.0  # for what others have taken: one request that takes long must not keep all others waiting
)

_SHORTEST_WAIT_S = 1e-6  # less is an error of rounding


class ProcessorBudget:
    """What may be taken of a processor: a share of the time, and what was left of the last seconds. Pure but for its lock."""

    def __init__(self, share: float, burst_s: float) -> None:
        self._share = share
        self._burst_s = burst_s
        self._left_s = burst_s
        self._at: float | None = None
        self._lock = threading.Lock()

    def take(self, seconds: float) -> None:
        """Note that answering has taken processor time."""
        with self._lock:
            self._left_s = max(self._left_s - seconds, -_LONGEST_WAIT_S * self._share)

    def wait_s(self, now: float) -> float:
        """Return in how many seconds something may be taken again; 0 is now."""
        with self._lock:
            passed = 0.0 if self._at is None else max(0.0, now - self._at)
            self._at = now
            self._left_s = min(self._burst_s, self._left_s + passed * self._share)
            wait_s = -self._left_s / self._share
            return wait_s if wait_s > _SHORTEST_WAIT_S else 0.0


class Turnstile:
    """The one of a server: belongs to the thread of its event loop."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.budget = ProcessorBudget(limits.processor_share, limits.burst_s)
        self._most = limits.waiting
        self._waiting = 0
        self._turn = asyncio.Lock()  # which is handed on in the order of coming
        self._clock = clock
        self._sleep = sleep
        self._loop_s = time.thread_time()

    def note_loop_time(self) -> None:
        """Count what this thread has worked since this was called last."""
        now = time.thread_time()
        self.budget.take(now - self._loop_s)
        self._loop_s = now

    async def pass_through(self) -> None:
        """Wait for a turn; refused if there are too many who do."""
        if self._waiting >= self._most:
            raise HttpError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{self._waiting} requests are waiting for an answer",
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
