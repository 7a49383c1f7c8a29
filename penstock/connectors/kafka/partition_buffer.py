"""The messages of one partition that were fetched and not yet read."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

from penstock.connectors.kafka.enumerator import KafkaPartitionSplit
from penstock.connectors.kafka.offsets import KafkaTopicPartition

# Fetching of a partition that is not being read (it waits for others) is paused when its buffer has this size.
MOST_MESSAGES: Final = 16_384
MOST_BYTES: Final = 16 * 2**20


class PartitionBuffer:
    """The messages of a partition between the consumer and the reader."""

    __slots__ = (
        "_chunks",
        "bytes",
        "committed",
        "count",
        "end",
        "fetched",
        "missing_since",
        "next",
        "partition",
        "paused",
        "split",
        "untouched",
    )

    def __init__(self, split: KafkaPartitionSplit, position: int, *, untouched: bool) -> None:
        self.split = split
        self.untouched = untouched  # no record of it was ever read
        self.partition: KafkaTopicPartition = split.partition
        self.next = position  # the offset after the last message that was read
        self.fetched = position  # the offset after the last message that was fetched
        self.end: int | None = None  # the partition's end when it was fully fetched
        self.committed = -1
        self.paused = False
        self.missing_since: float | None = None
        self.count = 0
        self.bytes = 0
        self._chunks: deque[list[Any]] = deque()

    @property
    def done(self) -> bool:
        """Whether a bounded partition was read to its end."""
        return self.split.stop is not None and self.next >= self.split.stop

    @property
    def full(self) -> bool:
        """Whether the buffer is full."""
        return self.count >= MOST_MESSAGES or self.bytes >= MOST_BYTES

    def add(self, messages: list[Any]) -> None:
        """Add messages that follow the previous ones; duplicates are dropped."""
        if messages[0].offset() < self.fetched:
            messages = [each for each in messages if each.offset() >= self.fetched]
            if not messages:
                return
        self._chunks.append(messages)
        self.count += len(messages)
        self.bytes += sum(map(len, messages))
        self.fetched = messages[-1].offset() + 1
        self.end = self.missing_since = None
        self.untouched = False

    def on_end(self, offset: int) -> None:
        """Record that the partition ends at this offset: offsets in between (transaction markers) are not records."""
        self.missing_since = None
        if offset >= self.fetched:  # else records were written since
            self.end = offset

    def on_missing(self) -> None:
        """Record that the brokers do not know the partition."""
        if self.missing_since is None:
            self.missing_since = time.monotonic()

    def go_to(self, offset: int) -> None:
        """Accept messages from an offset on, even if it is before the current one."""
        self.fetched = offset
        self.end = None

    def take(self, most: int) -> list[Any]:
        """Return the next messages, at most this many."""
        if not self._chunks:
            return []
        taken = self._chunks.popleft()
        while self._chunks and len(taken) + len(self._chunks[0]) <= most:
            taken = taken + self._chunks.popleft()
        if len(taken) > most:
            self._chunks.appendleft(taken[most:])
            taken = taken[:most]
        self.count -= len(taken)
        self.bytes -= sum(map(len, taken))
        return taken
