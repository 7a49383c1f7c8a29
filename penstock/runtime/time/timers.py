"""The timers of one operator in both time domains, and the timer service for user code."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from penstock.errors import ArgumentTypeError
from penstock.runtime.state.keyed import KeyedStateBackend
from penstock.runtime.state.timers import TIMER_PREFIX, Fire, Timers


class TimerManager:
    """Both timer queues of an operator, and its current watermark."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self.backend = backend
        self.event: Timers = backend.create_timer_queue(TIMER_PREFIX + "event")
        self.processing: Timers = backend.create_timer_queue(TIMER_PREFIX + "processing")
        self.watermark = -(2**63)

    def advance_watermark(self, watermark: int, fire: Fire) -> None:
        """Advance event time and fire timers that are due; a watermark repeated after a restart has no effect."""
        if watermark < self.watermark:
            return
        self.watermark = watermark
        self.event.fire_until(watermark, fire)

    def advance_processing_time(self, now: int, fire: Fire) -> None:
        """Fire the processing-time timers that are due."""
        self.processing.fire_until(now, fire)


class KeyedTimerService:
    """The timer service for user code: timers of the current key."""

    __slots__ = ("_clock", "_manager", "_namespace")

    def __init__(
        self, manager: TimerManager, clock: Callable[[], int], namespace: Any = None
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._namespace = namespace

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._clock()

    def current_watermark(self) -> int:
        """Return the operator's watermark."""
        return self._manager.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Call on_timer when the watermark reaches `timestamp`."""
        if type(timestamp) is not int:
            timestamp = _whole(timestamp)
        self._manager.event.register(timestamp, self._manager.backend.current_key, self._namespace)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call on_timer when the wall clock reaches `timestamp`."""
        if type(timestamp) is not int:
            timestamp = _whole(timestamp)
        self._manager.processing.register(
            timestamp, self._manager.backend.current_key, self._namespace
        )

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer."""
        if type(timestamp) is not int:
            timestamp = _whole(timestamp)
        self._manager.event.delete(timestamp, self._manager.backend.current_key, self._namespace)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer."""
        if type(timestamp) is not int:
            timestamp = _whole(timestamp)
        self._manager.processing.delete(
            timestamp, self._manager.backend.current_key, self._namespace
        )


def _whole(timestamp: Any) -> int:
    """Return a timestamp as an int; `1000.0` is accepted."""
    if isinstance(timestamp, float) and timestamp.is_integer():
        return int(timestamp)
    try:
        return operator.index(timestamp)
    except TypeError as error:
        raise ArgumentTypeError(
            f"invalid timer timestamp {timestamp!r}",
            hint="pass epoch milliseconds as an int",
        ) from error
