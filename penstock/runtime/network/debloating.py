"""How many records may be in flight to one input of a subtask: what the subtask processes in a target time (a pure core).

Buffers have a size in bytes, and a slow function may need minutes for the records of a few of them: every barrier waits behind those. So a
subtask measures how many records of an input it processes a second while it has any, and lets its senders have as many in flight as it
processes in the target time. Where that is more than the channels hold in bytes, nothing changes.

An input begins with few records in flight, since nothing is known yet. It gets more only after the subtask has processed all that it had, at
most `GROWTH` times as many: so what is in flight is never much more than what was processed already.

A fast subtask may have a slow one behind it. It notices that only when the channels between them are full, and each subtask of a chain would
let more be in flight than the one behind it. So an input does not grow beyond the records that the subtask's own receivers let be in flight.

The rate is that of the last seconds: it divides records by time, and forgets both exponentially. An average of rates would be wrong for a subtask that is held
up again and again: it works in short bursts, and each of them is fast. A subtask that has become slow is noticed with the next measurement.
"""

from __future__ import annotations

import math
from typing import Final

from penstock.graph.stage import DebloatSettings

#: How many buffers make what may be in flight in a channel: so the receiver works on one while others come
BUFFERS: Final = 4
#: How many records may be in flight to an input before anything was measured
FIRST_RECORDS: Final = 4
#: How many times more records may be in flight after a measurement than before it
GROWTH: Final = 4
#: As many records as the channel has room for, in bytes
UNLIMITED: Final = 2**31 - 1
_SHORTEST_S: Final = 1e-6
# The last measurement may be this much slower than the average before it counts alone.
_SUDDEN: Final = 2


def buffer_records(window: int) -> int:
    """Return how many records a buffer has where so many may be in flight in its channel."""
    return max(1, window // BUFFERS)


class BufferDebloater:
    """Measures one input of a subtask. `clock` is in seconds, and stands still while there is nothing to process.

    >>> debloater = BufferDebloater(DebloatSettings(), clock=0.0)
    >>> debloater.window
    4
    >>> debloater.took(100)
    >>> debloater.is_due(0.2)
    True
    >>> debloater.measure(0.2)  # 500 records a second; but the window grows step by step
    16
    """

    __slots__ = ("_records", "_seconds", "_settings", "_since", "_taken", "_window")

    def __init__(self, settings: DebloatSettings, clock: float) -> None:
        self._settings = settings
        self._since = clock  # when it measured last
        self._records = self._seconds = 0.0  # of the last seconds
        self._taken = 0  # records since the last measurement
        self._window = float(FIRST_RECORDS)

    @property
    def window(self) -> int:
        """How many records may be in flight to the input."""
        return min(int(self._window), UNLIMITED)

    def took(self, records: int) -> None:
        """Take note that records were processed."""
        self._taken += records

    def is_due(self, clock: float) -> bool:
        """Whether it is time to measure: after a period, or earlier if all that may be in flight was processed."""
        return self._taken >= self._window or clock - self._since >= self._settings.period_s

    def measure(self, clock: float, downstream: float = math.inf) -> int:
        """Set and return the window.

        `downstream` is the number of records of this input that yield what the receivers of the subtask let be in flight.
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
        """Let no more be in flight than the receivers of the subtask do: what they do not take, it cannot process. Return the window."""
        self._window = max(1.0, min(self._window, downstream))
        return self.window

    def _averaged(self, seconds: float) -> float:
        """Return the records of a second. The last `samples` periods count most, and a longer time counts as one of that length."""
        span = max(self._settings.samples * self._settings.period_s, _SHORTEST_S)
        kept = math.exp(-2 * seconds / span)
        share = min(1.0, span / seconds)  # else a stall of minutes would be remembered for long
        self._records = self._records * kept + self._taken * share
        self._seconds = self._seconds * kept + seconds * share
        return self._records / self._seconds


def differs(new: int, old: int, percent: int) -> bool:
    """Whether a number has changed by so many percent.

    >>> differs(125, 100, 25), differs(80, 100, 25), differs(7, 7, 0)
    (True, False, False)
    """
    return new != old and 100 * abs(new - old) >= percent * old


def share(window: int, channels: int) -> int:
    """Return how many records may be in flight in each of so many channels; one may in any case."""
    return max(1, window // channels)
