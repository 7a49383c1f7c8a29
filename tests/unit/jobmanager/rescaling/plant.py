"""A job in a simulation: records arrive, epochs read them, the autoscaler decides. Time is a number."""

from __future__ import annotations

from itertools import pairwise

from penstock.jobmanager.rescaling.autoscaler import (
    Autoscaler,
    IntervalObservation,
    SourceObservation,
)
from penstock.options.autoscaler_settings import AutoscalerSettings

# Minutes of Flink's defaults are seconds here, so that simulations are short.
QUICK = AutoscalerSettings(
    enabled=True,
    stabilization_ms=5_000,
    window_ms=15_000,
    catch_up_ms=30_000,
    scale_down_ms=60_000,
)
BYTES_PER_RECORD = 40


class Plant:
    """A job whose subtasks work as fast as `curve(parallelism)` records per second in all.

    An epoch takes `overhead` seconds and the time for its records; it reads until its interval is over. `unit` is what the
    source tells its backlog in, None if it cannot tell.
    """

    def __init__(
        self,
        curve,
        parallelism=1,
        *,
        settings=QUICK,
        overhead=0.05,
        interval=1.0,
        unit=None,
        waiting=0.0,
        cores=None,
        max_parallelism=128,
    ):
        self.curve = curve
        self.parallelism = parallelism
        self.autoscaler = Autoscaler(settings)
        self.overhead = overhead
        self.interval = interval
        self.unit = unit
        self.waiting = float(waiting)
        self.cores = cores
        self.max_parallelism = max_parallelism
        self.now = 1_000.0
        self.checkpoint_id = 0
        self.changes = []  # (time, former, new)
        self.reasons = []
        self.history = []  # (time, parallelism)

    def _backlog(self):
        if self.unit is None:
            return None
        return int(self.waiting) * (BYTES_PER_RECORD if self.unit == "bytes" else 1)

    def run(self, seconds, arrival):
        """Run epochs; `arrival(time)` are the records per second."""
        end = self.now + seconds
        while self.now < end:
            self.step(arrival)
        return self

    def step(self, arrival):
        start, rate, capacity = self.now, arrival(self.now), self.curve(self.parallelism)
        before = self._backlog()
        read = int(min(self.waiting, capacity * self.interval))
        busy = self.overhead + read / capacity
        if self.unit == "bytes":  # such a source finds new data between two epochs only
            self.waiting -= read
            after = self._backlog()
            self.waiting += rate * busy
        else:
            self.waiting += rate * busy - read
            after = self._backlog()
        self.checkpoint_id += 1
        left = self.waiting - rate * busy >= 1
        decision = self.autoscaler.observe(
            IntervalObservation(
                checkpoint_id=self.checkpoint_id,
                start_ms=round(start * 1000),
                end_ms=round((start + busy) * 1000),
                interval_ms=round(self.interval * 1000),
                parallelism=self.parallelism,
                busy_s=busy,
                sources=(SourceObservation("in", read, before, after, self.unit or "records"),),
                data_left=left,
                max_parallelism=self.max_parallelism,
                cores=self.cores,
            )
        )
        pause = max(0.0, self.interval - busy)
        self.waiting += rate * pause
        self.now = start + busy + pause
        if decision is not None:
            assert decision.former == self.parallelism
            self.changes.append((self.now, self.parallelism, decision.parallelism))
            self.reasons.append(decision.reason)
            self.parallelism = decision.parallelism
        self.history.append((self.now, self.parallelism))


def linear(per_subtask):
    return lambda parallelism: per_subtask * parallelism


def constant(rate):
    return lambda _: rate


def flaps(changes):
    """How often the direction of change turns."""
    ups = [new > former for _, former, new in changes]
    return sum(one != other for one, other in pairwise(ups))
