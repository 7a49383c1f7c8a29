"""Limits how many records a subtask processes at once, so that slow functions do not delay barriers and timers."""

from __future__ import annotations

from typing import Final

FIRST: Final = 16  # before it is known how long a record takes
LARGEST: Final = 16_384
_GROWTH: Final = 4
_LONG_S: Final = 0.020  # a portion that takes longer is too large
_SHORT_S: Final = 0.005  # one that takes less may be larger
_AIM_S: Final = 0.010
_VERY_LONG_S: Final = 0.050  # a portion that takes longer is certainly too large; others may have had to wait for a CPU
_SHORTEST_S: Final = 1e-6


class PortionSize:
    """Adapts to the duration of the last portions (a pure core).

    >>> portion = PortionSize()
    >>> portion.took(16, 0.080)  # five milliseconds for each record
    >>> portion.size
    2
    >>> portion.took(2, 0.001)
    >>> portion.size
    8
    >>> portion.took(8, 0.004)
    >>> portion.size
    20
    >>> portion.took(20, 0.030)  # a single slow portion is ignored
    >>> portion.size
    20
    """

    __slots__ = ("_was_long", "size")

    def __init__(self) -> None:
        self.size = FIRST
        self._was_long = False

    def took(self, records: int, seconds: float) -> None:
        """Record the duration of a portion."""
        was_long, self._was_long = self._was_long, seconds > _LONG_S
        if seconds > _LONG_S:
            if was_long or seconds > _VERY_LONG_S:
                self.size = max(1, int(records * _AIM_S / seconds))
        elif seconds < _SHORT_S and _GROWTH * records >= self.size < LARGEST:
            possible = int(records * _AIM_S / max(seconds, _SHORTEST_S))
            self.size = max(self.size, min(possible, _GROWTH * self.size, LARGEST))
