"""Backoff between retries of a connector."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts: `first_ms`, then `factor` times as long each time, up to `longest_ms`, with random jitter.

    They end after `retries` pauses, or after `within_ms`, whichever is set.

    >>> [round(pause, 3) for pause in Backoff(100, 1000, retries=5, jitter=0).pauses()]
    [0.1, 0.2, 0.4, 0.8, 1.0]
    """

    first_ms: int = 100
    longest_ms: int = 10_000
    factor: float = 2.0
    retries: int | None = None
    within_ms: int | None = None
    jitter: float = 0.2

    def pauses(self) -> Iterator[float]:
        """Yield the pause before each retry, in seconds, until no retries are left."""
        end = None if self.within_ms is None else time.monotonic() + self.within_ms / 1000
        pause = self.first_ms / 1000
        count = 0
        while self.retries is None or count < self.retries:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return
            chance = 1 + self.jitter * (2 * random.random() - 1)  # noqa: S311 - no secret
            yield pause * chance if left is None else min(pause * chance, left)
            pause = min(pause * self.factor, self.longest_ms / 1000)
            count += 1
