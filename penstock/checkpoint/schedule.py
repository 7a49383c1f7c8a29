"""When checkpoints are due in pipelined mode, and when they expire. Pure: the caller passes the time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulePolicy:
    """The checkpointing settings, in seconds.

    `interval_s` is the time between two triggers; None: only on request. `min_pause_s` is the time between the end of one
    and the
    trigger of the next, which makes `max_concurrent` 1. `timeout_s` is the checkpoint timeout; None: no limit.
    """

    interval_s: float | None
    min_pause_s: float = 0.0
    max_concurrent: int = 1
    timeout_s: float | None = None

    @property
    def at_most(self) -> int:
        """The maximum number of concurrent checkpoints."""
        return 1 if self.min_pause_s > 0 else self.max_concurrent


class CheckpointSchedule:
    """Tracks pending checkpoints, and when the next one is due.

    Times are seconds of any monotonic clock. Requested checkpoints (for a savepoint, or the last one) may be triggered at any
    time, and are reported here like the others.
    """

    def __init__(self, policy: SchedulePolicy) -> None:
        self._policy = policy
        # When each pending checkpoint was triggered, by id.
        self._under_way: dict[int, float] = {}
        # When the next periodic trigger is due; None: never.
        self._next_at: float | None = None
        # When the minimum pause after the last checkpoint ends.
        self._pause_until: float | None = None

    def start(self, now_s: float, *, at_once: bool = False) -> None:
        """Start with no pending checkpoint; the first one is due after an interval, or immediately."""
        self._under_way = {}
        self._pause_until = None
        interval = self._policy.interval_s
        self._next_at = None if interval is None else now_s + (0.0 if at_once else interval)

    @property
    def under_way(self) -> list[int]:
        """The pending checkpoints."""
        return sorted(self._under_way)

    def is_due(self, now_s: float) -> bool:
        """Whether a checkpoint should be triggered now."""
        due_at = self._due_at()
        return due_at is not None and due_at <= now_s

    def expired(self, now_s: float) -> list[int]:
        """Return the checkpoints that have exceeded the timeout, oldest first."""
        timeout = self._policy.timeout_s
        if timeout is None:
            return []
        return [n for n in self.under_way if self._under_way[n] + timeout <= now_s]

    def seconds_left(self, now_s: float) -> float | None:
        """Return the time until something is due or expires; None if that depends on other events only."""
        times = [self._due_at()]
        if self._policy.timeout_s is not None:
            times += [began + self._policy.timeout_s for began in self._under_way.values()]
        known = [time for time in times if time is not None]
        return max(0.0, min(known) - now_s) if known else None

    def on_triggered(self, number: int, now_s: float) -> None:
        """Record that a checkpoint was triggered.

        The next one is due an interval later, even if this one was early. Missed triggers are not made up for.
        """
        self._under_way[number] = now_s
        if self._policy.interval_s is not None:
            self._next_at = now_s + self._policy.interval_s

    def on_over(self, number: int, now_s: float) -> None:
        """Record that a checkpoint was completed or aborted."""
        if self._under_way.pop(number, None) is not None:
            self._pause_until = now_s + self._policy.min_pause_s

    def _due_at(self) -> float | None:
        """Return the time from which the next one may be triggered; None if that depends on other events."""
        if self._next_at is None or len(self._under_way) >= self._policy.at_most:
            return None
        return self._next_at if self._pause_until is None else max(self._next_at, self._pause_until)
