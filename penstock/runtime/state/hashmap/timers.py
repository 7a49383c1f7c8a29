"""Timers in memory, ordered by time."""

from __future__ import annotations

import heapq
from typing import Any

from penstock.runtime.state.table import StateTable
from penstock.runtime.state.timers import Fire


class TimerQueue:
    """Pending timers of one time domain, in memory.

    The table holds `(key, (namespace, timestamp))` entries, so timers are part of the keyed state: they are snapshotted,
    restored and redistributed with it. The heap and the dictionary are an index over the table.
    """

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._by_time: dict[int, dict[tuple[Any, Any], None]] = {}
        self._times: list[int] = []
        self._count = 0
        for (key, (namespace, timestamp)), _ in self._table.items():  # noqa: PERF102 - a state table is not a dict
            self._index(timestamp, key, namespace)

    def _index(self, timestamp: int, key: object, namespace: object) -> bool:
        timers = self._by_time.get(timestamp)
        if timers is None:
            timers = self._by_time[timestamp] = {}
            heapq.heappush(self._times, timestamp)
        elif (key, namespace) in timers:
            return False
        timers[key, namespace] = None
        self._count += 1
        return True

    def register(self, timestamp: int, key: object, namespace: object) -> None:
        """Add a timer; adding it twice has no effect."""
        if self._index(timestamp, key, namespace):
            self._table.put((key, (namespace, timestamp)), True)

    def delete(self, timestamp: int, key: object, namespace: object) -> None:
        """Remove a timer if it exists."""
        timers = self._by_time.get(timestamp)
        if timers is not None and (key, namespace) in timers:
            del timers[key, namespace]
            self._count -= 1
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
        """Fire all timers with timestamp <= limit, in order, including those registered in the meantime."""
        while (first := self.next_time()) is not None and first <= limit:
            timers = self._by_time[first]
            # A timer that is registered by a callback may be due before the rest.
            while timers and self._times[0] == first:
                key, namespace = next(iter(timers))
                del timers[key, namespace]
                self._count -= 1
                self._table.remove((key, (namespace, first)))
                fire(first, key, namespace)

    def count(self) -> int | None:
        """Return the number of pending timers."""
        return self._count

    def __len__(self) -> int:
        return self._count
