"""Buffer debloating: limits the in-flight data of an input to what the subtask processes in about a second (a pure core).

Buffers have a size in bytes, and a slow function may need minutes for a few of them: every barrier waits behind that. So
a subtask
measures how many records of an input it processes while it has any, and lets its senders have as much in flight as it
processes in
a target time. Fast subtasks soon reach the largest size, which is the size without debloating.

An input starts with little in-flight data, since nothing is known yet. Even a fast subtask may have a slow one
downstream, and
notices only when the channels between them are full. So each measurement at most doubles the in-flight data. A subtask
measures as
soon as it has processed that much.

The rate is that of the last seconds: it divides records by time, and both decay exponentially. An average of rates would
be wrong
for a subtask that is often backpressured: it works in short bursts, each of them fast.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from penstock.graph.stage import DebloatSettings

#: Buffers in flight per channel: the receiver works on one while others are in transit
BUFFERS: Final = 4
#: In-flight records of an input before the first measurement. Senders keep their credit: 2.5 s of work for a function
#: that takes 20 ms
FIRST_RECORDS: Final = 128
FIRST_BYTES: Final = 1024
#: Records per buffer before the receiver has announced a number
FIRST_BUFFER: Final = FIRST_RECORDS // BUFFERS
_MOST: Final = 2**31 - 1
_SHORTEST_S: Final = 1e-6


class BufferSize(NamedTuple):
    """The in-flight bytes of a channel, and the number of records per buffer."""

    window: int
    records: int


#: Only limited by the channel's own window
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
    >>> debloater.measure(0.2)  # 500 records a second, of 4 bytes each; but the size at most doubles
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
        self._rate = FIRST_RECORDS / max(settings.target_s, _SHORTEST_S)  # records per second
        self._records = self._seconds = 0.0  # of the last seconds
        self._taken = 0  # records since the last measurement
        self._senders: set[int] = set()  # who sent them
        # Bytes per record. A guess until a record arrives from another slot: without it, channels from there would be unbounded.
        self._weight = FIRST_BYTES / FIRST_RECORDS
        self._weighed = self._bytes = 0  # records and bytes since the last measurement
        self._under_way = FIRST_RECORDS
        self.size = _size(FIRST_RECORDS, FIRST_BYTES, channels)

    def weigh(self, records: int, size: int) -> None:
        """Record the serialized size of some records."""
        self._weighed += records
        self._bytes += size

    def took(self, sender: int, records: int) -> None:
        """Record that records were processed."""
        self._taken += records
        self._senders.add(sender)

    def is_due(self, clock: float) -> bool:
        """Whether a measurement is due: after a period, or earlier if all in-flight records were processed."""
        return self._taken >= self._under_way or clock - self._since >= self._settings.period_s

    def measure(self, clock: float) -> BufferSize | None:
        """Return the new size, if it differs enough from the last one."""
        if not self._taken:
            return None  # the elapsed time counts with the next records
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
        """Return the records per second. The last `samples` periods count most, and longer times are capped at that length."""
        span = max(self._settings.samples * self._settings.period_s, _SHORTEST_S)
        kept = math.exp(-2 * seconds / span)
        share = min(
            1.0, span / seconds
        )  # otherwise a stall of minutes would have an effect for long
        self._records = self._records * kept + self._taken * share
        self._seconds = self._seconds * kept + seconds * share
        return self._records / self._seconds

    def _differs(self, size: BufferSize) -> bool:
        return any(
            100 * abs(new - old) >= self._settings.threshold_percent * old and new != old
            for new, old in zip(size, self.size, strict=True)
        )


def _size(records: float, size: float, channels: int) -> BufferSize:
    """Divide the in-flight data among channels; each may have at least one record in flight, whatever its size."""
    return BufferSize(
        min(max(1, int(size / channels)), _MOST),
        min(max(1, int(records / channels / BUFFERS)), _MOST),
    )
