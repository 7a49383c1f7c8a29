"""Batches of a writer: bounded by number of items, by bytes and by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.time import clock


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch is sent: at this many items, this many bytes, or this long after its first item. None: no limit."""

    items: int | None = 1000
    size: int | None = None
    linger_ms: int | None = None


class RequestBatch:
    """Items that are sent together.

    >>> batch = RequestBatch(BatchLimits(items=2))
    >>> batch.add("a", 1), batch.add("b", 1)
    (False, True)
    >>> batch.take(), len(batch)
    (['a', 'b'], 0)
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._items: list[Any] = []
        self._size = 0
        self._since_ms: int | None = None

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Any, size: int) -> bool:
        """Add an item; return whether the batch is full now."""
        if not self._items:
            self._since_ms = int(clock.now() * 1000)
        self._items.append(item)
        self._size += size
        limits = self._limits
        return (limits.items is not None and len(self._items) >= limits.items) or (
            limits.size is not None and self._size >= limits.size
        )

    def take(self) -> list[Any]:
        """Return all items and empty the batch."""
        items, self._items = self._items, []
        self._size = 0
        self._since_ms = None
        return items

    @property
    def due_ms(self) -> int | None:
        """Return the latest time at which the batch is sent, in epoch milliseconds."""
        if self._since_ms is None or self._limits.linger_ms is None:
            return None
        return self._since_ms + self._limits.linger_ms
