"""Metrics of user functions and operators, counted in tasks and aggregated on the driver.

A task counts during one epoch or, in pipelined mode, its whole attempt. It reports its metrics at barriers
(`MetricGroup.report`), of which the driver keeps the totals of completed checkpoints (`merge`), so that repeated work is never
counted twice; and at any time as they are (`MetricGroup.measure`), for display.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.metrics import metricbase

_log = logging.getLogger(__name__)

_LONGEST_TEXT: Final = 200  # of a gauge's value

# A measured value: a kind ("counter", "gauge", "meter", "distribution") and a JSON value; if the name contains key-value
# groups, also
# the name without the values, and the labels: ("gauge", 7, "topic.offset", (("topic", "orders"),)).
Measured = tuple[Any, ...]


class SimpleCounter(metricbase.Counter):
    """A number that can be incremented and decremented."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Increment."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Decrement."""
        self._count -= n

    def get_count(self) -> int:
        """Return the count of this subtask since the last reset."""
        return self._count

    def reset(self) -> None:
        """Reset to zero."""
        self._count = 0


class SimpleDistribution(metricbase.Distribution):
    """Sum, count, minimum and maximum of reported values."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Discard all values."""
        self._sum = 0
        self._count = 0
        self._min: int | None = None
        self._max: int | None = None

    def update(self, value: int) -> None:
        """Add a value."""
        self._sum += value
        self._count += 1
        self._min = value if self._min is None else min(self._min, value)
        self._max = value if self._max is None else max(self._max, value)

    def report(self) -> dict[str, Any]:
        """Return the aggregated values."""
        return {"sum": self._sum, "count": self._count, "min": self._min, "max": self._max}


