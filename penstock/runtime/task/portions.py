"""How many records a subtask takes at once, so that a slot whose functions are slow still hears of barriers and timers in time."""

from __future__ import annotations

from typing import Final

FIRST: Final = 16  # before it is known how long a record takes
LARGEST: Final = 16_384
_GROWTH: Final = 4
_LONG_S: Final = 0.020  # a portion that takes longer is too large
_SHORT_S: Final = 0.005  # one that takes less may be larger
_AIM_S: Final = 0.010
_VERY_LONG_S: Final = 0.050  # one that takes longer is too large for sure; others may have had to wait for a processor
_SHORTEST_S: Final = 1e-6


class Portion:
    """Learns from what the last portions took (a pure core).

    >>> portion = Portion()
    >>> portion.took(16, 0.080)  # five milliseconds for each record
    >>> portion.size
    2
    >>> portion.took(2, 0.001)
    >>> portion.size
    8
    >>> portion.took(8, 0.004)
    >>> portion.size
    20
    >>> portion.took(20, 0.030)  # once: something else has kept it
    >>> portion.size
    20
    """

    __slots__ = ("_was_long", "size")

    def __init__(self) -> None:
        self.size = FIRST
        self._was_long = False

    def took(self, records: int, seconds: float) -> None:
        """Take note of how long so many records took."""
        was_long, self._was_long = self._was_long, seconds > _LONG_S
        if seconds > _LONG_S:
            if was_long or seconds > _VERY_LONG_S:
                self.size = max(1, int(records * _AIM_S / seconds))
        elif seconds < _SHORT_S and _GROWTH * records >= self.size < LARGEST:
            possible = int(records * _AIM_S / max(seconds, _SHORTEST_S))
            self.size = max(self.size, min(possible, _GROWTH * self.size, LARGEST))
