"""Timers as a backend keeps them: in time order, once per (key, namespace, timestamp), part of the keyed state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

TIMER_PREFIX: Final = "timers/"  # tables whose names begin so hold timers
Fire = Callable[[int, Any, Any], None]  # timestamp, key, namespace


class Timers(Protocol):
    """Pending timers of one time domain, in time order, wherever the backend keeps them."""

    def register(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Add a timer; adding it twice is adding it once."""

    def delete(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Remove a timer if it is there."""

    def next_time(self) -> int | None:
        """Return the earliest pending timestamp."""

    def fire_until(self, limit: int, fire: Fire) -> None:
        """Fire all timers with timestamp <= limit, in order, including those registered meanwhile."""

    def count(self) -> int | None:
        """Return how many timers are pending; None where that takes long to know."""

    def __len__(self) -> int: ...
