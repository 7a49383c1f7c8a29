"""Chooses a job's parallelism from its load. A state machine without a clock and without I/O.

The rule, with `arrival` and `capacity` in records per second (capacity of one subtask) and `backlog` in records:

    needed = arrival / target utilization + backlog / catch-up duration parallelism = needed / capacity, rounded up

The job is scaled up when it needs more than it has even at the maximum utilization, and down when its load was low for the whole
scale-down interval. Three rules prevent oscillation: there is a gap between the target utilization and the one that triggers the
next change; the throughput of a parallelism that was too low is remembered; and an increase without effect is not followed by
another one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from penstock.jobmanager.rescaling.load import (
    IntervalObservation,
    Load,
    SourceObservation,
    measure,
)
from penstock.options.autoscaler_settings import AutoscalerSettings

# Fewer epochs than this are not significant.
MIN_INTERVALS = 3
# A window of short epochs has thousands of them, and its average changes slowly: it is not evaluated after every epoch.
_LOOKS_PER_WINDOW = 200
# How long a parallelism that was too low is remembered: jobs and their data change.
_MEMORY_MS = 24 * 3600 * 1000
_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """A new parallelism for the job, and the reason."""

    former: int
    parallelism: int
    reason: str

    def __str__(self) -> str:
        way = "up" if self.parallelism > self.former else "down"
        return f"scale {way} from {self.former} to {self.parallelism}: {self.reason}"


@dataclass(frozen=True, slots=True)
class _Increase:
    """The last increase, and the job's capacity before it, in records per second."""

    former: int
    parallelism: int
    capacity: float


