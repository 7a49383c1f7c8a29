"""Records that are processed, but probably not as the program means it, by the metric that counts them: the job manager warns of all of these."""

from __future__ import annotations

from typing import Any, Final

TIMESTAMPS: Final = "numTimestampsInOtherUnit"
RESULTS: Final = "numResultsIterated"
FIELDS: Final = "numFieldsInOtherCase"

KINDS: Final = (TIMESTAMPS, RESULTS, FIELDS)

# What helps, as the log and the doctor say it.
HINTS: Final = {
    TIMESTAMPS: "event timestamps are milliseconds since 1970: convert them in the timestamp assigner (seconds * 1000), "
    "in SQL with TO_TIMESTAMP_LTZ(seconds, 0)",
    RESULTS: "yield each result, or return a list; "
    "return list(result) if each part is meant to be a record",
    FIELDS: "JSON field names are case-sensitive, as in Flink: give the column the name of the field, in backticks if necessary",
}


def counted(number: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "record"), counted(2000, "record")
    ('1 record', '2,000 records')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def example_of(metric: str) -> str:
    """Return the name of the gauge that shows one of the records.

    >>> example_of(FIELDS)
    'numFieldsInOtherCaseExample'
    """
    return f"{metric}Example"


def checked_of(metric: str) -> str:
    """Return the name of the counter of records that were looked at, where that is not all.

    >>> checked_of(FIELDS)
    'numFieldsInOtherCaseChecked'
    """
    return f"{metric}Checked"


class SuspiciousRecordCounter:
    """Counts records by a metric. It exists from the first of them on: an operator without any does not report zeros."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._shown: set[str] = set()
        self._checked: dict[str, int] = {}

    def count(self, metric: str, records: int, example: str) -> None:
        """Count records; `example` describes what is suspicious about one of them, and the first one is kept."""
        self._group.counter(metric).inc(records)
        if metric not in self._shown:
            self._shown.add(metric)
            self._group.gauge(example_of(metric), lambda: example)

    def checked(self, metric: str, records: int) -> None:
        """Take note of how many records were looked at so far, where that is not all."""
        counter = self._group.counter(checked_of(metric))
        counter.inc(records - self._checked.get(metric, 0))
        self._checked[metric] = records
