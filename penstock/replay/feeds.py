"""What channels bring in a replay: the sender's records in order, cut into the portions in which the receiver took them.

A sender that runs again fills its buffers in other places: how full they were depended on time. The receiver's trace says how many
records it took at once.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

from penstock.common.pickling import NotPicklableError
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.messages import DATA
from penstock.runtime.records import Batch


class Feed:
    """One channel."""

    def __init__(self) -> None:
        # Batches as bytes, where that is possible: whoever takes them may change their records.
        self._items: deque[tuple[int, Any]] = deque()
        self._left: Batch | None = None  # of a batch that was taken in part
        self.missing = 0  # records that were taken when the epoch ran, and did not come again

    def put(self, kind: int, content: Any) -> None:
        """Take what the sender sends."""
        if kind == DATA:
            with contextlib.suppress(
                NotPicklableError
            ):  # between neighbours in a slot it need not be
                content = content.encode()
        self._items.append((kind, content))

    def restore(self, payloads: list[bytes]) -> None:
        """Take records that were in the channel before all that the sender sends."""
        self._items.extendleft((DATA, payload) for payload in reversed(payloads))

    def copy(self) -> Feed:
        """Return a feed with the same content, to be taken once more."""
        other = Feed()
        other._items = deque(self._items)
        return other

    def take(self, count: int) -> Batch | None:
        """Return the next records, so many of them; fewer, or None, if there are no more."""
        taken: Batch | None = None
        while (have := 0 if taken is None else len(taken)) < count:
            batch = self._left if self._left is not None else self._next_batch()
            self._left = None
            if batch is None:
                self.missing += count - have
                break
            if len(batch) > count - have:
                self._left = batch.slice(count - have)
                batch = batch.slice(0, count - have)
            if taken is None:
                taken = batch if have + len(batch) == count else batch.copy()
            else:
                taken.extend(batch)
        return taken

    def _next_batch(self) -> Batch | None:
        while self._items:
            kind, content = self._items.popleft()
            if kind == DATA:
                return decode(content) if isinstance(content, bytes) else content
        return None

    def next(self) -> tuple[int, Any] | None:
        """Return what the sender sent next, records or not, as it did; None if there is nothing more."""
        if self._left is not None:
            left, self._left = self._left, None
            return DATA, left
        if not self._items:
            return None
        kind, content = self._items.popleft()
        return kind, decode(content) if isinstance(content, bytes) and kind == DATA else content
