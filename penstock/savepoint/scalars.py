"""Codecs of scalar values, of windows, and of pickled objects."""

from __future__ import annotations

import datetime as dt
import pickle
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.pickling.portable_pickles import dumps
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow

_INT64: Final = range(-(2**63), 2**63)
_PRECISION: Final = 38  # digits of Arrow's 128-bit decimals
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_EPOCH: Final = dt.datetime(1970, 1, 1)  # for datetimes without a time zone
_UTC_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Codec:
    """Converts the values of a column to an Arrow array and back. None is null."""

    __slots__ = ()

    name: ClassVar[str]

    @property
    def arrow_type(self) -> object:
        """The Arrow type of the array."""
        raise NotImplementedError

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return pa.array(values, self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        values: list[Any] = array.to_pylist()
        return values

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        return {"type": self.name}

    def merged(self, other: Codec) -> Codec:
        """Return a codec for the values of both, which differ."""
        return PickleCodec()


@dataclass(frozen=True, slots=True)
class NullCodec(Codec):
    """Only None."""

    name = "null"

    @property
    def arrow_type(self) -> object:
        """The null type."""
        return pa.null()


@dataclass(frozen=True, slots=True)
class PickleCodec(Codec):
    """Any objects, each one pickled."""

    name = "pickle"

    @property
    def arrow_type(self) -> object:
        """Bytes."""
        return pa.binary()

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return pa.array([None if v is None else dumps(v) for v in values], pa.binary())

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        return [None if data is None else pickle.loads(data) for data in array.to_pylist()]


_PLAIN: Final[dict[str, Any]] = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
}


@dataclass(frozen=True, slots=True)
class PlainCodec(Codec):
    """Values that Arrow itself restores without loss."""

    kind: str

    @property
    def arrow_type(self) -> object:
        """The type of the same name."""
        return _PLAIN[self.kind]

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        return {"type": self.kind}


STR: Final = PlainCodec("str")


