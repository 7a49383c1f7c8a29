"""The interface of timers in a backend: ordered by time, unique per (key, namespace, timestamp), part of the keyed state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

TIMER_PREFIX: Final = "timers/"  # prefix of the names of timer tables
Fire = Callable[[int, Any, Any], None]  # timestamp, key, namespace


class Timers(Protocol):
    """Pending timers of one time domain, ordered by time."""

    def register(self, timestamp: int, key: object, namespace: object) -> None:
        """Add a timer; adding it twice has no effect."""

    def delete(self, timestamp: int, key: object, namespace: object) -> None:
        """Remove a timer if it exists."""

    def next_time(self) -> int | None:
        """Return the earliest pending timestamp."""

    def fire_until(self, limit: int, fire: Fire) -> None:
        """Fire all timers with timestamp <= limit, in order, including those registered in the meantime."""

    def count(self) -> int | None:
        """Return the number of pending timers; None if counting is expensive."""

    def __len__(self) -> int: ...
