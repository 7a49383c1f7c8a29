"""Metrics of dropped late records: their number, and their lateness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.records.dropped_records import LATE, LATENESS
from penstock.runtime.operators.base import OperatorContext

_FAR: Final = 2**62  # larger timestamps and watermarks are special values: none, the start, the end


class LateRecords:
    """Counts the late records of one operator under Flink's name, and measures their lateness."""

    def __init__(self, context: OperatorContext) -> None:
        self._group = context.runtime_context.get_metrics_group()
        self._dropped = self._group.counter(LATE)

    def drop(self, timestamps: Iterable[int], watermark: int) -> None:
        """Count records by their timestamps; for windows and accumulators that is their maximum timestamp."""
        times = list(timestamps)
        self._dropped.inc(len(times))
        if abs(watermark) >= _FAR:
            return
        # Created with the first late record: an operator without any does not report zeros.
        lateness = self._group.distribution(LATENESS)
        for time in times:
            if time > -_FAR:
                lateness.update(watermark - time)
