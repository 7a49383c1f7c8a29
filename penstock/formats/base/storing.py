"""Conversion of values for Arrow: Rows become dicts, decimals get their scale, instants become timestamps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.common.user_types import Record
from penstock.formats.base.decimals import decimal_fitter
from penstock.formats.base.field_types import FieldType, decimal_size
from penstock.formats.base.rows import field_values
from penstock.time.durations import Instant

Converter = Callable[[Any], Any]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def storing(kind: FieldType, *, sized_text: bool = False) -> Converter | None:
    """Return the converter to a value that Arrow accepts; None if it accepts values unchanged.

    With `sized_text`, CHAR is padded with blanks, and CHAR and VARCHAR are truncated to their length, as in Flink's ORC
    files: ORC has both types. Parquet has one string type, and Flink writes strings unchanged.
    """
    inner = _nested(kind, sized_text=sized_text) or _scalar(kind, sized_text=sized_text)
    if inner is None:
        return None
    convert = inner
    return lambda value: None if value is None else convert(value)


def _scalar(kind: FieldType, *, sized_text: bool) -> Converter | None:
    if kind.kind in {"DECIMAL", "DECIMAL0"}:
        return decimal_fitter(*decimal_size(kind))
    if kind.kind in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return _moment
    if kind.kind == "STRING" and sized_text and kind.length is not None:
        length, fixed = kind.length, kind.fixed
        return lambda text: text[:length].ljust(length) if fixed else text[:length]
    return None


def _nested(kind: FieldType, *, sized_text: bool) -> Converter | None:
    if kind.kind == "ROW":
        return _row(kind, sized_text=sized_text)
    if kind.kind == "UNION":
        return _union(kind, sized_text=sized_text)
    if kind.kind == "ARRAY":
        element = storing(kind.fields[0][1], sized_text=sized_text) or _same
        return lambda values: list(map(element, values))
    if kind.kind == "MAP":
        key, item = (storing(inner, sized_text=sized_text) or _same for _, inner in kind.fields)
        return lambda values: [(key(k), item(v)) for k, v in values.items()]
    return None


def _row(kind: FieldType, *, sized_text: bool) -> Converter:
    names = kind.names
    converters = [storing(inner, sized_text=sized_text) or _same for _, inner in kind.fields]

    def convert(record: Record) -> dict[str, Any]:
        values = zip(names, converters, field_values(record, names), strict=True)
        return {name: each(value) for name, each, value in values}

    return convert


_TAKES: dict[str, Callable[[Any], bool]] = {
    "BOOLEAN": lambda value: isinstance(value, bool),
    "INT": lambda value: _is_whole(value, 31),
    "BIGINT": lambda value: _is_whole(value, 63),
    "FLOAT": lambda value: isinstance(value, float),
    "DOUBLE": lambda value: isinstance(value, float),
    "STRING": lambda value: isinstance(value, str),
    "BYTES": lambda value: isinstance(value, bytes | bytearray),
    "DECIMAL": lambda value: isinstance(value, Decimal),
    "DATE": lambda value: isinstance(value, dt.date) and not isinstance(value, dt.datetime),
    "TIME": lambda value: isinstance(value, dt.time),
    "TIMESTAMP": lambda value: isinstance(value, dt.datetime | Instant),
    "TIMESTAMP_LTZ": lambda value: isinstance(value, dt.datetime | Instant),
    "ARRAY": lambda value: isinstance(value, list | tuple) and not hasattr(value, "_fields"),
    "MAP": lambda value: isinstance(value, dict),
    "ROW": lambda value: not isinstance(value, str | bytes | int | float),
}


def _is_whole(value: Any, bits: int) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and -(1 << bits) <= value < 1 << bits


def _union(kind: FieldType, *, sized_text: bool) -> Converter:
    """Put a value into the first member whose type accepts it; an integer becomes a float if there is no other numeric type."""
    members = [
        (name, inner.kind, storing(inner, sized_text=sized_text) or _same)
        for name, inner in kind.fields
    ]

    def convert(value: Any) -> dict[str, Any]:
        for name, each, store in members:
            if _TAKES[each](value):
                return {name: store(value)}
        if _is_whole(value, 63):
            for name, each, _ in members:
                if each in {"DOUBLE", "FLOAT"}:
                    return {name: float(value)}
        shown = ", ".join(each for _, each, _ in members)
        raise TypeError(f"{value!r:.100} matches none of {shown}")

    return convert


def _moment(value: Any) -> Any:
    """Return an Instant as a datetime, truncated to microseconds."""
    if isinstance(value, Instant):
        return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return value


def _same(value: object) -> Any:
    return value
