"""Values of options as text: durations, sizes of memory, booleans, lists and maps, as Flink writes them."""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Iterable
from typing import Any

from penstock.time.durations import Duration, Time


class OptionType(enum.Enum):
    """What kind of value an option has; the value of the member is how errors call it."""

    STRING = "text"
    INT = "an integer of 32 bits"
    LONG = "an integer of 64 bits"
    DOUBLE = "a number"
    BOOLEAN = "true or false"
    DURATION = "a duration such as '10 s', '200 ms' or '1 h'"
    MEMORY = "a memory size such as '64 mb' or '20 kb'"
    LIST = "a list such as 'a;b'"
    MAP = "a map such as 'key1:value1,key2:value2'"
    ENUM = "a name"


_NANOS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_NANOS["d"] = 24 * _NANOS["h"]
_DURATION_LABELS = {
    "d": ("d", "day", "days"),
    "h": ("h", "hour", "hours"),
    "min": ("min", "m", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "milli", "millis", "millisecond", "milliseconds"),
    "us": ("us", "µs", "micro", "micros", "microsecond", "microseconds"),
    "ns": ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
}
_DURATION_UNITS = {
    label: _NANOS[unit] for unit, labels in _DURATION_LABELS.items() for label in labels
}
_BYTES = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40}
_MEMORY_LABELS = {
    "b": ("b", "byte", "bytes"),
    "kb": ("k", "kb", "kib", "kibibytes"),
    "mb": ("m", "mb", "mib", "mebibytes"),
    "gb": ("g", "gb", "gib", "gibibytes"),
    "tb": ("t", "tb", "tib", "tebibytes"),
}
_MEMORY_UNITS = {label: _BYTES[unit] for unit, labels in _MEMORY_LABELS.items() for label in labels}
_AMOUNT = re.compile(r"\s*(-?\d+)\s*([^\d\s-]*)\s*", re.ASCII)


def _amount(text: str, units: dict[str, int], default: int) -> int:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError("it is not an integer followed by a unit")
    label = match[2].lower()
    if label and label not in units:
        raise ValueError(f"unknown unit '{match[2]}'")
    return int(match[1]) * (units[label] if label else default)


def parse_duration(text: str) -> Duration:
    """Read a duration in one of Flink's forms; a plain number is milliseconds. Raises ValueError.

    >>> [parse_duration(text).to_millis() for text in ("10 s", "5min", "200")]
    [10000, 300000, 200]
    """
    return Duration(_amount(text, _DURATION_UNITS, _NANOS["ms"]))


def format_duration(duration: Duration) -> str:
    """Write a duration so that `parse_duration` reads it, in the largest unit that is exact.

    >>> format_duration(Duration.of_millis(90_000))
    '90 s'
    """
    return _largest(duration.nanos, _NANOS, "0 ms")


def parse_memory(text: str) -> int:
    """Parse a memory size as bytes; a plain number is bytes, units go by 1024. Raises ValueError.

    >>> parse_memory("64 mb"), parse_memory("20480")
    (67108864, 20480)
    """
    size = _amount(text, _MEMORY_UNITS, 1)
    if size < 0:
        raise ValueError("a memory size must not be negative")
    return size


def format_memory(size: int) -> str:
    """Write a number of bytes so that `parse_memory` reads it, in the largest unit that is exact.

    >>> format_memory(67108864)
    '64 mb'
    """
    return _largest(size, _BYTES, "0 b")


def _largest(amount: int, units: dict[str, int], zero: str) -> str:
    if not amount:
        return zero
    unit = max((name for name in units if amount % units[name] == 0), key=units.__getitem__)
    return f"{amount // units[unit]} {unit}"


def parse_boolean(text: str) -> bool:
    """Read true or false, in any case. Raises ValueError."""
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise ValueError("it is neither true nor false")
    return lowered == "true"


def split_quoted(text: str, separator: str) -> list[str]:
    """Split at a separator, except inside quotes; a doubled quote stands for itself. Blank parts are dropped.

    >>> split_quoted("a;'b;c'; d", ";")
    ['a', 'b;c', 'd']
    """
    parts: list[str] = []
    current: list[str] = []
    quote = ""
    index = 0
    while index < len(text):
        char = text[index]
        if quote:
            if char != quote:
                current.append(char)
            elif text[index + 1 : index + 2] == quote:
                current.append(char)
                index += 1
            else:
                quote = ""
        elif char in "'\"" and not "".join(current).strip():
            quote = char
            current.clear()
        elif char == separator:
            parts.append("".join(current).strip())
            current = []
        else:
            current.append(char)
        index += 1
    if quote:
        raise ValueError("a quote is not closed")
    parts.append("".join(current).strip())
    return [part for part in parts if part]


