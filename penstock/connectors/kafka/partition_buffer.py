"""What a reader has of one partition: messages that were fetched and not yet read."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

from penstock.connectors.kafka.enumerator import KafkaPartitionSplit
from penstock.connectors.kafka.offsets import KafkaTopicPartition

# A partition that nobody reads now (it waits for others, or for its turn) is not fetched any more when so much of it lies here.
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
        self.untouched = untouched  # nothing was ever read of it
        self.partition: KafkaTopicPartition = split.partition
        self.next = position  # the offset after what was read
        self.fetched = position  # the offset after what is here
        self.end: int | None = None  # where the partition ended when all of it had been fetched
        self.committed = -1
        self.paused = False
        self.missing_since: float | None = None
        self.count = 0
        self.bytes = 0
        self._chunks: deque[list[Any]] = deque()

    @property
    def done(self) -> bool:
        """Whether all was read, of a partition that has an end."""
        return self.split.stop is not None and self.next >= self.split.stop

    @property
    def full(self) -> bool:
        """Whether enough lies here."""
        return self.count >= MOST_MESSAGES or self.bytes >= MOST_BYTES

    def add(self, messages: list[Any]) -> None:
        """Take messages that follow those before; what was delivered before is left out."""
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
        """Take note that there is nothing more, up to this offset: what is between (markers of transactions) is no record."""
        self.missing_since = None
        if offset >= self.fetched:  # else something was written since
            self.end = offset

    def on_missing(self) -> None:
        """Take note that the brokers do not know the partition."""
        if self.missing_since is None:
            self.missing_since = time.monotonic()

    def go_to(self, offset: int) -> None:
        """Take what comes from an offset on, also if it lies before what was here."""
        self.fetched = offset
        self.end = None

    def take(self, most: int) -> list[Any]:
        """Return the next messages, at most so many."""
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