@dataclass(frozen=True, slots=True)
class DatetimeCodec(Codec):
    """Datetimes of one time zone, or without one."""

    zone: str | None

    @property
    def arrow_type(self) -> object:
        """A timestamp in microseconds."""
        return pa.timestamp("us", self.zone)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return pa.array([None if v is None else _microseconds(v) for v in values], self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        zone = None if self.zone is None else _zone_of(self.zone)
        numbers = array.cast(pa.int64()).to_pylist()
        return [None if number is None else _datetime(number, zone) for number in numbers]

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        return {"type": "datetime", "zone": self.zone}


@dataclass(frozen=True, slots=True)
class TimedeltaCodec(Codec):
    """Time spans."""

    name = "timedelta"

    @property
    def arrow_type(self) -> object:
        """A duration in microseconds."""
        return pa.duration("us")

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        numbers = [None if v is None else v // _MICROSECOND for v in values]
        return pa.array(numbers, self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        numbers = array.cast(pa.int64()).to_pylist()
        return [None if n is None else dt.timedelta(microseconds=n) for n in numbers]


@dataclass(frozen=True, slots=True)
class DecimalCodec(Codec):
    """Decimals with the same scale."""

    scale: int

    @property
    def arrow_type(self) -> object:
        """A decimal of 128 bits."""
        return pa.decimal128(_PRECISION, self.scale)

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        return {"type": "decimal", "scale": self.scale}

    def merged(self, other: Codec) -> Codec:
        """Return a codec for the values of both."""
        return (
            DecimalTextCodec()
            if isinstance(other, DecimalCodec | DecimalTextCodec)
            else PickleCodec()
        )


@dataclass(frozen=True, slots=True)
class DecimalTextCodec(Codec):
    """Decimals of any form, as text: 1.5 and 1.50 are equal but not identical."""

    name = "decimal text"

    @property
    def arrow_type(self) -> object:
        """Text."""
        return pa.string()

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return pa.array([None if v is None else str(v) for v in values], pa.string())

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        return [None if text is None else Decimal(text) for text in array.to_pylist()]

    def merged(self, other: Codec) -> Codec:
        """Return a codec for the values of both."""
        return self if isinstance(other, DecimalCodec) else PickleCodec()


@dataclass(frozen=True, slots=True)
class UuidCodec(Codec):
    """UUIDs."""

    name = "uuid"

    @property
    def arrow_type(self) -> object:
        """16 bytes."""
        return pa.binary(16)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return pa.array([None if v is None else v.bytes for v in values], self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        return [None if data is None else uuid.UUID(bytes=data) for data in array.to_pylist()]


@dataclass(frozen=True, slots=True)
class TimeWindowCodec(Codec):
    """Time windows."""

    name = "time window"

    @property
    def arrow_type(self) -> object:
        """Start (inclusive) and end (exclusive) in epoch milliseconds."""
        return pa.struct([("start", pa.int64()), ("end", pa.int64())])

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        found = [None if v is None else {"start": v[0], "end": v[1]} for v in values]
        return pa.array(found, self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        starts, ends = array.field(0).to_pylist(), array.field(1).to_pylist()
        valid = array.is_valid().to_pylist()
        return [
            TimeWindow(start, end) if there else None
            for start, end, there in zip(starts, ends, valid, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class CountWindowCodec(Codec):
    """Count windows."""

    name = "count window"

    @property
    def arrow_type(self) -> object:
        """The number of the window."""
        return pa.struct([("id", pa.int64())])

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return pa.array([None if v is None else {"id": v[0]} for v in values], self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        ids, valid = array.field(0).to_pylist(), array.is_valid().to_pylist()
        return [
            CountWindow(number) if there else None for number, there in zip(ids, valid, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class GlobalWindowCodec(Codec):
    """The global window."""

    name = "global window"

    @property
    def arrow_type(self) -> object:
        """True: there is only one such window."""
        return pa.bool_()

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return pa.array([None if value is None else True for value in values], pa.bool_())

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        return [None if there is None else GlobalWindow() for there in array.to_pylist()]


# Inference: each function gets values of one type, and returns None if they must be pickled.


def is_text(text: str) -> bool:
    """Whether text can be encoded as UTF-8: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(kind: str) -> Callable[[list[Any]], Codec]:
    codec = PlainCodec(kind)
    return lambda _: codec


def _ints(values: list[Any]) -> Codec | None:
    return PlainCodec("int") if min(values) in _INT64 and max(values) in _INT64 else None


def _texts(values: list[Any]) -> Codec | None:
    return STR if all(map(str.isascii, values)) or all(map(is_text, values)) else None


def _times(values: list[Any]) -> Codec | None:
    return PlainCodec("time") if all(v.tzinfo is None and not v.fold for v in values) else None


def _timedeltas(values: list[Any]) -> Codec | None:
    return TimedeltaCodec() if all(v // _MICROSECOND in _INT64 for v in values) else None


def _datetimes(values: list[Any]) -> Codec | None:
    zones = {_name_of(value.tzinfo) for value in values}
    if len(zones) > 1 or "" in zones:
        return None
    name = zones.pop()
    zone = None if name is None else _zone_of(name)
    try:
        same = all(_is_same(value, _datetime(_microseconds(value), zone)) for value in values)
    except OverflowError:  # the time in another zone is out of the range of datetime
        return None
    return DatetimeCodec(name) if same else None


def _is_same(one: dt.datetime, other: dt.datetime) -> bool:
    """Whether two datetimes show the same on the same clock; in one hour a year two different ones do."""
    return one.replace(tzinfo=None) == other.replace(tzinfo=None) and one.fold == other.fold


def _name_of(zone: dt.tzinfo | None) -> str | None:
    """Return Arrow's name of a time zone; empty if it has none."""
    if zone is None:
        return None
    if type(zone) is ZoneInfo:
        return zone.key if zone.key and ZoneInfo(zone.key) is zone else ""
    if type(zone) is not dt.timezone:
        return ""
    if zone is dt.UTC:
        return "UTC"
    offset = zone.utcoffset(None)
    minutes, rest = divmod(offset, dt.timedelta(minutes=1))
    if rest or repr(zone) != repr(dt.timezone(offset)):  # it has seconds, or its own name
        return ""
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _zone_of(name: str) -> dt.tzinfo:
    if name == "UTC":
        return dt.UTC
    if name[0] in "+-":
        minutes = int(name[1:3]) * 60 + int(name[4:6])
        return dt.timezone(dt.timedelta(minutes=-minutes if name[0] == "-" else minutes))
    return ZoneInfo(name)


def _microseconds(value: dt.datetime) -> int:
    return (value - (_EPOCH if value.tzinfo is None else _UTC_EPOCH)) // _MICROSECOND


def _datetime(microseconds: int, zone: dt.tzinfo | None) -> dt.datetime:
    since = dt.timedelta(microseconds=microseconds)
    return _EPOCH + since if zone is None else (_UTC_EPOCH + since).astimezone(zone)


def _decimals(values: list[Any]) -> Codec | None:
    scales = set()
    for value in values:
        sign, digits, exponent = value.as_tuple()
        negative_zero = sign and not any(digits)
        if not isinstance(exponent, int) or len(digits) > _PRECISION or negative_zero:
            return DecimalTextCodec()
        scales.add(-exponent)
    scale = scales.pop()
    return DecimalCodec(scale) if not scales and 0 <= scale <= _PRECISION else DecimalTextCodec()


def _uuids(values: list[Any]) -> Codec | None:
    return UuidCodec() if all(v.is_safe is uuid.SafeUUID.unknown for v in values) else None


def _windows(codec: Codec) -> Callable[[list[Any]], Codec | None]:
    def infer(values: list[Any]) -> Codec | None:
        numbers = [number for value in values for number in value]
        exact = all(type(number) is int and number in _INT64 for number in numbers)
        return codec if exact else None

    return infer


INFERRED: Final[dict[type, Callable[[list[Any]], Codec | None]]] = {
    bool: _plain("bool"),
    int: _ints,
    float: _plain("float"),
    str: _texts,
    bytes: _plain("bytes"),
    dt.date: _plain("date"),
    dt.time: _times,
    dt.datetime: _datetimes,
    dt.timedelta: _timedeltas,
    Decimal: _decimals,
    uuid.UUID: _uuids,
    TimeWindow: _windows(TimeWindowCodec()),
    CountWindow: _windows(CountWindowCodec()),
    GlobalWindow: lambda _: GlobalWindowCodec(),
}

_BY_NAME: Final[dict[str, Codec]] = {
    codec.name: codec
    for codec in (
        NullCodec(),
        PickleCodec(),
        TimedeltaCodec(),
        DecimalTextCodec(),
        UuidCodec(),
        TimeWindowCodec(),
        CountWindowCodec(),
        GlobalWindowCodec(),
    )
}


def from_json(value: dict[str, Any]) -> Codec:
    """Read what `to_json` of a scalar codec returned; raises KeyError if there is no such codec."""
    kind = value["type"]
    if kind == "datetime":
        return DatetimeCodec(value["zone"])
    if kind == "decimal":
        return DecimalCodec(value["scale"])
    return PlainCodec(kind) if kind in _PLAIN else _BY_NAME[kind]
