"""The reading time of sources in an epoch: shorter than the interval if processing takes much longer (a pure core)."""

from __future__ import annotations

from typing import Final

LONG_S: Final = (
    10.0  # an epoch may take this long, or two intervals, before the reading time is shortened
)


class EpochReadingTime:
    """Adapts the reading time to the duration of the last epochs, because savepoints and checkpoints wait for the running epoch.

    >>> reading = EpochReadingTime()
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
        """Return the reading time of the next epoch; each split is read for at least one batch."""
        return interval_s * self._share

    def took(self, epoch_s: float, interval_s: float) -> None:
        """Record the duration of an epoch."""
        longest = max(LONG_S, 2 * interval_s)
        if epoch_s > longest:
            self._share *= longest / epoch_s
        elif epoch_s < longest / 2:
            self._share = min(1.0, 2 * self._share)
