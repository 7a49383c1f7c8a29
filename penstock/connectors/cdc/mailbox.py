"""What a receiving thread hands to a task that must not wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue between one thread that puts and one that takes, with a bound by weight.

    The bound holds by `put` waiting, or by the thread asking `full` before it gets more. Whoever has found nothing is woken by the next thing
    that is put.
    """

    def __init__(self, bound: int, wake: Callable[[], None], on_room: Callable[[], None]) -> None:
        self._bound = bound
        self._wake = wake
        self._on_room = on_room
        self._items: deque[tuple[T, int]] = deque()
        self._put_weight = 0  # changed by the thread that puts
        self._taken_weight = 0  # changed by the thread that takes
        self._hungry = True
        self._there = threading.Event()
        self._blocked = False
        self._room = threading.Event()

    @property
    def full(self) -> bool:
        """Whether more should wait."""
        if self._put_weight - self._taken_weight < self._bound:
            return False
        self._blocked = True  # before the second look, so that nobody takes without noticing
        return self._put_weight - self._taken_weight >= self._bound

    def put(self, item: T, weight: int = 1) -> None:
        """Add something."""
        self._put_weight += weight
        self._items.append((item, weight))
        self._there.set()
        if self._hungry:
            self._hungry = False
            self._wake()

    def wait_for_room(self, seconds: float) -> None:
        """Wait until there is room, for so long."""
        self._room.clear()
        if self.full:
            self._room.wait(seconds)

    def take(self) -> T | None:
        """Return the next thing, None if there is none now."""
        items = self._items
        if not items:
            self._hungry = True
            self._there.clear()
            if not items:  # else something came in between
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
        """Wait until there is something, for so long; return whether there is."""
        return self._there.wait(seconds)

    def sleeps(self) -> bool:
        """Whether there is nothing now; then the next thing that is put wakes."""
        self._hungry = True  # before the look, so that nothing comes without noticing
        return not self._items

    @property
    def empty(self) -> bool:
        """Whether there is nothing now."""
        return not self._items
