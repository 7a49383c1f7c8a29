"""Timers of one operator: in time order, once per (key, namespace, timestamp), kept as state."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable
from typing import Any, Protocol

from penstock.errors import ArgumentTypeError
from penstock.runtime.state.keyed import KeyedStateBackend

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

    def __len__(self) -> int: ...


class TimerQueue:
    """Pending timers of one time domain, in memory.

    The table holds `(key, (namespace, timestamp))` entries, so timers are part of the keyed state: they are snapshot,
    restored and redistributed with it. The heap and the dictionary are an index over the table.
    """

    def __init__(self, backend: KeyedStateBackend, name: str) -> None:
        self._table = backend.table(name, namespaced=True)
        self._by_time: dict[int, dict[tuple[Any, Any], None]] = {}
        self._times: list[int] = []
        for (key, (namespace, timestamp)), _ in self._table.items():  # noqa: PERF102 - a state table is no dict
            self._index(timestamp, key, namespace)

    def _index(self, timestamp: int, key: Any, namespace: Any) -> bool:
        timers = self._by_time.get(timestamp)
        if timers is None:
            timers = self._by_time[timestamp] = {}
            heapq.heappush(self._times, timestamp)
        elif (key, namespace) in timers:
            return False
        timers[key, namespace] = None
        return True

    def register(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Add a timer; adding it twice is adding it once."""
        if self._index(timestamp, key, namespace):
            self._table.put((key, (namespace, timestamp)), True)

    def delete(self, timestamp: int, key: Any, namespace: Any) -> None:
        """Remove a timer if it is there."""
        timers = self._by_time.get(timestamp)
        if timers is not None and (key, namespace) in timers:
            del timers[key, namespace]
            self._table.remove((key, (namespace, timestamp)))

    def next_time(self) -> int | None:
        """Return the earliest pending timestamp."""
        while self._times:
            first = self._times[0]
            if self._by_time.get(first):
                return first
            heapq.heappop(self._times)
            self._by_time.pop(first, None)
        return None

    def fire_until(self, limit: int, fire: Fire) -> None:
        """Fire all timers with timestamp <= limit, in order, including those registered meanwhile."""
        while (first := self.next_time()) is not None and first <= limit:
            timers = self._by_time[first]
            # A timer that is registered meanwhile may be due before the rest of these.
            while timers and self._times[0] == first:
                key, namespace = next(iter(timers))
                del timers[key, namespace]
                self._table.remove((key, (namespace, first)))
                fire(first, key, namespace)

    def __len__(self) -> int:
        return sum(len(timers) for timers in self._by_time.values())


class TimerManager:
    """Both queues of an operator, and its current watermark."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self.backend = backend
        self.event: Timers = backend.create_timer_queue("timers/event")
        self.processing: Timers = backend.create_timer_queue("timers/processing")
        self.watermark = -(2**63)

    def advance_watermark(self, watermark: int, fire: Fire) -> None:
        """Move event time on and fire what is due; time that was told before a restart is told again, and changes nothing."""
        if watermark < self.watermark:
            return
        self.watermark = watermark
        self.event.fire_until(watermark, fire)

    def advance_processing_time(self, now: int, fire: Fire) -> None:
        """Fire the processing-time timers that are due."""
        self.processing.fire_until(now, fire)


class TimerService:
    """What user code sees: timers of the current key."""

    __slots__ = ("_clock", "_manager", "_namespace")

    def __init__(
        self, manager: TimerManager, clock: Callable[[], int], namespace: Any = None
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._namespace = namespace

    def current_processing_time(self) -> int:
        """Return the wall clock in epoch milliseconds."""
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
        """Forget an event-time timer."""
        if type(timestamp) is not int:
            timestamp = _whole(timestamp)
        self._manager.event.delete(timestamp, self._manager.backend.current_key, self._namespace)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a processing-time timer."""
        if type(timestamp) is not int:
            timestamp = _whole(timestamp)
        self._manager.processing.delete(
            timestamp, self._manager.backend.current_key, self._namespace
        )


def _whole(timestamp: Any) -> int:
    """Return a timestamp as an int; `1000.0` is one."""
    if isinstance(timestamp, float) and timestamp.is_integer():
        return int(timestamp)
    try:
        return operator.index(timestamp)
    except TypeError as error:
        raise ArgumentTypeError(
            f"the timestamp of a timer is not a whole number: {timestamp!r}",
            hint="give epoch milliseconds as an int",
        ) from error
