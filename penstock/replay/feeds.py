"""Channels of a replay: the sender's records in order, cut into the portions in which the receiver took them.

A sender that runs again fills its buffers differently, because their sizes depended on timing. The receiver's trace says how
many records it took at once.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

from penstock.pickling.portable_pickles import NotPicklableError
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.messages import DATA
from penstock.runtime.records import Batch


class ChannelFeed:
    """The content of one channel."""

    def __init__(self) -> None:
        # Batches as bytes, where possible: the receiver may modify their records.
        self._items: deque[tuple[int, Any]] = deque()
        self._left: Batch | None = None  # rest of a batch that was taken in part
        self.missing = 0  # records that the original run took and the replay did not produce

    def put(self, kind: int, content: Any) -> None:
        """Append a batch or event of the sender."""
        if kind == DATA:
            with contextlib.suppress(
                NotPicklableError
            ):  # batches between subtasks of one slot are not always serializable
                content = content.encode()
        self._items.append((kind, content))

    def restore(self, payloads: list[bytes]) -> None:
        """Prepend records that were in flight in the channel at the start."""
        self._items.extendleft((DATA, payload) for payload in reversed(payloads))

    def copy(self) -> ChannelFeed:
        """Return a feed with the same content, for another run."""
        other = ChannelFeed()
        other._items = deque(self._items)
        return other

    def take(self, count: int) -> Batch | None:
        """Return the next `count` records; fewer, or None, if there are no more."""
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
        """Return the next batch or event as it was sent; None if there is nothing more."""
        if self._left is not None:
            left, self._left = self._left, None
            return DATA, left
        if not self._items:
            return None
        kind, content = self._items.popleft()
        return kind, decode(content) if isinstance(content, bytes) and kind == DATA else content
