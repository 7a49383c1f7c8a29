"""Time shares of a subtask: busy, backpressured, or idle (waiting for input, or for its turn in the slot)."""

from __future__ import annotations

from typing import Final

from penstock.runtime.task.shared import task_metrics as names

IDLE: Final = 0
BUSY: Final = 1
BACK_PRESSURED: Final = 2

_NAMES: Final = (names.IDLE, names.BUSY, names.BACK_PRESSURED)
_TOTALS: Final = (names.TOTAL_IDLE, names.TOTAL_BUSY, names.TOTAL_BACK_PRESSURED)


class TimeShares:
    """Sums up how long a subtask was in each state. Times are seconds of any monotonic clock.

    >>> shares = TimeShares(10.0)
    >>> shares.enter(BUSY, 10.25)
    >>> shares.enter(IDLE, 10.5)
    >>> shares.report(12.0)
    {'idleTimeMsPerSecond': 875, 'busyTimeMsPerSecond': 125, 'backPressuredTimeMsPerSecond': 0}
    >>> shares.totals()
    {'accumulateIdleTimeMs': 1750, 'accumulateBusyTimeMs': 250, 'accumulateBackPressuredTimeMs': 0}
    """

    __slots__ = ("_begun", "_seconds", "_since", "_totals", "state")

    def __init__(self, now: float) -> None:
        self._seconds = [0.0, 0.0, 0.0]
        self._totals = [0.0, 0.0, 0.0]  # up to the last report
        self._begun = self._since = now
        self.state = IDLE

    def enter(self, state: int, now: float) -> None:
        """Record the state from now on."""
        self._seconds[self.state] += now - self._since
        self._since = now
        self.state = state

    def report(self, now: float) -> dict[str, int]:
        """Return the milliseconds per second in each state since the last report, which add up to 1000; start again."""
        self.enter(self.state, now)
        scale = 1000 / max(now - self._begun, 1e-9)
        shares = [round(seconds * scale) for seconds in self._seconds]
        shares[IDLE] = 1000 - shares[BUSY] - shares[BACK_PRESSURED]
        self._totals = [
            before + each for before, each in zip(self._totals, self._seconds, strict=True)
        ]
        self._seconds = [0.0, 0.0, 0.0]
        self._begun = now
        return dict(zip(_NAMES, shares, strict=True))

    def totals(self) -> dict[str, int]:
        """Return the milliseconds in each state from the beginning up to the last report."""
        return {
            name: round(seconds * 1000) for name, seconds in zip(_TOTALS, self._totals, strict=True)
        }
