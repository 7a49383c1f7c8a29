"""What a writer collects before it sends: bounded in number, in bytes and in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.common import clock


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch is sent: at so many items, so many bytes, or so long after its first item. None is no limit."""

    items: int | None = 1000
    size: int | None = None
    linger_ms: int | None = None


class Batch:
    """Items that wait to be sent together.

    >>> batch = Batch(BatchLimits(items=2))
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
        """Take an item; return whether the batch is full now."""
        if not self._items:
            self._since_ms = int(clock.now() * 1000)
        self._items.append(item)
        self._size += size
        limits = self._limits
        return (limits.items is not None and len(self._items) >= limits.items) or (
            limits.size is not None and self._size >= limits.size
        )

    def take(self) -> list[Any]:
        """Return all items; the batch is empty then."""
        items, self._items = self._items, []
        self._size = 0
        self._since_ms = None
        return items

    @property
    def due_ms(self) -> int | None:
        """When it is to be sent at the latest, in epoch milliseconds."""
        if self._since_ms is None or self._limits.linger_ms is None:
            return None
        return self._since_ms + self._limits.linger_ms
