"""Computes a job's load and capacity from completed epochs. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# An epoch that read for nearly its whole interval was stopped by its deadline, not by the end of the data.
_FULL = 0.95


@dataclass(frozen=True, slots=True)
class SourceObservation:
    """The observation of one source in one epoch.

    The backlogs are the results of `SplitEnumerator.backlog` right before and right after the epoch, in `unit`; None if unknown.
    """

    operator_id: str
    records: int
    backlog_before: int | None = None
    backlog_after: int | None = None
    unit: str = "records"


@dataclass(frozen=True, slots=True)
class IntervalObservation:
    """One completed epoch, as the input of the autoscaler.

    `busy_s` are the seconds of the epoch in which the job was busy: its whole duration, if nothing better is known. `interval_ms` is the
    regular time between the starts of two epochs. `data_left`: sources had more to read when the epoch ended. `max_parallelism` is the
    highest parallelism that the plan allows, `cores` the number of tasks that can run at once; None if unknown.
    """

    checkpoint_id: int
    start_ms: int
    end_ms: int
    interval_ms: int
    parallelism: int
    busy_s: float
    sources: tuple[SourceObservation, ...]
    data_left: bool = False
    max_parallelism: int | None = None
    cores: int | None = None

    @property
    def records(self) -> int:
        """The records that all sources read."""
        return sum(source.records for source in self.sources)

    @property
    def saturated(self) -> bool:
        """Whether it read until its deadline and left data. Sources that always report data are ignored."""
        return self.data_left and self.busy_s * 1000 >= _FULL * self.interval_ms


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a job over some epochs with one parallelism.

    `arrival` is the rate of arriving records per second, `capacity` the records that one subtask can process per second (None if there
    were none). `backlog` is the number of waiting records at the end, beyond those of a regular epoch; None if unknown. `behind`: the
    job did not keep up at the end.
    """

    parallelism: int
    arrival: float
    capacity: float | None
    backlog: float | None
    behind: bool

    @property
    def utilization(self) -> float:
        """The share of the job's capacity that the arriving records need; above 1 if the job cannot keep up."""
        return 0.0 if self.capacity is None else self.arrival / (self.capacity * self.parallelism)


def measure(window: Sequence[IntervalObservation]) -> Load:
    """Return the load over consecutive epochs with the same parallelism.

    Arriving records are counted from the start of the first epoch to the start of the last one, so that sources that discover data only
    before an epoch and sources that discover it at any time are comparable.
    """
    last = window[-1]
    records = sum(interval.records for interval in window)
    busy = sum(interval.busy_s for interval in window)
    if not records or busy <= 0:
        return Load(last.parallelism, 0.0, None, None, behind=False)
    total = records / busy
    capacity = total / last.parallelism
    known = _known_backlogs(window) if len(window) > 1 else None
    if known is None:
        return Load(last.parallelism, _used(window) * total, capacity, None, last.saturated)
    grown, waiting = known
    elapsed = max(last.start_ms - window[0].start_ms, 1) / 1000
    arrival = max(0.0, records - last.records + grown) / elapsed
    period = max(last.interval_ms, last.end_ms - last.start_ms) / 1000
    backlog = max(0.0, waiting - arrival * period)
    behind = backlog > total * last.interval_ms / 1000
    return Load(last.parallelism, arrival, capacity, backlog, behind)


def _used(window: Sequence[IntervalObservation]) -> float:
    """Return the busy share of the time; how much more a saturated epoch could have read is unknown."""
    last = window[-1]
    ends = [interval.start_ms for interval in window[1:]]
    ends.append(max(last.end_ms, last.start_ms + last.interval_ms))
    worked = 0.0
    for interval, end in zip(window, ends, strict=True):
        period = (end - interval.start_ms) / 1000
        worked += period if interval.saturated else min(interval.busy_s, period)
    return worked * 1000 / max(ends[-1] - window[0].start_ms, 1)


def _known_backlogs(window: Sequence[IntervalObservation]) -> tuple[float, float] | None:
    """Return the growth of the backlogs of all sources up to the last epoch, and their size after it, in records.

    None if the backlog of a source is unknown.
    """
    grown = waiting = 0.0
    for source in window[-1].sources:
        found = _known_backlog(
            [
                each
                for interval in window
                for each in interval.sources
                if each.operator_id == source.operator_id
            ]
        )
        if found is None:
            return None
        grown += found[0]
        waiting += found[1]
    return grown, waiting


def _known_backlog(intervals: Sequence[SourceObservation]) -> tuple[float, float] | None:
    """Return the growth and the size of one source's backlog in records.

    Bytes are converted to records by the ratio that the epochs have read. A hybrid source may change its unit when it switches to the
    next source: then earlier epochs are ignored.
    """
    unit = intervals[-1].unit
    before: list[int] = []
    after: list[int] = []
    records = 0
    for interval in reversed(intervals):
        if (
            interval.unit != unit
            or interval.backlog_before is None
            or interval.backlog_after is None
        ):
            break
        before.append(interval.backlog_before)
        after.append(interval.backlog_after)
        records += interval.records
    if not before:
        return None
    growth, waiting = before[0] - before[-1], after[0]
    if unit == "records" or not (growth or waiting):
        return growth, waiting
    read = sum(max(0, old - new) for old, new in zip(before, after, strict=True))
    if not read:
        return None
    return growth * records / read, waiting * records / read