class Autoscaler:
    """Observes every completed epoch and decides when the parallelism should change.

    The caller may carry a decision out or not: only the parallelism of the next observation counts.
    """

    def __init__(self, settings: AutoscalerSettings) -> None:
        self.settings = settings
        # Epochs with the current parallelism, oldest first, without the first one, which restores state and warms up.
        self._window: deque[IntervalObservation] = deque()
        self._parallelism: int | None = None  # of the last observation; None before the first
        self._changed_ms = 0  # when the parallelism changed last, or should have
        self._quiet: deque[tuple[int, int]] = deque()  # (end, recommendation): highest first
        self._quiet_since_ms = 0  # meaningless while `_quiet` is empty
        self._too_little: dict[int, tuple[float, int]] = {}  # parallelism -> (records/s, when)
        self._increase: _Increase | None = None
        self._look_ms = 0  # when the window is evaluated next

    def reset(self) -> None:
        """Discard all measurements: the time of a failure and a restart does not reflect the load."""
        self._window.clear()
        self._quiet.clear()
        self._parallelism = None

    def observe(self, interval: IntervalObservation) -> ScalingDecision | None:
        """Record an epoch; return a decision if the parallelism should change."""
        first = self._parallelism is None
        self._take(interval)
        decision = self._enforce_bounds(interval) if first or self._is_stable(interval) else None
        if (
            decision is None
            and len(self._window) >= MIN_INTERVALS
            and interval.end_ms >= self._look_ms
        ):
            self._look_ms = interval.end_ms + self.settings.window_ms // _LOOKS_PER_WINDOW
            window = tuple(self._window)
            load = measure(window)
            self._note_quiet(interval, (load, measure(window[-MIN_INTERVALS:])))
            if self._is_stable(interval):
                decision = self._scale_up(interval, load) or self._scale_down(interval, load)
        if decision is not None:
            self._changed_ms = interval.end_ms
            self._quiet.clear()
        return decision

    def _take(self, interval: IntervalObservation) -> None:
        window = self._window
        if self._parallelism != interval.parallelism:
            self._parallelism = interval.parallelism
            self._changed_ms = interval.start_ms
            self._quiet.clear()
            window.clear()
            return
        window.append(interval)
        begin = interval.end_ms - self.settings.window_ms
        while len(window) > MIN_INTERVALS and window[0].start_ms < begin:
            window.popleft()

    def _is_stable(self, interval: IntervalObservation) -> bool:
        return interval.end_ms - self._changed_ms >= self.settings.stabilization_ms

    # Bounds

    def _bounds(self, interval: IntervalObservation) -> tuple[int, int]:
        highest = self.settings.max_parallelism
        if interval.max_parallelism is not None:
            highest = min(highest, interval.max_parallelism)
        return min(self.settings.min_parallelism, highest), highest

    def _enforce_bounds(self, interval: IntervalObservation) -> ScalingDecision | None:
        lowest, highest = self._bounds(interval)
        inside = min(max(interval.parallelism, lowest), highest)
        if inside == interval.parallelism:
            return None
        return ScalingDecision(
            interval.parallelism, inside, f"the parallelism must be between {lowest} and {highest}"
        )

    # Up

    def _scale_up(self, interval: IntervalObservation, load: Load) -> ScalingDecision | None:
        if load.capacity is None:
            return None
        current = interval.parallelism
        has = load.capacity * current
        if load.arrival / self.settings.max_utilization + self._catch_up(load) < has * (
            1 - _EPSILON
        ):
            return None
        wanted = min(self._recommended(load), self._ceiling(interval))
        if wanted <= current or self._had_no_effect(current, has):
            return None
        self._increase = _Increase(current, wanted, has)
        self._too_little[current] = (has, interval.end_ms)
        return ScalingDecision(current, wanted, self._describe(load, self.settings.max_utilization))

    def _ceiling(self, interval: IntervalObservation) -> int:
        current = interval.parallelism
        highest = self._bounds(interval)[1]
        if interval.cores is not None:
            highest = min(highest, max(interval.cores, current))
        factor = self.settings.scale_up_factor
        if factor <= 0:
            return current
        return min(highest, max(current + 1, math.floor(min(current * (1 + factor), highest))))

    def _had_no_effect(self, current: int, capacity: float) -> bool:
        increase = self._increase
        if not self.settings.detects_effect or increase is None:
            return False
        if increase.parallelism != current:
            return False
        expected = increase.capacity * (current - increase.former) / increase.former
        gained = capacity - increase.capacity
        return gained < self.settings.effect_threshold * expected

    # Down

    def _note_quiet(self, interval: IntervalObservation, loads: tuple[Load, ...]) -> None:
        """Record the recommendations since the load became low; discard them if it is not low any more.

        The higher load of the whole window and its last epochs is used: a rising load must not be scaled down because of its past.
        """
        recommended = max(map(self._recommended, loads))
        used = max(load.utilization for load in loads)
        behind = any(load.behind for load in loads)
        if behind or used >= self.settings.min_utilization or recommended >= interval.parallelism:
            self._quiet.clear()
            return
        if not self._quiet:
            self._quiet_since_ms = interval.start_ms
        begin = interval.end_ms - self.settings.scale_down_ms
        # Only the highest recommendation of the interval counts, so lower ones before a higher one are dropped.
        while self._quiet and self._quiet[-1][1] <= recommended:
            self._quiet.pop()
        self._quiet.append((interval.end_ms, recommended))
        while self._quiet[0][0] < begin:
            self._quiet.popleft()

    def _scale_down(self, interval: IntervalObservation, load: Load) -> ScalingDecision | None:
        if not self._quiet or interval.end_ms - self._quiet_since_ms < self.settings.scale_down_ms:
            return None
        current = interval.parallelism
        fewest = math.ceil(current * (1 - self.settings.scale_down_factor) - _EPSILON)
        wanted = max(self._quiet[0][1], fewest, self._bounds(interval)[0])
        wanted = self._enough(wanted, load, interval.end_ms)
        if wanted >= current:
            return None
        reason = self._describe(load, self.settings.min_utilization)
        if self.settings.scale_down_ms:
            reason += f" for {_seconds(self.settings.scale_down_ms)}"
        return ScalingDecision(current, wanted, reason)

    def _enough(self, wanted: int, load: Load, now_ms: int) -> int:
        """Return a parallelism that is not known to be too low for this load."""
        needed = load.arrival / self.settings.target
        for parallelism in sorted(self._too_little):
            capacity, when = self._too_little[parallelism]
            if now_ms - when > _MEMORY_MS:
                del self._too_little[parallelism]
            elif parallelism >= wanted and capacity < needed:
                wanted = parallelism + 1
        return wanted

    # Both

    def _recommended(self, load: Load) -> int:
        """Return the parallelism by the rule, without bounds."""
        if load.capacity is None:
            return 1
        needed = load.arrival / self.settings.target + self._catch_up(load)
        return max(1, math.ceil(needed / load.capacity - _EPSILON))

    def _catch_up(self, load: Load) -> float:
        """Return the records per second needed to process the backlog in time."""
        if not load.backlog or not self.settings.catch_up_ms:
            return 0.0
        return load.backlog * 1000 / self.settings.catch_up_ms

    def _describe(self, load: Load, bound: float) -> str:
        if load.capacity is None:
            return "no records arrive"
        text = (
            f"{load.arrival:,.0f} records/s arrive, a subtask can process {load.capacity:,.0f}; "
            f"utilization {load.utilization:.2f}"
        )
        if self._catch_up(load) and load.utilization < bound:
            assert load.backlog is not None
            return f"{text}, backlog {load.backlog:,.0f} records"
        side = "above" if load.utilization >= bound else "below"
        return f"{text} is {side} {bound:.2f}"


def _seconds(millis: int) -> str:
    return f"{millis / 1000:g} s"


__all__ = [
    "MIN_INTERVALS",
    "Autoscaler",
    "IntervalObservation",
    "Load",
    "ScalingDecision",
    "SourceObservation",
    "measure",
]
