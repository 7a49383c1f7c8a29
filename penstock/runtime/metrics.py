"""Metrics of user functions and operators, counted in tasks and added up on the driver.

A task counts one epoch, or where it stays its whole attempt; the driver keeps the totals of completed checkpoints (`merge`), so what
is run again is never counted twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from penstock.errors import ArgumentTypeError
from penstock.metrics import metricbase


class Counter(metricbase.Counter):
    """A number that is counted up and down."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Count up."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Count down."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count of this subtask in this epoch."""
        return self._count

    def reset(self) -> None:
        """Start again at zero."""
        self._count = 0


class Distribution(metricbase.Distribution):
    """Sum, count, minimum and maximum of reported values."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again without values."""
        self._sum = 0
        self._count = 0
        self._min: int | None = None
        self._max: int | None = None

    def update(self, value: int) -> None:
        """Report a value."""
        self._sum += value
        self._count += 1
        self._min = value if self._min is None else min(self._min, value)
        self._max = value if self._max is None else max(self._max, value)

    def report(self) -> dict[str, Any]:
        """Return what was reported so far."""
        return {"sum": self._sum, "count": self._count, "min": self._min, "max": self._max}


class Meter(metricbase.Meter):
    """Events per second, since the epoch began."""

    def __init__(self) -> None:
        self._count = 0
        self._since = time.monotonic()

    def mark_event(self, value: int = 1) -> None:
        """Report events."""
        self._count += value

    def get_count(self) -> int:
        """Return the number of events."""
        return self._count

    def get_rate(self) -> float:
        """Return events per second."""
        return self._count / max(time.monotonic() - self._since, 1e-3)

    def reset(self) -> None:
        """Start again at zero."""
        self._count = 0
        self._since = time.monotonic()


class MetricGroup(metricbase.MetricGroup):
    """A named group of metrics; groups nest."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._metrics: dict[str, Any] = {}
        self._groups: dict[str, MetricGroup] = {}

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a sub-group; with `extra`, the group of a key and its value."""
        path = name if extra is None else f"{name}.{extra}"
        group = self._groups.get(path)
        if group is None:
            group = self._groups[path] = MetricGroup(f"{self._prefix}{path}.")
        return group

    def counter(self, name: str) -> Counter:
        """Return the counter `name`."""
        return self._get(name, Counter)  # type: ignore[no-any-return]

    def distribution(self, name: str) -> Distribution:
        """Return the distribution `name`."""
        return self._get(name, Distribution)  # type: ignore[no-any-return]

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter `name`."""
        return self._get(name, Meter)  # type: ignore[no-any-return]

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Report what `obj()` returns at every barrier."""
        if not callable(obj):
            raise ArgumentTypeError(
                f"a gauge needs a callable, got {type(obj).__name__}",
                hint="pass a function without parameters that returns a number",
            )
        self._metrics[name] = obj

    def _get(self, name: str, create: Callable[[], Any]) -> Any:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = create()
        return metric

    def report(self) -> dict[str, Any]:
        """Return all values as {name: (kind, value)}."""
        values: dict[str, Any] = {}
        for name, metric in self._metrics.items():
            full = self._prefix + name
            if isinstance(metric, Counter):
                values[full] = ("counter", metric.get_count())
            elif isinstance(metric, Distribution):
                values[full] = ("distribution", metric.report())
            elif isinstance(metric, Meter):
                values[full] = ("meter", metric.get_count())
            else:
                values[full] = ("gauge", metric())
        for group in self._groups.values():
            values.update(group.report())
        return values

    def reset(self) -> None:
        """Start the next epoch: counts begin at zero, gauges stay."""
        for metric in self._metrics.values():
            if isinstance(metric, Counter | Distribution | Meter):
                metric.reset()
        for group in self._groups.values():
            group.reset()


def merge(total: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Add a subtask's report to the totals.

    >>> merge({"n": ("counter", 2)}, {"n": ("counter", 3)})
    {'n': ('counter', 5)}
    """
    merged = dict(total)
    for name, (kind, value) in report.items():
        before = merged.get(name)
        if before is None or kind == "gauge":
            merged[name] = (kind, value)
        elif kind == "distribution":
            old = before[1]
            extremes = [
                (pick, [x for x in (old[key], value[key]) if x is not None])
                for key, pick in (("min", min), ("max", max))
            ]
            low, high = (pick(found) if found else None for pick, found in extremes)
            merged[name] = (
                kind,
                {
                    "sum": old["sum"] + value["sum"],
                    "count": old["count"] + value["count"],
                    "min": low,
                    "max": high,
                },
            )
        else:
            merged[name] = (kind, before[1] + value)
    return merged
