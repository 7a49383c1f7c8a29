"""A queue between a receiving thread and a task that must not block."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedQueue(Generic[T]):
    """A queue between one producer thread and one consumer thread, bounded by weight.

    The bound is kept by `put` blocking, or by the producer checking `full` before it fetches more. A consumer that found nothing
    is woken by the next item.
    """

    def __init__(self, bound: int, wake: Callable[[], None], on_room: Callable[[], None]) -> None:
        self._bound = bound
        self._wake = wake
        self._on_room = on_room
        self._items: deque[tuple[T, int]] = deque()
        self._put_weight = 0  # changed by the producer only
        self._taken_weight = 0  # changed by the consumer only
        self._hungry = True
        self._there = threading.Event()
        self._blocked = False
        self._room = threading.Event()

    @property
    def full(self) -> bool:
        """Whether the producer should wait."""
        if self._put_weight - self._taken_weight < self._bound:
            return False
        self._blocked = True  # set before the second check, so that the consumer does not miss it
        return self._put_weight - self._taken_weight >= self._bound

    def put(self, item: T, weight: int = 1) -> None:
        """Add an item."""
        self._put_weight += weight
        self._items.append((item, weight))
        self._there.set()
        if self._hungry:
            self._hungry = False
            self._wake()

    def wait_for_room(self, seconds: float) -> None:
        """Wait until there is capacity, at most this long."""
        self._room.clear()
        if self.full:
            self._room.wait(seconds)

    def take(self) -> T | None:
        """Return the next item, or None."""
        items = self._items
        if not items:
            self._hungry = True
            self._there.clear()
            if not items:  # else an item arrived in between
                return None
            self._there.set()
        item, weight = items.popleft()
        self._taken_weight += weight
        if self._blocked and 2 * (self._put_weight - self._taken_weight) <= self._bound:
            self._blocked = False
            self._room.set()
            self._on_room()
        return item

    def wait(self, seconds: float | None) -> bool:
        """Wait for an item, at most this long; return whether there is one."""
        return self._there.wait(seconds)

    def sleeps(self) -> bool:
        """Whether it is empty; if so, the next `put` calls `wake`."""
        self._hungry = True  # set before the check, so that the producer does not miss it
        return not self._items

    @property
    def empty(self) -> bool:
        """Whether there are no items."""
        return not self._items
