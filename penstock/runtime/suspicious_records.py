"""Counts records that are processed although they are probably not what the program means, and shows one of them."""

from __future__ import annotations

from typing import Any

from penstock.common.suspicious_records import example_of


class SuspiciousRecords:
    """Counts records by a metric. It exists from the first of them on: an operator without any does not report zeros."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._shown: set[str] = set()

    def count(self, metric: str, records: int, example: str) -> None:
        """Count records; `example` says what is suspicious about one of them, and the first one is kept."""
        self._group.counter(metric).inc(records)
        if metric not in self._shown:
            self._shown.add(metric)
            self._group.gauge(example_of(metric), lambda: example)
