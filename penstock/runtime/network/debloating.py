"""How much may be under way to one input of a subtask: about what the subtask processes in a second (a pure core).

Buffers have a size in bytes, and a slow function may need minutes for what a few of them hold: every barrier waits behind that. So a subtask measures how
many records of an input it processes while it has any, and lets its senders have as much under way as it processes in a target time. Fast subtasks
soon come to the largest size, which is what there is without this.

An input begins with little under way, since nothing is known yet. Even a fast subtask may have a slow one behind it, and notices that only when the channels
between them are full. So each measurement at most doubles what may be under way. A subtask measures as soon as it has processed that much.

The rate is that of the last seconds: it divides records by time, and forgets both exponentially. An average of rates would be wrong for a subtask that is held
up again and again: it works in short bursts, and each of them is fast.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from penstock.graph.stage import DebloatSettings

#: How many buffers fit into what may be under way in a channel: so the receiver works on one while others come
BUFFERS: Final = 4
#: What may be under way to an input before anything was measured. Senders keep what they were allowed: 2.5 s of work for a function that takes 20 ms
FIRST_RECORDS: Final = 128
FIRST_BYTES: Final = 1024
#: How many records a sender puts into a buffer before the receiver has told anything
FIRST_BUFFER: Final = FIRST_RECORDS // BUFFERS
_MOST: Final = 2**31 - 1
_SHORTEST_S: Final = 1e-6


class BufferSize(NamedTuple):
    """What may be under way in a channel, in bytes; and how many records the sender puts into a buffer."""

    window: int
    records: int


#: As much as the channel's own window has room for
UNLIMITED: Final = BufferSize(_MOST, _MOST)


class BufferDebloater:
    """Measures one input of a subtask. `clock` is in seconds, and stands still while there is nothing to process.

    >>> debloater = BufferDebloater(DebloatSettings(), channels=1, clock=0.0)
    >>> debloater.size.records
    32
    >>> debloater.weigh(100, 400)
    >>> debloater.took(0, 100)
    >>> debloater.is_due(0.1), debloater.is_due(0.2)
    (False, True)
    >>> debloater.measure(0.2)  # 500 records a second, of 4 bytes each; but what may be under way only doubles
    BufferSize(window=1024, records=64)
    """

    __slots__ = (
        "_bytes",
        "_rate",
        "_records",
        "_seconds",
        "_senders",
        "_settings",
        "_since",
        "_taken",
        "_under_way",
        "_weighed",
        "_weight",
        "size",
    )

    def __init__(self, settings: DebloatSettings, channels: int, clock: float) -> None:
        self._settings = settings
        self._since = clock
        self._rate = FIRST_RECORDS / max(settings.target_s, _SHORTEST_S)  # records a second
        self._records = self._seconds = 0.0  # of the last seconds
        self._taken = 0  # records since the last measurement
        self._senders: set[int] = set()  # who sent them
        # Bytes of a record. It is a guess until one comes from another slot: without it, channels from there would have no bound.
        self._weight = FIRST_BYTES / FIRST_RECORDS
        self._weighed = self._bytes = 0  # records and bytes since the last measurement
        self._under_way = FIRST_RECORDS
        self.size = _size(FIRST_RECORDS, FIRST_BYTES, channels)

    def weigh(self, records: int, size: int) -> None:
        """Take note of how many bytes some records had on their way."""
        self._weighed += records
        self._bytes += size

    def took(self, sender: int, records: int) -> None:
        """Take note that records were processed."""
        self._taken += records
        self._senders.add(sender)

    def is_due(self, clock: float) -> bool:
        """Whether it is time to measure: after a period, or earlier if all that may be under way was processed."""
        return self._taken >= self._under_way or clock - self._since >= self._settings.period_s

    def measure(self, clock: float) -> BufferSize | None:
        """Return the new size, if it differs enough from the last one."""
        if not self._taken:
            return None  # what came since then took time, and counts with the next records
        self._rate = min(self._averaged(max(clock - self._since, _SHORTEST_S)), 2 * self._rate)
        self._since = clock
        if self._weighed:
            self._weight = self._bytes / self._weighed
        records = self._rate * self._settings.target_s
        size = _size(records, records * self._weight, len(self._senders))
        self._under_way = max(1, int(records))
        self._taken = self._weighed = self._bytes = 0
        self._senders.clear()
        if not self._differs(size):
            return None
        self.size = size
        return size

    def _averaged(self, seconds: float) -> float:
        """Return the records of a second. The last `samples` periods count most, and a longer time counts as one of that length."""
        span = max(self._settings.samples * self._settings.period_s, _SHORTEST_S)
        kept = math.exp(-2 * seconds / span)
        share = min(1.0, span / seconds)  # else a stall of minutes would be remembered for long
        self._records = self._records * kept + self._taken * share
        self._seconds = self._seconds * kept + seconds * share
        return self._records / self._seconds

    def _differs(self, size: BufferSize) -> bool:
        return any(
            100 * abs(new - old) >= self._settings.threshold_percent * old and new != old
            for new, old in zip(size, self.size, strict=True)
        )


def _size(records: float, size: float, channels: int) -> BufferSize:
    """Share what may be under way among channels; one record may be under way in each of them, whatever its size."""
    return BufferSize(
        min(max(1, int(size / channels)), _MOST),
        min(max(1, int(records / channels / BUFFERS)), _MOST),
    )
