"""Buffer debloating: limits the in-flight records of an input to what the subtask processes in a target time (a pure core).

Buffers have a size in bytes, and a slow function may need minutes for the records of a few of them: every barrier waits
behind those. So a subtask measures how many records of an input it processes per second while it has any, and lets its
senders have as many in flight as it processes in the target time. Fast subtasks are limited by the windows in bytes only.

An input starts with few in-flight records, since nothing is known yet. The window grows only after the subtask has
processed a whole window, to at most `GROWTH` times as many records: so there are never many more records in flight than
were processed already.

A fast subtask may have a slow one downstream. It notices only when the channels between them are full, and each subtask of
a pipeline would allow more in-flight records than the next one. So a window does not grow beyond the records that the
receivers of the subtask allow.

The rate is that of the last seconds: it divides records by time, and both decay exponentially. An average of rates would
be wrong for a subtask that is often backpressured: it works in short bursts, each of them fast. A subtask that becomes slow
is noticed with the next measurement.
"""

from __future__ import annotations

import math
from typing import Final

from penstock.graph.stage import DebloatSettings

#: Buffers per window of a channel: the receiver works on one while others are in transit
BUFFERS: Final = 4
#: Window of an input before the first measurement
FIRST_RECORDS: Final = 4
#: Maximum growth of a window per measurement
GROWTH: Final = 4
#: Only limited by the window in bytes
UNLIMITED: Final = 2**31 - 1
_SHORTEST_S: Final = 1e-6
# A measurement that is slower than the average by more than this factor is used alone.
_SUDDEN: Final = 2


def buffer_records(window: int) -> int:
    """Return the maximum number of records per buffer for a window of a channel."""
    return max(1, window // BUFFERS)


class BufferDebloater:
    """Measures one input of a subtask. `clock` is in seconds, and is stopped while there is no input.

    >>> debloater = BufferDebloater(DebloatSettings(), clock=0.0)
    >>> debloater.window
    4
    >>> debloater.took(100)
    >>> debloater.is_due(0.2)
    True
    >>> debloater.measure(0.2)  # 500 records per second, but the window grows step by step
    16
    """

    __slots__ = ("_records", "_seconds", "_settings", "_since", "_taken", "_window")

    def __init__(self, settings: DebloatSettings, clock: float) -> None:
        self._settings = settings
        self._since = clock  # time of the last measurement
        self._records = self._seconds = 0.0  # decaying
        self._taken = 0  # records since the last measurement
        self._window = float(FIRST_RECORDS)

    @property
    def window(self) -> int:
        """Maximum number of in-flight records of the input."""
        return min(int(self._window), UNLIMITED)

    def took(self, records: int) -> None:
        """Record that records were processed."""
        self._taken += records

    def is_due(self, clock: float) -> bool:
        """Whether to measure: after a period, or earlier if a whole window was processed."""
        return self._taken >= self._window or clock - self._since >= self._settings.period_s

    def measure(self, clock: float, downstream: float = math.inf) -> int:
        """Set and return the window.

        `downstream` is the number of input records whose output fills the windows of the receivers.
        """
        if not self._taken:
            return self.window  # the time since then counts with the next records
        seconds = max(clock - self._since, _SHORTEST_S)
        rate = min(self._averaged(seconds), _SUDDEN * self._taken / seconds)
        most = min(GROWTH * self._window, max(self._window, downstream))
        self._window = max(1.0, min(rate * self._settings.target_s, most))
        self._since = clock
        self._taken = 0
        return self.window

    def follow(self, downstream: float) -> int:
        """Shrink the window to `downstream`, because the outputs have no capacity; return it."""
        self._window = max(1.0, min(self._window, downstream))
        return self.window

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


def differs(new: int, old: int, percent: int) -> bool:
    """Whether a number has changed by at least `percent`.

    >>> differs(125, 100, 25), differs(80, 100, 25), differs(7, 7, 0)
    (True, False, False)
    """
    return new != old and 100 * abs(new - old) >= percent * old


def share(window: int, channels: int) -> int:
    """Return the part of a window for each of its channels, at least one record."""
    return max(1, window // channels)
