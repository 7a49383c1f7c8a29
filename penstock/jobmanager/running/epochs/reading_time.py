"""How long the sources of an epoch read: shorter than the interval, if what they read takes much longer to process (a pure core)."""

from __future__ import annotations

from typing import Final

LONG_S: Final = 10.0  # an epoch may take so long, or two intervals, before its sources read less


class ReadingTime:
    """Learns from how long the last epochs took: a savepoint and a checkpoint wait for the epoch that runs.

    >>> reading = ReadingTime()
    >>> reading.took(500.0, interval_s=1.0)
    >>> reading.seconds(interval_s=1.0)
    0.02
    >>> reading.took(4.0, interval_s=1.0)
    >>> reading.seconds(interval_s=1.0)
    0.04
    """

    def __init__(self) -> None:
        self._share = 1.0

    def seconds(self, interval_s: float) -> float:
        """Return how long the sources of the next epoch read; each split gives a batch in any case."""
        return interval_s * self._share

    def took(self, epoch_s: float, interval_s: float) -> None:
        """Take note of how long an epoch took."""
        longest = max(LONG_S, 2 * interval_s)
        if epoch_s > longest:
            self._share *= longest / epoch_s
        elif epoch_s < longest / 2:
            self._share = min(1.0, 2 * self._share)