def parse_list(text: str) -> list[str]:
    """Read a list: 'a;b', or YAML's '[a, b]'.

    >>> parse_list("a;b"), parse_list("[a, b]")
    (['a', 'b'], ['a', 'b'])
    """
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        return split_quoted(stripped[1:-1], ",")
    return split_quoted(stripped, ";")


def parse_map(text: str) -> dict[str, str]:
    """Read a map: 'key1:value1,key2:value2', or YAML's '{key1: value1}'. Raises ValueError.

    >>> parse_map("a:1,b:x:y")
    {'a': '1', 'b': 'x:y'}
    """
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        stripped = stripped[1:-1]
    result = {}
    for entry in split_quoted(stripped, ","):
        key, colon, value = entry.partition(":")
        if not colon:
            raise ValueError(f"'{entry}' is not of the form key:value")
        result[key.strip()] = value.strip()
    return result


def _quoted(text: str, separator: str) -> str:
    if separator in text or text != text.strip() or not text or text[0] in "'\"":
        return "'" + text.replace("'", "''") + "'"
    return text


def to_text(value: object) -> str:
    """Write any value of an option as text that reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dt.timedelta):
        value = Duration.of_timedelta(value)
    if isinstance(value, Time):
        value = Duration.of_millis(value.to_milliseconds())
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, dict):
        entries = (f"{to_text(key)}:{to_text(item)}" for key, item in value.items())
        return ",".join(_quoted(entry, ",") for entry in entries)
    if isinstance(value, list | tuple):
        return ";".join(_quoted(to_text(item), ";") for item in value)
    return str(value)


def convert(value: Any, kind: OptionType, choices: Iterable[str] = ()) -> Any:
    """Return the value of an option as its type: text is read, fitting values are kept. Raises ValueError."""
    if kind is OptionType.STRING:
        return to_text(value)
    if kind is OptionType.ENUM:
        return _convert_name(value, choices)
    if isinstance(value, str):
        return _read(value, kind, choices)
    if kind is OptionType.BOOLEAN:
        fits = isinstance(value, bool)
    elif kind in {OptionType.INT, OptionType.LONG, OptionType.MEMORY}:
        fits = isinstance(value, int) and not isinstance(value, bool)
        if fits:
            _check_bits(value, kind)
    elif kind is OptionType.DOUBLE:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        value = float(value) if fits else value
    elif kind is OptionType.DURATION:
        return _convert_duration(value)
    elif kind is OptionType.MAP:
        fits = isinstance(value, dict)
        value = {to_text(k): to_text(v) for k, v in value.items()} if fits else value
    else:
        fits = isinstance(value, list | tuple)
        value = _checked_items([to_text(item) for item in value], choices) if fits else value
    if not fits:
        raise ValueError(f"it is of type {type(value).__name__}")
    return value


def _read(text: str, kind: OptionType, choices: Iterable[str]) -> object:
    if kind is OptionType.BOOLEAN:
        return parse_boolean(text)
    if kind in {OptionType.INT, OptionType.LONG}:
        return _check_bits(int(text), kind)
    if kind is OptionType.DOUBLE:
        return float(text)
    if kind is OptionType.DURATION:
        return parse_duration(text)
    if kind is OptionType.MEMORY:
        return parse_memory(text)
    return parse_map(text) if kind is OptionType.MAP else _checked_items(parse_list(text), choices)


def _checked_items(items: list[str], choices: Iterable[str]) -> list[str]:
    names = list(choices)
    return [_convert_name(item, names) for item in items] if names else items


def _check_bits(value: int, kind: OptionType) -> int:
    bits = 31 if kind is OptionType.INT else 63
    if not -(2**bits) <= value < 2**bits:
        raise ValueError("it is out of range")
    if kind is OptionType.MEMORY and value < 0:
        raise ValueError("a memory size must not be negative")
    return value


def _convert_duration(value: object) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, Time):
        return Duration.of_millis(value.to_milliseconds())
    if isinstance(value, dt.timedelta):
        return Duration.of_timedelta(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Duration.of_millis(value)
    raise ValueError(f"it is of type {type(value).__name__}")


def _convert_name(value: object, choices: Iterable[str]) -> str:
    wanted = to_text(value).strip().lower().replace("-", "_")
    names = list(choices)
    for name in names:
        if name.lower().replace("-", "_") == wanted:
            return name
    raise ValueError(f"it is one of {', '.join(names)}")
