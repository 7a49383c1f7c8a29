"""Metric names of subtasks, following Flink, and latency histograms.

A report has, for each subtask, values for the names below. In pipelined mode they are reported once a second
(`SlotReport.metrics`), in epoch mode with the ACK (`TaskAck.report`). Counters count from the start of the attempt; rates and
percentages cover the time since the last report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.records.dropped_records import LATE

# Milliseconds per second spent working, backpressured by the outputs, and waiting for input. No call blocks here, so all
# backpressure is what Flink calls soft.
BUSY: Final = "busyTimeMsPerSecond"
BACK_PRESSURED: Final = "backPressuredTimeMsPerSecond"
IDLE: Final = "idleTimeMsPerSecond"
SOFT_BACK_PRESSURED: Final = "softBackPressuredTimeMsPerSecond"
HARD_BACK_PRESSURED: Final = "hardBackPressuredTimeMsPerSecond"

# The same since the start of the attempt, in milliseconds.
TOTAL_BUSY: Final = "accumulateBusyTimeMs"
TOTAL_BACK_PRESSURED: Final = "accumulateBackPressuredTimeMs"
TOTAL_IDLE: Final = "accumulateIdleTimeMs"

# The part of the busy time outside of operators: decoding input, encoding and sending output. Flink has no such metric.
EXCHANGE: Final = "exchangeTimeMsPerSecond"

# Counters. A source counts the records that it has read as its input.
RECORDS_IN: Final = "numRecordsIn"
RECORDS_OUT: Final = "numRecordsOut"
RECORDS_SENT: Final = "numRecordsSend"  # by the writer of a sink
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

SOURCE_IDLE: Final = "sourceIdleTime"  # milliseconds since a source last read a record

# Keyed state: approximate number of entries, bytes of the last checkpoint, pending timers. Flink has no names for these.
STATE_ENTRIES: Final = "numStateEntries"
STATE_BYTES: Final = "stateSizeBytes"
EVENT_TIMERS: Final = "numEventTimeTimers"
PROCESSING_TIMERS: Final = "numProcessingTimeTimers"

# Channels: items and bytes queued at the receiver, items queued at the sender, and the used fraction of the capacity,
# from 0 to 1.
INPUT_QUEUE: Final = "buffers.inputQueueLength"
INPUT_QUEUE_BYTES: Final = "buffers.inputQueueSize"
OUTPUT_QUEUE: Final = "buffers.outputQueueLength"
INPUT_POOL: Final = "buffers.inPoolUsage"
OUTPUT_POOL: Final = "buffers.outPoolUsage"

LATENCY: Final = "latency"  # LatencyHistograms of markers since the last report, by the id of the source's vertex

PROCESS: Final = (
    "process"  # host, process id, and metrics of the process, see common.process_figures
)

# For the diagnosis, only in epoch mode, where no task runs that could be asked: the ProcessFacts, and a StateUsage of each keyed state.
PROCESS_FACTS: Final = "processFacts"
STATES: Final = "states"

# Operator metrics that are also reported as a sum for the subtask.
SUMMED: Final = (LATE, STATE_ENTRIES, STATE_BYTES, EVENT_TIMERS, PROCESSING_TIMERS)

# Only in transit: the share of the busy time of each operator of the chain, and of the exchange. `complete` turns it into
# times.
SHARES: Final = "chainShares"
OPERATORS: Final = (
    "operators"  # metrics of each operator of the chain by operator id, see runtime.metrics
)

# The histogram statistics of Flink.
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
    """Counts of latencies in buckets that grow by 4 %, so that quantiles are accurate to 2 %. It pickles to few bytes.

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
        """Count a latency. Clocks of machines differ: negative latencies count as 0."""
        bucket = int(math.log(max(latency_ms, _SMALLEST_MS) / _SMALLEST_MS) / _GROWTH)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1

    def merge(self, other: LatencyHistogram) -> None:
        """Add the counts of another histogram."""
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.count += other.count

    def quantile(self, share: float) -> float:
        """Return the latency in milliseconds at this quantile; 0 if there are no values."""
        wanted = share * self.count
        for bucket in sorted(self.buckets):
            wanted -= self.buckets[bucket]
            if wanted <= 0:
                return _middle(bucket)
        return 0.0

    @property
    def mean(self) -> float:
        """The average latency in milliseconds, accurate to 2 %; 0 if there are no values."""
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
    """Merge histograms."""
    total = LatencyHistogram()
    for each in histograms:
        total.merge(each)
    return total


def number(report: Mapping[str, object], name: str) -> float:
    """Return a number of a subtask's report; 0 if it is missing."""
    value = report.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def is_moment(watermark: int) -> bool:
    """Whether a watermark is a real time, not MIN or MAX."""
    return -(2**62) < watermark < 2**62


Counts = dict[tuple[str | None, str], float]  # by operator, None for the subtask, and name


def counts_of(report: Mapping[str, Any]) -> Counts:
    """Return the counters of a report that have rates."""
    found: Counts = {(None, name): report.get(name, 0) for name in RATES}
    for operator, measured in report.get(OPERATORS, {}).items():
        for name in (RECORDS_IN, RECORDS_OUT):
            if name in measured:
                found[operator, name] = measured[name][1]
    return found


def complete(report: dict[str, Any], before: Counts, seconds: float) -> Counts:
    """Add rates and operator times to a report, given the last one `seconds` ago; return the input for the next call."""
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