class SlidingMeter(metricbase.Meter):
    """Events per second over the last seconds.

    Marking an event is an addition. The rate is computed over the time since the first read within the span, so it must be
    read regularly.
    """

    def __init__(
        self, time_span_in_seconds: int = 60, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = 0
        self._before = 0  # count up to the last reset
        self._span = time_span_in_seconds
        self._clock = clock
        self._asked: deque[tuple[float, int]] = deque([(clock(), 0)])

    def mark_event(self, value: int = 1) -> None:
        """Mark events."""
        self._count += value

    def get_count(self) -> int:
        """Return the number of events of this subtask since the last reset."""
        return self._count

    def get_rate(self) -> float:
        """Return events per second."""
        now, count = self._clock(), self._before + self._count
        asked = self._asked
        while len(asked) > 1 and asked[1][0] <= now - self._span:
            asked.popleft()
        since, then = asked[0]
        if now > asked[-1][0]:
            asked.append((now, count))
        return (count - then) / max(now - since, 1.0)

    def reset(self) -> None:
        """Reset the count to zero; the rate continues."""
        self._before += self._count
        self._count = 0


class OperatorMetricGroup(metricbase.MetricGroup):
    """A named group of metrics; groups nest.

    Metric names are prefixed with the names of all enclosing groups. The value of a key-value group is also a label.
    """

    def __init__(
        self, prefix: str = "", logical: str = "", labels: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._prefix = prefix
        self._logical = logical  # the same without the values of key-value groups
        self._labels = labels
        self._metrics: dict[str, Any] = {}
        self._groups: dict[tuple[str, str | None], OperatorMetricGroup] = {}
        self._failed: set[str] = set()  # gauges whose failure was logged

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetricGroup:
        """Return a sub-group; with `extra`, a key-value group."""
        _check_name(name)
        group = self._groups.get((name, extra))
        if group is None:
            path = name if extra is None else f"{name}.{extra}"
            labels = self._labels if extra is None else (*self._labels, (name, str(extra)))
            group = OperatorMetricGroup(f"{self._prefix}{path}.", f"{self._logical}{name}.", labels)
            self._groups[name, extra] = group
        return group

    def counter(self, name: str) -> SimpleCounter:
        """Return the counter `name`."""
        return self._get(name, SimpleCounter)  # type: ignore[no-any-return]

    def distribution(self, name: str) -> SimpleDistribution:
        """Return the distribution `name`."""
        return self._get(name, SimpleDistribution)  # type: ignore[no-any-return]

    def meter(self, name: str, time_span_in_seconds: int = 60) -> SlidingMeter:
        """Return the meter `name`, with the rate of the last `time_span_in_seconds` seconds."""
        if not isinstance(time_span_in_seconds, int) or time_span_in_seconds < 1:
            raise ArgumentError(
                f"invalid time span of meter '{name}': {time_span_in_seconds!r}",
                hint="use whole seconds, at least 1",
            )
        return self._get(name, lambda: SlidingMeter(time_span_in_seconds))  # type: ignore[no-any-return]

    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Report the result of `obj()`: once a second in pipelined mode, and at every barrier."""
        if not callable(obj):
            raise ArgumentTypeError(
                f"a gauge needs a callable, got {type(obj).__name__}",
                hint="pass a function without parameters that returns a number",
            )
        _check_name(name)
        self._metrics[name] = obj

    def _get(self, name: str, create: Callable[[], Any]) -> Any:
        metric = self._metrics.get(name)
        if metric is None:
            _check_name(name)
            metric = self._metrics[name] = create()
        return metric

    def _ask(self, name: str, gauge: Callable[[], Any]) -> Any:
        """Return the value of a gauge, None if it fails: a metric must not fail a job."""
        try:
            return gauge()
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            if name not in self._failed:
                self._failed.add(name)
                _log.warning("gauge '%s%s' failed: %r", self._prefix, name, error)
            return None

    def report(self) -> dict[str, Any]:
        """Return all values as {name: (kind, value)}, for totals."""
        values: dict[str, Any] = {}
        for name, metric in self._metrics.items():
            full = self._prefix + name
            if isinstance(metric, SimpleCounter):
                values[full] = ("counter", metric.get_count())
            elif isinstance(metric, SimpleDistribution):
                values[full] = ("distribution", metric.report())
            elif isinstance(metric, SlidingMeter):
                values[full] = ("meter", metric.get_count())
            elif (value := self._ask(name, metric)) is not None:
                values[full] = ("gauge", value)
        for group in self._groups.values():
            values.update(group.report())
        return values

    def measure(self) -> dict[str, Measured]:
        """Return all current values as JSON types, by name."""
        return dict(self._measured())

    def _measured(self) -> Iterator[tuple[str, Measured]]:
        for name, metric in self._metrics.items():
            found: Measured
            if isinstance(metric, SimpleCounter):
                found = ("counter", metric.get_count())
            elif isinstance(metric, SimpleDistribution):
                found = ("distribution", metric.report())
            elif isinstance(metric, SlidingMeter):
                rate = round(metric.get_rate(), 3)
                found = ("meter", {"count": metric.get_count(), "rate": rate})
            elif (value := self._ask(name, metric)) is not None:
                found = ("gauge", _as_json(value))
            else:
                continue
            scope = (self._logical + name, self._labels) if self._labels else ()
            yield self._prefix + name, (*found, *scope)
        for group in self._groups.values():
            yield from group.measure().items()

    def reset(self) -> None:
        """Start the next epoch: counts are reset, gauges and the rates of meters stay."""
        for metric in self._metrics.values():
            if isinstance(metric, SimpleCounter | SimpleDistribution | SlidingMeter):
                metric.reset()
        for group in self._groups.values():
            group.reset()


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"metric name must be a str, got {type(name).__name__}", hint="pass a str"
        )
    if not name:
        raise ArgumentError("metric name is empty", hint="pass a name")


def _as_json(value: Any) -> object:
    """Convert the value of a gauge to JSON types."""
    if isinstance(value, bool | int | float):
        return value
    try:  # numpy numbers, decimals
        return float(value) if not isinstance(value, str) else value[:_LONGEST_TEXT]
    except (TypeError, ValueError):
        return str(value)[:_LONGEST_TEXT]


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


def added(before: Measured, now: Measured) -> Measured:
    """Add the values of one epoch to those before: counts add up, other values are replaced.

    >>> added(("counter", 2), ("counter", 3))
    ('counter', 5)
    """
    kind, value, *scope = now
    if kind == "gauge" or before[0] != kind:
        return now
    if kind == "meter":
        value = {**value, "count": before[1]["count"] + value["count"]}
    else:
        value = merge({"": before[:2]}, {"": (kind, value)})[""][1]
    return (kind, value, *scope)
