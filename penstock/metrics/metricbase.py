"""What metrics look like to user functions. `penstock.runtime.metrics` has what implements them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Metric(ABC):  # noqa: B024 - only a common name for what follows
    """Base of all metrics that functions report to."""


class Counter(Metric):
    """A number that is counted up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Count up."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Count down."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the count."""


class Distribution(Metric):
    """What is known of many values: sum, count, minimum and maximum."""

    @abstractmethod
    def update(self, value: int) -> None:
        """Report a value."""


class Meter(Metric):
    """Events per second over a time span."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Report events."""

    @abstractmethod
    def get_count(self) -> int:
        """Return the number of events."""


class MetricGroup(ABC):
    """A named group of metrics; groups nest."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a sub-group; with `extra`, the group of a key and its value."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Return the counter `name`."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], Any]) -> None:
        """Report what `obj()` returns."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return the meter `name`."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Return the distribution `name`."""


__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
