"""Converts PostgreSQL's text values to Python values, the same for rows of a snapshot and for changes of the log.

| PostgreSQL | Python |
|---|---|
| smallint, integer, bigint, oid | int |
| real, double precision | float |
| numeric | Decimal |
| boolean | bool |
| bytea | bytes |
| date, time, timestamp | date, time, datetime without a time zone |
| time and timestamp with time zone | time, datetime with a time zone (a timestamp's is UTC) |
| interval | timedelta: a month counts 30 days, a year 365 |
| uuid | UUID |
| arrays | lists, of lists if they have more dimensions |
| domains | as their base type |
| text, varchar, char, enums, json, jsonb, xml, ranges, composites, all others | str, as PostgreSQL writes it |
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

Converter: TypeAlias = Callable[[str], Any]

_UTC: Final = dt.UTC
_OFFSET = re.compile(r"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$")
_INTERVAL = re.compile(
    r"(?:(?P<years>-?\+?\d+) years? ?)?(?:(?P<months>[+-]?\d+) mons? ?)?(?:(?P<days>[+-]?\d+) days? ?)?"
    r"(?:(?P<sign>[+-])?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))?$"
)


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """A row of pg_type: `kind` is its typtype, `element` the element type of an array, `base` the base type of a domain."""

    name: str
    kind: str = "b"
    element: int = 0
    base: int = 0
    delimiter: str = ","


def _bool(text: str) -> bool:
    if text == "t":
        return True
    if text == "f":
        return False
    raise ValueError(f"not a boolean: {text!r}")


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("not in the format of bytea_output = hex")
    return bytes.fromhex(text[2:])


def _date(text: str) -> dt.date:
    _check_year(text)
    return dt.date.fromisoformat(text)


def _time(text: str) -> dt.time:
    return dt.time.fromisoformat(_six_digits(text))


def _time_with_zone(text: str) -> dt.time:
    clock, zone = _split_offset(text)
    return dt.time.fromisoformat(_six_digits(clock)).replace(tzinfo=dt.timezone(zone))


def _timestamp(text: str) -> dt.datetime:
    _check_year(text)
    return dt.datetime.fromisoformat(_six_digits(text))


def _timestamp_with_zone(text: str) -> dt.datetime:
    _check_year(text)
    moment, zone = _split_offset(text)
    found = dt.datetime.fromisoformat(_six_digits(moment)).replace(tzinfo=dt.timezone(zone))
    return found.astimezone(_UTC)


def _check_year(text: str) -> None:
    if text.endswith(("infinity", " BC")) or text[4:5] != "-":
        raise ValueError(f"date {text!r} is out of Python's range: years are 1 to 9999")


def _six_digits(text: str) -> str:
    """Pad fractions of a second to six digits: Python 3.10's parser needs three or six.

    >>> _six_digits("10:00:00.5"), _six_digits("10:00:00")
    ('10:00:00.500000', '10:00:00')
    """
    whole, point, fraction = text.partition(".")
    return f"{whole}.{fraction:0<6}" if point else text


def _split_offset(text: str) -> tuple[str, dt.timedelta]:
    match = _OFFSET.search(text)
    if match is None:
        raise ValueError(f"{text!r} has no time zone")
    sign, hours, minutes, seconds = match.groups()
    offset = dt.timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    return text[: match.start()], -offset if sign == "-" else offset


def _interval(text: str) -> dt.timedelta:
    match = _INTERVAL.match(text)
    if match is None or not text:
        raise ValueError(f"not an interval in the format of intervalstyle = postgres: {text!r}")
    found = match.groupdict(default="0")
    days = int(found["years"]) * 365 + int(found["months"]) * 30 + int(found["days"])
    seconds, _, fraction = found["seconds"].partition(".")
    clock = dt.timedelta(
        hours=int(found["hours"]),
        minutes=int(found["minutes"]),
        seconds=int(seconds),
        microseconds=int(f"{fraction:0<6}") if fraction else 0,
    )
    return dt.timedelta(days=days) + (-clock if found["sign"] == "-" else clock)


_BY_NAME: Final[dict[str, Converter]] = {
    "int2": int,
    "int4": int,
    "int8": int,
    "oid": int,
    "float4": float,
    "float8": float,
    "numeric": Decimal,
    "bool": _bool,
    "bytea": _bytes,
    "date": _date,
    "time": _time,
    "timetz": _time_with_zone,
    "timestamp": _timestamp,
    "timestamptz": _timestamp_with_zone,
    "interval": _interval,
    "uuid": UUID,
}

# PostgreSQL's built-in types, whose oids never change: enough for most tables without a query.
BUILT_IN: Final[Mapping[int, TypeEntry]] = {
    16: TypeEntry("bool"),
    17: TypeEntry("bytea"),
    18: TypeEntry("char"),
    19: TypeEntry("name"),
    20: TypeEntry("int8"),
    21: TypeEntry("int2"),
    23: TypeEntry("int4"),
    25: TypeEntry("text"),
    26: TypeEntry("oid"),
    114: TypeEntry("json"),
    142: TypeEntry("xml"),
    700: TypeEntry("float4"),
    701: TypeEntry("float8"),
    869: TypeEntry("inet"),
    1042: TypeEntry("bpchar"),
    1043: TypeEntry("varchar"),
    1082: TypeEntry("date"),
    1083: TypeEntry("time"),
    1114: TypeEntry("timestamp"),
    1184: TypeEntry("timestamptz"),
    1186: TypeEntry("interval"),
    1266: TypeEntry("timetz"),
    1700: TypeEntry("numeric"),
    2950: TypeEntry("uuid"),
    3802: TypeEntry("jsonb"),
    1000: TypeEntry("_bool", element=16),
    1001: TypeEntry("_bytea", element=17),
    1005: TypeEntry("_int2", element=21),
    1007: TypeEntry("_int4", element=23),
    1009: TypeEntry("_text", element=25),
    1014: TypeEntry("_bpchar", element=1042),
    1015: TypeEntry("_varchar", element=1043),
    1016: TypeEntry("_int8", element=20),
    1021: TypeEntry("_float4", element=700),
    1022: TypeEntry("_float8", element=701),
    1115: TypeEntry("_timestamp", element=1114),
    1182: TypeEntry("_date", element=1082),
    1183: TypeEntry("_time", element=1083),
    1185: TypeEntry("_timestamptz", element=1184),
    1187: TypeEntry("_interval", element=1186),
    1231: TypeEntry("_numeric", element=1700),
    2951: TypeEntry("_uuid", element=2950),
    199: TypeEntry("_json", element=114),
    3807: TypeEntry("_jsonb", element=3802),
}


class PostgresTypes:
    """The converters of all types, by oid."""

    def __init__(self, entries: Mapping[int, TypeEntry] = BUILT_IN) -> None:
        self._entries = dict(entries)
        self._converters: dict[int, Converter] = {}

    def missing(self, oids: Iterable[int]) -> set[int]:
        """Return the oids of types that are not loaded yet."""
        return {oid for oid in oids if oid not in self._entries}

    def add(self, entries: Mapping[int, TypeEntry]) -> None:
        """Add types."""
        self._entries.update(entries)
        self._converters.clear()

    def name(self, oid: int) -> str:
        """Return the name of a type; of a domain, its base type."""
        entry = self._base(oid)
        return "unknown" if entry is None else entry.name

    def _base(self, oid: int) -> TypeEntry | None:
        entry = self._entries.get(oid)
        while entry is not None and entry.base:
            entry = self._entries.get(entry.base)
        return entry

    def converter(self, oid: int) -> Converter:
        """Return the converter from a type's text to a Python value; unknown types stay text."""
        found = self._converters.get(oid)
        if found is None:
            found = self._converters[oid] = self._make(oid)
        return found

    def _make(self, oid: int) -> Converter:
        entry = self._base(oid)
        if entry is None:
            return str
        if entry.element:
            element, delimiter = self.converter(entry.element), entry.delimiter
            return lambda text: parse_array(text, element, delimiter)
        return _BY_NAME.get(entry.name, str)


