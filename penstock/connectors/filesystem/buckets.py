"""Bucket assigners: they choose the directory of a record's file."""

from __future__ import annotations

import datetime as dt
import inspect
import re
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.common.user_types import Record
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.errors.not_implemented import not_implemented

_TOKENS = re.compile(r"'(?:[^']|'')*'|([a-zA-Z])\1*|[^a-zA-Z']+")


@dataclass(frozen=True, slots=True)
class BucketContext:
    """The context of a record for a bucket assigner; times are epoch milliseconds."""

    timestamp_ms: int | None
    watermark: int
    processing_time: int

    def timestamp(self) -> int | None:
        """Return the record's event time, or None."""
        return self.timestamp_ms

    def current_watermark(self) -> int:
        """Return the watermark."""
        return self.watermark

    def current_processing_time(self) -> int:
        """Return the current processing time."""
        return self.processing_time


class BucketAssigner(ABC):
    """Returns a record's directory, relative to the base path. Subclass it, or use `of` with a function."""

    get_java_object = not_implemented("there is no JVM object behind a bucket assigner")

    @abstractmethod
    def get_bucket_id(self, element: Record, context: BucketContext) -> str:
        """Return a relative path such as 2024-01-31 or country=de; the empty string is the base path."""

    def assign(
        self,
        values: list[Any],
        timestamps: list[int | None] | None,
        watermark: int,
        now_ms: int,
    ) -> str | list[str]:
        """Return the buckets of records, or the one bucket of all of them."""
        if timestamps is None:
            context = BucketContext(None, watermark, now_ms)
            return [check_bucket(self.get_bucket_id(value, context)) for value in values]
        return [
            check_bucket(self.get_bucket_id(value, BucketContext(timestamp, watermark, now_ms)))
            for value, timestamp in zip(values, timestamps, strict=True)
        ]

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Put all files into the base path."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """Name directories by processing time, in a format of Java's DateTimeFormatter; default is the system's time zone."""
        return DateTimeBucketAssigner(format_str, timezone_id)

    @staticmethod
    def of(function: Callable[..., str]) -> BucketAssigner:
        """Use a function of the record, or of the record and its context."""
        return FunctionBucketAssigner(function)


class BasePathBucketAssigner(BucketAssigner):
    """One bucket: the base path itself."""

    def get_bucket_id(self, element: Record, context: BucketContext) -> str:
        """Return the empty string."""
        return ""

    def assign(
        self, values: list[Any], timestamps: list[int | None] | None, watermark: int, now_ms: int
    ) -> str | list[str]:
        """Return the empty string for all."""
        return ""


class DateTimeBucketAssigner(BucketAssigner):
    """A bucket per hour (or another span) of processing time."""

    def __init__(self, format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> None:
        self.format = format_str
        self.timezone = timezone_id
        if timezone_id is not None:
            try:
                zoneinfo.ZoneInfo(timezone_id)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                raise ArgumentError(
                    "unknown time zone",
                    detail=f"timezone_id={timezone_id!r}",
                    hint="use a name such as Europe/Berlin or UTC",
                ) from None
        check_bucket(format_java(format_str, dt.datetime(2000, 1, 1, tzinfo=dt.UTC)))

    def get_bucket_id(self, element: Record, context: BucketContext) -> str:
        """Return the formatted processing time."""
        return self._name(context.processing_time)

    def assign(
        self, values: list[Any], timestamps: list[int | None] | None, watermark: int, now_ms: int
    ) -> str | list[str]:
        """Return one bucket for all: they are written at the same time."""
        return self._name(now_ms)

    def _name(self, now_ms: int) -> str:
        zone = None if self.timezone is None else zoneinfo.ZoneInfo(self.timezone)
        moment = dt.datetime.fromtimestamp(now_ms / 1000, tz=dt.UTC).astimezone(zone)
        return format_java(self.format, moment)


class FunctionBucketAssigner(BucketAssigner):
    """Buckets chosen by a Python function."""

    def __init__(self, function: Callable[..., str]) -> None:
        if not callable(function):
            raise ArgumentTypeError(
                "the bucket function is not callable", detail=f"got {function!r}"
            )
        self._function = function
        try:
            self._with_context = len(inspect.signature(function).parameters) > 1
        except (TypeError, ValueError):
            self._with_context = False

    def get_bucket_id(self, element: Record, context: BucketContext) -> str:
        """Call the function."""
        return self._function(element, context) if self._with_context else self._function(element)


def check_bucket(bucket: Any) -> str:
    """Return a bucket id after checking that it is a relative path within the base path that readers can see."""
    return _checked(bucket) if isinstance(bucket, str) else _refuse(bucket, "it is not a str")


@lru_cache(maxsize=4096)
def _checked(bucket: str) -> str:
    if not bucket:
        return bucket
    parts = bucket.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in bucket:
        _refuse(bucket, "it must be a relative path without empty parts, . and ..")
    if any(part.startswith((".", "_")) for part in parts):
        _refuse(bucket, "names that begin with a dot or an underscore are hidden from readers")
    return bucket


def _refuse(bucket: object, why: str) -> str:
    raise RecordError(
        "invalid bucket id",
        detail=f"{bucket!r}: {why}",
        hint="correct the bucket assigner",
    )


_FIELDS: dict[str, Callable[[dt.datetime], int]] = {
    "y": lambda t: t.year,
    "u": lambda t: t.year,
    "M": lambda t: t.month,
    "d": lambda t: t.day,
    "D": lambda t: t.timetuple().tm_yday,
    "H": lambda t: t.hour,
    "h": lambda t: (t.hour - 1) % 12 + 1,
    "k": lambda t: (t.hour - 1) % 24 + 1,
    "K": lambda t: t.hour % 12,
    "m": lambda t: t.minute,
    "s": lambda t: t.second,
}


def format_java(pattern: str, moment: dt.datetime) -> str:
    """Format a time by a pattern of Java's DateTimeFormatter: y M d D H h k K m s S a E, and quoted text.

    >>> format_java("yyyy-MM-dd--HH", dt.datetime(2024, 1, 31, 7))
    '2024-01-31--07'
    """
    result = []
    at = 0
    for match in _TOKENS.finditer(pattern):
        if match.start() != at:
            break
        at = match.end()
        token = match.group()
        letter = match.group(1)
        if letter is None:
            quoted = token[1:-1].replace("''", "'") or "'"
            result.append(quoted if token[0] == "'" else token)
        else:
            result.append(_field(letter, len(token), moment, pattern))
    if at != len(pattern):
        raise ArgumentError("unterminated quote in a date format", detail=f"format: {pattern!r}")
    return "".join(result)


def _field(letter: str, width: int, moment: dt.datetime, pattern: str) -> str:
    if letter in {"y", "u"} and width == 2:
        return f"{moment.year % 100:02d}"
    if letter == "M" and width >= 3:
        return moment.strftime("%b" if width == 3 else "%B")
    if letter == "E":
        return moment.strftime("%a" if width <= 3 else "%A")
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter == "S":
        return f"{moment.microsecond:06d}".ljust(width, "0")[:width]
    if letter in _FIELDS:
        return str(_FIELDS[letter](moment)).rjust(width, "0")
    raise ArgumentError(
        f"unknown letter {letter!r} in a date format",
        detail=f"format: {pattern!r}",
        hint="use y M d D H h k K m s S a E; put text in single quotes",
    )
