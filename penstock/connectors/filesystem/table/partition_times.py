"""The time that a partition stands for, taken from its values."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from penstock.errors import RecordError
from penstock.runtime.columnar.expressions.java_time import parsed, tokens

# Years, months and days, and a time if there is one; numbers may be too big, as Flink has it: the 32nd of a month is in the next one.
_DEFAULT: Final = re.compile(
    r"(\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d{1,9})?)?"
)
_EPOCH: Final = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """Extracts the time of partitions (Flink's `partition.time-extractor`).

    `pattern`: a text in which `$column` stands for the value of a partition column; None: the value of the first one. `formatter`: how the time is written in it, as a pattern
    of Java; None: `2024-01-31` or `2024-01-31 12:30:00`. `zone`: the time zone of what is written.

    >>> times = PartitionTimes(("day", "hour"), "$day $hour:00:00")
    >>> times.of("day=1970-01-02/hour=1")
    90000000
    """

    keys: tuple[str, ...]
    pattern: str | None = None
    formatter: str | None = None
    zone: str = "UTC"

    def of(self, directory: str) -> int:
        """Return the time of a partition in milliseconds since the epoch; `directory` is where its files are, below the table's."""
        return _time_of(self, directory)

    def text(self, directory: str) -> str:
        """Return the time of a partition as its values have it."""
        values = values_of(directory)
        if self.pattern is None:
            return values[0]
        text = self.pattern
        for key, value in zip(self.keys, values, strict=True):
            text = text.replace(f"${key}", value)
        return text


@functools.lru_cache(maxsize=4096)
def _time_of(times: PartitionTimes, directory: str) -> int:
    text = times.text(directory)
    local = local_time(text, times.formatter)
    if local is None:
        wanted = times.formatter or "yyyy-MM-dd or yyyy-MM-dd HH:mm:ss"
        raise RecordError(
            f"cannot extract the time of partition '{directory}': '{text}' does not match {wanted}",
            detail="the table commits partitions by partition time, 'sink.partition-commit.trigger' = 'partition-time'",
            hint="filter such rows out, or set 'partition.time-extractor.timestamp-pattern' and '...timestamp-formatter'",
        )
    moment = local.replace(tzinfo=ZoneInfo(times.zone))
    return (moment - _EPOCH.replace(tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def local_time(text: str, formatter: str | None) -> dt.datetime | None:
    """Parse the time of a partition, or None if the text does not match.

    >>> str(local_time("2024-1-32", None)), str(local_time("20240131 07", "yyyyMMdd HH"))
    ('2024-02-01 00:00:00', '2024-01-31 07:00:00')
    """
    if formatter is not None:
        nanos = parsed(text, formatter)
        return None if nanos is None else _EPOCH + dt.timedelta(microseconds=nanos // 1000)
    found = _DEFAULT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    more_years, month = divmod(month - 1, 12)
    try:
        start = dt.datetime(year + more_years, month + 1, 1)
        micros = int((found[7] or ".0")[1:7].ljust(6, "0"))
        return start + dt.timedelta(day - 1, second, micros, 0, minute, hour)
    except (ValueError, OverflowError):
        return None


def values_of(directory: str) -> list[str]:
    """Return the values of a partition's columns, as its directory has them.

    >>> values_of("day=2024-01-01/at=12%3A30")
    ['2024-01-01', '12:30']
    """
    return [unquote(part.partition("=")[2]) for part in directory.split("/")]


def wrong_pattern(pattern: str, keys: Sequence[str]) -> str | None:
    """Return the error of a timestamp pattern for partitions, or None."""
    named = re.findall(r"\$(\w+)", pattern)
    unknown = [name for name in named if not any(name.startswith(key) for key in keys)]
    if unknown:
        return f"the table is not partitioned by '{unknown[0]}'"
    return None if named else "it refers to no $column, so all partitions would have the same time"


def wrong_formatter(formatter: str) -> str | None:
    """Return the error of a formatter pattern, or None."""
    parts = tokens(formatter)
    if parts is None:
        return "unclosed quotation mark"
    letters = {text[0] for text, literal in parts if not literal}
    unknown = sorted(letters - set("yuMdDHhkKmsSaE"))
    if unknown:
        return f"pattern letter '{unknown[0]}' is not supported for parsing"
    if not letters & {"y", "u"} or not (letters >= {"M", "d"} or "D" in letters):
        return "it has no complete date: year, month and day are required"
    if letters & {"h", "K"} and "a" not in letters:
        return "12-hour letters (h, K) need the AM/PM letter 'a'; use H for 24-hour times"
    return None