_TOKEN: Final = {
    delimiter: re.compile(
        rf'\s*(?:(?P<open>{{)|(?P<close>}})|(?P<next>{delimiter})|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^{{}}{delimiter}"]+))',
        re.DOTALL,
    )
    for delimiter in (",", ";")
}


def parse_array(text: str, element: Converter, delimiter: str = ",") -> list[Any]:
    r"""Parse the text form of an array.

    >>> parse_array('{1,NULL,3}', int), parse_array('{{a,"b \\"c\\""},{"",d}}', str)
    ([1, None, 3], [['a', 'b "c"'], ['', 'd']])
    >>> parse_array('[2:3]={1,2}', int)
    [1, 2]
    """
    at = text.index("{")
    stack: list[list[Any]] = [[]]
    token = _TOKEN[delimiter]
    while at < len(text):
        match = token.match(text, at)
        if match is None:
            raise ValueError(f"not an array: {text!r}")
        at = match.end()
        kind = match.lastgroup
        if kind == "open":
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif kind == "close":
            stack.pop()
            if not stack:
                raise ValueError(f"not an array: {text!r}")
        elif kind == "quoted":
            stack[-1].append(element(re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL)))
        elif kind == "bare":
            bare = match["bare"].strip()
            stack[-1].append(None if bare == "NULL" else element(bare))
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError(f"not an array: {text!r}")
    found: list[Any] = stack[0][0]
    return found


# How keys are compared, in Python as in PostgreSQL, so that both agree which part of a table a row is in.
NATIVE_KEYS: Final[Mapping[str, Converter]] = {
    "int2": int,
    "int4": int,
    "int8": int,
    "oid": int,
    "numeric": Decimal,
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamp_with_zone,
    "uuid": str,
    "bytea": str,
}

# For these types, a cast to text gives another form than the one in values.
TEXT_KEYS: Final[Mapping[str, Converter]] = {
    "bpchar": lambda text: text.rstrip(" "),
    "bool": lambda text: {"t": "true", "f": "false"}.get(text, text),
}
_KEYS: Final = {**NATIVE_KEYS, **TEXT_KEYS}


def comparable(kinds: Iterable[str], key: Iterable[str]) -> tuple[Any, ...]:
    """Return a key in a form that Python orders like PostgreSQL: by value, or by text in the collation "C".

    >>> comparable(["int4", "text"], ["10", "b"]) > comparable(["int4", "text"], ["9", "c"])
    True
    """
    return tuple(_KEYS.get(kind, str)(value) for kind, value in zip(kinds, key, strict=True))
