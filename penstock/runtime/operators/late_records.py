"""Records that an operator drops because they are late: how many, and how far behind the watermark they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.common.dropped_records import LATE, LATENESS
from penstock.runtime.operators.base import OperatorContext

_FAR: Final = 2**62  # timestamps and watermarks beyond it are not moments: none, the start, the end


class LateRecords:
    """Counts the late records of one operator under Flink's name, and measures their lateness."""

    def __init__(self, context: OperatorContext) -> None:
        self._group = context.runtime_context.get_metrics_group()
        self._dropped = self._group.counter(LATE)

    def drop(self, timestamps: Iterable[int], watermark: int) -> None:
        """Count records by their timestamps; of windows and accumulators that is the last moment that they cover."""
        times = list(timestamps)
        self._dropped.inc(len(times))
        if abs(watermark) >= _FAR:
            return
        # It exists from the first late record on: an operator without any does not report zeros.
        lateness = self._group.distribution(LATENESS)
        for time in times:
            if time > -_FAR:
                lateness.update(watermark - time)
