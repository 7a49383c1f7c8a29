"""What subtasks that stay tell about themselves once a second: names as Flink has them, and how latencies are counted.

A report (`SlotReport.metrics`) has, for each subtask, a value for any of the names below. Counters count from the start of the
attempt; what is per second or per cent is of the time since the report before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

# Of each second, how many milliseconds were spent working, waiting for room in the outputs, waiting for input.
BUSY: Final = "busyTimeMsPerSecond"
BACK_PRESSURED: Final = "backPressuredTimeMsPerSecond"
IDLE: Final = "idleTimeMsPerSecond"

# Counters. A source counts what it has read as its input.
RECORDS_IN: Final = "numRecordsIn"
RECORDS_OUT: Final = "numRecordsOut"
BYTES_IN: Final = "numBytesIn"
BYTES_OUT: Final = "numBytesOut"

RECORDS_IN_RATE: Final = "numRecordsInPerSecond"
RECORDS_OUT_RATE: Final = "numRecordsOutPerSecond"
BYTES_IN_RATE: Final = "numBytesInPerSecond"
BYTES_OUT_RATE: Final = "numBytesOutPerSecond"

INPUT_WATERMARK: Final = "currentInputWatermark"  # epoch milliseconds
OUTPUT_WATERMARK: Final = "currentOutputWatermark"

INPUT_QUEUE: Final = "inputQueueLength"  # items that have arrived and were not taken

LATENCY: Final = "latency"  # LatencyHistograms of markers since the report before, by the id of the source's vertex

_GROWTH: Final = math.log(1.04)  # a bucket's upper bound is 4 % above its lower one
_SMALLEST_MS: Final = 0.01


class LatencyHistogram:
    """Counts of latencies in buckets that grow by 4 %, so that a quantile is right to 2 %. It pickles to few bytes.

    >>> histogram = LatencyHistogram([1.0] * 98 + [20.0, 30.0])
    >>> round(histogram.quantile(0.5)), round(histogram.quantile(0.99)), histogram.count
    (1, 20, 100)
    """

    __slots__ = ("buckets", "count")

    def __init__(self, latencies_ms: Iterable[float] = ()) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        for each in latencies_ms:
            self.add(each)

    def add(self, latency_ms: float) -> None:
        """Count a latency. Clocks of two machines differ: what arrives before it was sent took no time."""
        bucket = int(math.log(max(latency_ms, _SMALLEST_MS) / _SMALLEST_MS) / _GROWTH)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1

    def merge(self, other: LatencyHistogram) -> None:
        """Count what another one has counted."""
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.count += other.count

    def quantile(self, share: float) -> float:
        """Return the latency in milliseconds that this share of all does not exceed; 0 if nothing was counted."""
        wanted = share * self.count
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return _SMALLEST_MS * math.exp((bucket + 0.5) * _GROWTH)
        return 0.0

    def to_json(self) -> dict[str, float]:
        """Return count and quantiles as JSON values."""
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
        quantiles = {name: round(self.quantile(share), 3) for name, share in shares.items()}
        return {"count": self.count, **quantiles}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatencyHistogram) and self.buckets == other.buckets

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LatencyHistogram(p50={self.quantile(0.5):.3g}, p99={self.quantile(0.99):.3g}, n={self.count})"


def merged(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """Return one histogram of all."""
    total = LatencyHistogram()
    for each in histograms:
        total.merge(each)
    return total


def number(report: Mapping[str, object], name: str) -> float:
    """Return a number of a subtask's report; 0 if it does not tell it."""
    value = report.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
