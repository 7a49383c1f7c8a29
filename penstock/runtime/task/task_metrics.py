"""What subtasks tell about themselves, by Flink's names, and how latencies are counted.

A report has, for each subtask, a value for any of the names below. Those that stay report once a second (`SlotReport.metrics`), those of an
epoch with its ACK (`TaskAck.report`). Counters count from the start of the attempt; what is per second or per cent is of the time since
the report before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.common.dropped_records import LATE

# Of each second, how many milliseconds were spent working, waiting for room in the outputs, waiting for input. Nobody waits inside of a
# call here, so that all back-pressure is what Flink calls soft.
BUSY: Final = "busyTimeMsPerSecond"
BACK_PRESSURED: Final = "backPressuredTimeMsPerSecond"
IDLE: Final = "idleTimeMsPerSecond"
SOFT_BACK_PRESSURED: Final = "softBackPressuredTimeMsPerSecond"
HARD_BACK_PRESSURED: Final = "hardBackPressuredTimeMsPerSecond"

# The same since the start of the attempt, in milliseconds.
TOTAL_BUSY: Final = "accumulateBusyTimeMs"
TOTAL_BACK_PRESSURED: Final = "accumulateBackPressuredTimeMs"
TOTAL_IDLE: Final = "accumulateIdleTimeMs"

# What of the busy time is in no operator: decoding input, encoding and sending output. Flink has no such figure.
EXCHANGE: Final = "exchangeTimeMsPerSecond"

# Counters. A source counts what it has read as its input.
RECORDS_IN: Final = "numRecordsIn"
RECORDS_OUT: Final = "numRecordsOut"
BYTES_IN: Final = "numBytesIn"
BYTES_OUT: Final = "numBytesOut"

RECORDS_IN_RATE: Final = "numRecordsInPerSecond"
RECORDS_OUT_RATE: Final = "numRecordsOutPerSecond"
BYTES_IN_RATE: Final = "numBytesInPerSecond"
BYTES_OUT_RATE: Final = "numBytesOutPerSecond"

RATES: Final = {
    RECORDS_IN: RECORDS_IN_RATE,
    RECORDS_OUT: RECORDS_OUT_RATE,
    BYTES_IN: BYTES_IN_RATE,
    BYTES_OUT: BYTES_OUT_RATE,
}

INPUT_WATERMARK: Final = "currentInputWatermark"  # epoch milliseconds
OUTPUT_WATERMARK: Final = "currentOutputWatermark"
WATERMARK_LAG: Final = "watermarkLag"  # milliseconds from the watermark to the wall clock

SOURCE_IDLE: Final = "sourceIdleTime"  # milliseconds since a source has read anything

# Keyed state: about how many entries, bytes of the last checkpoint, pending timers. Flink has no names for these.
STATE_ENTRIES: Final = "numStateEntries"
STATE_BYTES: Final = "stateSizeBytes"
EVENT_TIMERS: Final = "numEventTimeTimers"
PROCESSING_TIMERS: Final = "numProcessingTimeTimers"

# Channels: items and bytes that have arrived and were not taken, items that wait to be sent, and what part of the room is used, from 0 to 1.
INPUT_QUEUE: Final = "buffers.inputQueueLength"
INPUT_QUEUE_BYTES: Final = "buffers.inputQueueSize"
OUTPUT_QUEUE: Final = "buffers.outputQueueLength"
INPUT_POOL: Final = "buffers.inPoolUsage"
OUTPUT_POOL: Final = "buffers.outPoolUsage"

LATENCY: Final = "latency"  # LatencyHistograms of markers since the report before, by the id of the source's vertex

PROCESS: Final = (
    "process"  # host, process id, and figures of the process, see common.process_figures
)

# What operators have that is told of the subtask as a sum, too.
SUMMED: Final = (LATE, STATE_ENTRIES, STATE_BYTES, EVENT_TIMERS, PROCESSING_TIMERS)

# On the way only: which part of the busy time each operator of the chain has had, and the exchange. `complete` makes times of it.
SHARES: Final = "chainShares"
OPERATORS: Final = (
    "operators"  # by operator id what each of the chain has measured, see runtime.metrics
)

# As Flink tells histograms.
QUANTILES: Final = {
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p98": 0.98,
    "p99": 0.99,
    "p999": 0.999,
}

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
                return _middle(bucket)
        return 0.0

    @property
    def mean(self) -> float:
        """The average latency in milliseconds, right to 2 %; 0 if nothing was counted."""
        total = sum(_middle(bucket) * count for bucket, count in self.buckets.items())
        return total / self.count if self.count else 0.0

    def to_json(self) -> dict[str, float]:
        """Return count, average, extremes and quantiles as JSON values."""
        quantiles = {name: round(self.quantile(share), 3) for name, share in QUANTILES.items()}
        return {
            "count": self.count,
            "mean": round(self.mean, 3),
            "min": round(self.quantile(0.0), 3),
            "max": round(self.quantile(1.0), 3),
            **quantiles,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatencyHistogram) and self.buckets == other.buckets

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LatencyHistogram(p50={self.quantile(0.5):.3g}, p99={self.quantile(0.99):.3g}, n={self.count})"


def _middle(bucket: int) -> float:
    return _SMALLEST_MS * math.exp((bucket + 0.5) * _GROWTH)


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


def is_moment(watermark: int) -> bool:
    """Whether a watermark is a time, neither the beginning nor the end of all."""
    return -(2**62) < watermark < 2**62


Counts = dict[tuple[str | None, str], float]  # by operator, None for the subtask, and name


def counts_of(report: Mapping[str, Any]) -> Counts:
    """Return what a report has counted that rates are told of."""
    found: Counts = {(None, name): report.get(name, 0) for name in RATES}
    for operator, measured in report.get(OPERATORS, {}).items():
        for name in (RECORDS_IN, RECORDS_OUT):
            if name in measured:
                found[operator, name] = measured[name][1]
    return found


def complete(report: dict[str, Any], before: Counts, seconds: float) -> Counts:
    """Add to a report what follows from the one before, which was so many seconds ago; return what the next one needs.

    That is what is per second, and the time of each operator.
    """
    now = counts_of(report)
    operators: dict[str, dict[str, Any]] = report.get(OPERATORS, {})
    for (operator, name), count in now.items():
        rate = round((count - before.get((operator, name), 0)) / max(seconds, 1e-9), 3)
        if operator is None:
            report[RATES[name]] = rate
        else:
            operators[operator][RATES[name]] = ("meter", {"count": count, "rate": rate})
    shares = report.pop(SHARES, None)
    if shares:
        *own, exchange = shares
        busy = report.get(BUSY, 0)
        for measured, share in zip(operators.values(), own, strict=True):
            measured[BUSY] = ("gauge", round(busy * share, 1))
        report[EXCHANGE] = round(busy * exchange, 1)
    return now
