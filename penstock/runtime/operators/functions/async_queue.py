"""The output order of an asynchronous operator: pure, without an event loop.

Records and controls (watermarks, status changes) enter a queue in input order. A record leaves when its result is available; a
control leaves after everything before it, and nothing behind it leaves before it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.common.user_types import Record


class AsyncQueueEntry:
    """A record in flight. `results` is None until it is completed; `carried` counts the barriers it has crossed."""

    __slots__ = (
        "carried",
        "deadline",
        "number",
        "results",
        "segment",
        "task",
        "timestamp",
        "value",
    )

    def __init__(
        self,
        value: Record,
        timestamp: int | None,
        carried: int = 0,
        results: list[Any] | None = None,
    ) -> None:
        self.value = value
        self.timestamp = timestamp
        self.carried = carried
        self.results = results
        self.task: Any = None
        self.deadline = 0.0
        self.number = 0  # of its call, since the last barrier
        self.segment: _Segment | None = None

    def __repr__(self) -> str:
        return f"Entry({self.value!r}, results={self.results!r})"


@dataclass(frozen=True, slots=True)
class AsyncQueueEvent:
    """A watermark, or a status change if `idle` is set."""

    watermark: int | None = None
    idle: bool | None = None


Item = AsyncQueueEntry | AsyncQueueEvent


class OrderedQueue:
    """Emits records in input order."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self.size = 0  # records, without controls

    def add(self, item: Item) -> None:
        """Add the next item of the input."""
        self._items.append(item)
        if type(item) is AsyncQueueEntry:
            self.size += 1

    def on_answer(self, entry: AsyncQueueEntry) -> None:
        """Record that a result is available."""

    def release(self, into: list[Item]) -> None:
        """Append everything that may leave to a list."""
        items = self._items
        while items:
            item = items[0]
            if type(item) is AsyncQueueEntry:
                if item.results is None:
                    return
                self.size -= 1
            into.append(items.popleft())

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)


class _Segment:
    """The records between two controls. `entries` are those that have not left, in input order."""

    __slots__ = ("answered", "control", "entries")

    def __init__(self) -> None:
        self.entries: dict[AsyncQueueEntry, None] = {}
        self.answered: list[AsyncQueueEntry] = []
        self.control: AsyncQueueEvent | None = None  # what ends the segment


class UnorderedQueue:
    """Emits records as they are completed, but never across a control."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque([_Segment()])
        self.size = 0

    def add(self, item: Item) -> None:
        """Add the next item of the input."""
        segment = self._segments[-1]
        if type(item) is AsyncQueueEntry:
            self.size += 1
            item.segment = segment
            segment.entries[item] = None
            if item.results is not None:
                segment.answered.append(item)
        else:
            assert isinstance(item, AsyncQueueEvent)
            segment.control = item
            self._segments.append(_Segment())

    def on_answer(self, entry: AsyncQueueEntry) -> None:
        """Record that a result is available."""
        assert entry.segment is not None
        entry.segment.answered.append(entry)

    def release(self, into: list[Item]) -> None:
        """Append everything that may leave to a list."""
        segments = self._segments
        while True:
            head = segments[0]
            if head.answered:
                for entry in head.answered:
                    del head.entries[entry]
                    entry.segment = None
                    into.append(entry)
                self.size -= len(head.answered)
                head.answered.clear()
            if head.entries or head.control is None:
                return
            into.append(head.control)
            segments.popleft()

    def __iter__(self) -> Iterator[Item]:
        """Iterate in an order that recreates the same queue: completed records in the order of completion."""
        for segment in self._segments:
            yield from segment.answered
            yield from (entry for entry in segment.entries if entry.results is None)
            if segment.control is not None:
                yield segment.control
