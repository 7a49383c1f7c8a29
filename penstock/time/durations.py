"""Amounts of time and points in time, with PyFlink's names."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import total_ordering

from penstock.errors import ArgumentError, ArgumentTypeError

_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_SECOND = 1_000_000_000
_MILLISECOND = dt.timedelta(milliseconds=1)


def _whole(amount: object, what: str) -> int:
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise ArgumentTypeError(
            f"{what} must be an int, not {type(amount).__name__}",
            hint="use a smaller unit for parts, such as Duration.of_millis(1500)",
        )
    return amount


@total_ordering
@dataclass(frozen=True, slots=True)
class Duration:
    """An amount of time, exact to the nanosecond.

    >>> Duration.of_seconds(10).to_millis()
    10000
    >>> str(Duration.of_minutes(90))
    'PT1H30M'
    """

    nanos: int = 0

    @staticmethod
    def of_days(days: int) -> Duration:
        """Create a duration of days of 24 hours."""
        return Duration(_whole(days, "days") * 86_400 * _NANOS_PER_SECOND)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Create a duration of hours."""
        return Duration(_whole(hours, "hours") * 3_600 * _NANOS_PER_SECOND)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Create a duration of minutes."""
        return Duration(_whole(minutes, "minutes") * 60 * _NANOS_PER_SECOND)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Create a duration of seconds."""
        return Duration(_whole(seconds, "seconds") * _NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Create a duration of milliseconds."""
        return Duration(_whole(millis, "millis") * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Create a duration of nanoseconds."""
        return Duration(_whole(nanos, "nanos"))

    @staticmethod
    def of_timedelta(delta: dt.timedelta) -> Duration:
        """Create a duration from Python's own."""
        return Duration(delta // dt.timedelta(microseconds=1) * 1000)

    def to_millis(self) -> int:
        """Return the whole milliseconds."""
        return self.nanos // _NANOS_PER_MILLI

    def to_nanos(self) -> int:
        """Return the nanoseconds."""
        return self.nanos

    def to_timedelta(self) -> dt.timedelta:
        """Return Python's own kind of duration, exact to the microsecond."""
        return dt.timedelta(microseconds=self.nanos // 1000)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Duration):
            return NotImplemented
        return self.nanos < other.nanos

    def __str__(self) -> str:
        if not self.nanos:
            return "PT0S"
        sign, rest = ("-", -self.nanos) if self.nanos < 0 else ("", self.nanos)
        seconds, nanos = divmod(rest, _NANOS_PER_SECOND)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        text = f"{sign}{hours}H" if hours else ""
        text += f"{sign}{minutes}M" if minutes else ""
        if seconds or nanos:
            fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
            text += f"{sign}{seconds}{fraction}S"
        return f"PT{text}"

    def __repr__(self) -> str:
        return f"Duration({self})"


@total_ordering
class Time:
    """An amount of time in milliseconds: the older sibling of Duration.

    >>> Time.seconds(5).to_milliseconds()
    5000
    """

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = _whole(milliseconds, "milliseconds")

    @staticmethod
    def days(days: int) -> Time:
        """Create a time of days of 24 hours."""
        return Time(_whole(days, "days") * 86_400_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Create a time of hours."""
        return Time(_whole(hours, "hours") * 3_600_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Create a time of minutes."""
        return Time(_whole(minutes, "minutes") * 60_000)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Create a time of seconds."""
        return Time(_whole(seconds, "seconds") * 1000)

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Create a time of milliseconds."""
        return Time(milliseconds)

    def to_milliseconds(self) -> int:
        """Return the milliseconds."""
        return self._milliseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and self._milliseconds == other._milliseconds

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Time):
            return NotImplemented
        return self._milliseconds < other._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time({self._milliseconds} ms)"


@total_ordering
class Instant:
    """A point in time: seconds since the epoch, and the nanoseconds (0 to 999,999,999) after them.

    >>> Instant.of_epoch_milli(-1)
    Instant<-1, 999000000>
    """

    __slots__ = ("nanos", "seconds")

    def __init__(self, seconds: int, nanos: int = 0) -> None:
        self.seconds = _whole(seconds, "seconds")
        self.nanos = _whole(nanos, "nanos")
        if not 0 <= nanos < _NANOS_PER_SECOND:
            raise ArgumentError(f"nanos must be between 0 and 999999999, not {nanos}")

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Create an instant from milliseconds since the epoch."""
        seconds, millis = divmod(_whole(epoch_milli, "epoch_milli"), 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def to_epoch_milli(self) -> int:
        """Return the whole milliseconds since the epoch."""
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    def stable_key(self) -> tuple[int, int]:
        """Return what identifies this instant, for use as a key of a stream."""
        return (self.seconds, self.nanos)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and self.stable_key() == other.stable_key()

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Instant):
            return NotImplemented
        return self.stable_key() < other.stable_key()

    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    def __str__(self) -> str:
        try:
            moment = dt.datetime.fromtimestamp(self.seconds, dt.UTC)
        except (OverflowError, ValueError, OSError):  # outside of the years 1 to 9999
            return repr(self)
        text = moment.strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
        if self.nanos:
            digits = f"{self.nanos:09d}"
            while digits.endswith("000"):
                digits = digits[:-3]
            text += f".{digits}"
        return f"{text}Z"

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


def to_millis(value: object, what: str, *, minimum: int | None = None, number: bool = True) -> int:
    """Return the milliseconds of a Duration, a Time, a timedelta or a number of milliseconds.

    `what` names the argument in the error; `minimum` is the least value that is allowed. Without `number`, a bare number
    is rejected: it is ambiguous whether it means seconds or milliseconds.

    >>> to_millis(Duration.of_seconds(1), "interval"), to_millis(250, "interval")
    (1000, 250)
    """
    if isinstance(value, Duration):
        millis = value.to_millis()
    elif isinstance(value, Time):
        millis = value.to_milliseconds()
    elif isinstance(value, dt.timedelta):
        millis = value // _MILLISECOND
    elif number and isinstance(value, int) and not isinstance(value, bool):
        millis = value
    else:
        raise ArgumentTypeError(
            f"{what} is not an amount of time: {value!r}",
            hint="use a Duration such as Duration.of_seconds(10), a Time"
            + (
                ", a datetime.timedelta, or an int of milliseconds"
                if number
                else " or a datetime.timedelta"
            ),
        )
    if minimum is not None and millis < minimum:
        raise ArgumentError(f"{what} must be at least {minimum} ms, not {millis} ms")
    return millis


__all__ = ["Duration", "Instant", "Time", "to_millis"]
