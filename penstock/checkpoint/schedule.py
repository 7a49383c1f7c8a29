"""When checkpoints are due in tasks that stay, and when one has taken too long. Pure: whoever asks tells the time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulePolicy:
    """How often checkpoints are taken, in seconds.

    `interval_s` is from one trigger to the next, None: only if somebody wants one. `min_pause_s` is from the end of one to the
    trigger of the next, which makes `max_concurrent` 1. `timeout_s` is how long one may take; None: for ever.
    """

    interval_s: float | None
    min_pause_s: float = 0.0
    max_concurrent: int = 1
    timeout_s: float | None = None

    @property
    def at_most(self) -> int:
        """How many checkpoints may be under way at a time."""
        return 1 if self.min_pause_s > 0 else self.max_concurrent


class CheckpointSchedule:
    """Knows which checkpoints are under way, and when the next is due.

    Times are seconds on any clock that does not go back. One that somebody wants, for a savepoint or because it is the last, is
    triggered at any time, and told here like the others.
    """

    def __init__(self, policy: SchedulePolicy) -> None:
        self._policy = policy
        # When each checkpoint that is under way was triggered, by number.
        self._under_way: dict[int, float] = {}
        # When the interval since the last trigger is over; None: it never is.
        self._next_at: float | None = None
        # Until when the minimum pause since the last end lasts.
        self._pause_until: float | None = None

    def start(self, now_s: float, *, at_once: bool = False) -> None:
        """Begin anew, with no checkpoint under way; the first is due after an interval, or at once."""
        self._under_way = {}
        self._pause_until = None
        interval = self._policy.interval_s
        self._next_at = None if interval is None else now_s + (0.0 if at_once else interval)

    @property
    def under_way(self) -> list[int]:
        """The checkpoints that were triggered and are not over."""
        return sorted(self._under_way)

    def is_due(self, now_s: float) -> bool:
        """Whether a checkpoint is to be triggered now."""
        due_at = self._due_at()
        return due_at is not None and due_at <= now_s

    def expired(self, now_s: float) -> list[int]:
        """Return the checkpoints whose time is over, oldest first."""
        timeout = self._policy.timeout_s
        if timeout is None:
            return []
        return [n for n in self.under_way if self._under_way[n] + timeout <= now_s]

    def seconds_left(self, now_s: float) -> float | None:
        """Return how long nothing is due and nothing expires; None if that depends on others alone."""
        times = [self._due_at()]
        if self._policy.timeout_s is not None:
            times += [began + self._policy.timeout_s for began in self._under_way.values()]
        known = [time for time in times if time is not None]
        return max(0.0, min(known) - now_s) if known else None

    def on_triggered(self, number: int, now_s: float) -> None:
        """Take note that a checkpoint was triggered.

        The next is due an interval later, also if this one came early. What was missed is not made up for.
        """
        self._under_way[number] = now_s
        if self._policy.interval_s is not None:
            self._next_at = now_s + self._policy.interval_s

    def on_over(self, number: int, now_s: float) -> None:
        """Take note that a checkpoint is complete, or was given up."""
        if self._under_way.pop(number, None) is not None:
            self._pause_until = now_s + self._policy.min_pause_s

    def _due_at(self) -> float | None:
        """Return from when on the next one may be triggered; None if that depends on others."""
        if self._next_at is None or len(self._under_way) >= self._policy.at_most:
            return None
        return self._next_at if self._pause_until is None else max(self._next_at, self._pause_until)
