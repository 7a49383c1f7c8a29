"""Lateness: which records and windows are late, and the metrics of those that are dropped.

There is one rule per family of operators. All of them compare with a watermark, which says that no record with its timestamp or
an earlier one follows:

- an element of a window is late if all its windows are, and a window is late after its end and the allowed lateness:
  `is_window_late`, for windows of one size `last_late_start`. In `penstock.runtime.operators.windows`, `window` asks, `merging_window`
  after it has merged, `time_window` and `local_aggregate` for many records at once, and `window_base` counts late elements or sends
  them to their side output;
- rows that are processed in order of time are late from their own timestamp on: `earliest_timely`
  (`penstock.runtime.cep.cep_operator`);
- in an interval join, a row with the timestamp of the watermark still counts, as in Flink: `earliest_joinable`
  (`penstock.runtime.operators.two_inputs.interval_join`).

SQL has the same rules for columns of records, in `penstock.runtime.columnar`:

- windows have `LocalTime.ended` in `windows` (`operators.window_aggregate`) or `late_rows` (`operators.window_join` and `window_rank`),
  sessions have `late_sessions` (`operators.session_aggregate` and `session_table`);
- rows in order of time have `late_rows` (`operators.over_time`, `sort` and `match_recognize`). In ORDER BY,
  and per key in bounded frames of OVER, they are compared with the last row that was emitted instead of the watermark;
- interval joins drop rows that can find no partner any more: `operators.interval_join`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.records.dropped_records import LATE, LATENESS
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.records import MAX_WATERMARK

_FAR: Final = 2**62  # larger timestamps and watermarks are special values: none, the start, the end


def earliest_timely(watermark: int) -> int:
    """Return the earliest timestamp of a row that is not late.

    >>> [timestamp for timestamp in (8, 9, 10) if timestamp >= earliest_timely(9)]
    [10]
    """
    return watermark + 1


def earliest_joinable(watermark: int) -> int:
    """Return the earliest timestamp of a row that is not late for an interval join.

    >>> [timestamp for timestamp in (8, 9, 10) if timestamp >= earliest_joinable(9)]
    [9, 10]
    """
    return watermark


def cleanup_time(max_timestamp: int, allowed_lateness: int) -> int:
    """Return the watermark at which the contents of a window are cleared, and from which on it is late."""
    return min(max_timestamp + allowed_lateness, MAX_WATERMARK)


def is_window_late(max_timestamp: int, allowed_lateness: int, watermark: int) -> bool:
    """Whether an event-time window is late; also a record by itself, as a window that ends with it.

    >>> is_window_late(9, 0, 8), is_window_late(9, 0, 9), is_window_late(9, 5, 13), is_window_late(9, 5, 14)
    (False, True, False, True)
    """
    return cleanup_time(max_timestamp, allowed_lateness) <= watermark


def last_late_start(size: int, watermark: int) -> int:
    """Return the latest start of a window of this size, without allowed lateness, that is late.

    >>> last_late_start(10, 9), is_window_late(0 + 10 - 1, 0, 9), is_window_late(1 + 10 - 1, 0, 9)
    (0, True, False)
    """
    return watermark - size + 1


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
