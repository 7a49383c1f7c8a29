"""How Flink's print() shows a value."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

from penstock.common.type_information import BasicType, BasicTypeInfo, TypeInformation
from penstock.common.typeinfo import (
    ListTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    element_type_of,
)
from penstock.common.types import Row
from penstock.time.nanoseconds import nanos_of_second


def flink_string(value: object, type_info: TypeInformation | None = None) -> str:
    """Return the text that Flink prints for `value`.

    With a type, and inside of rows, values look as Flink's own do; a value without a type looks as Python shows it,
    as PyFlink prints pickled objects.

    >>> flink_string(Row("a", 0))
    '+I[a, 0]'
    >>> flink_string(("hi", 0, True))
    "('hi', 0, True)"
    """
    if isinstance(value, Row):
        return _row(value, type_info)
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return str(value)
    return _shown(value, type_info)


def _row(row: Row, type_info: TypeInformation | None) -> str:
    types: list[TypeInformation | None] = [None] * len(row)
    if isinstance(type_info, RowTypeInfo) and len(type_info.get_field_types()) == len(row):
        types = list(type_info.get_field_types())
    fields = ", ".join(_shown(value, kind) for value, kind in zip(row, types, strict=True))
    return f"{row.get_row_kind()}[{fields}]"


def _shown(value: Any, type_info: TypeInformation | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, Row) and not isinstance(type_info, TupleTypeInfo):
        return _row(value, type_info)
    if isinstance(type_info, PickledBytesTypeInfo):
        return str(value)
    if isinstance(value, dict):
        keys, values = (None, None)
        if isinstance(type_info, MapTypeInfo):
            keys, values = type_info.key_type_info, type_info.value_type_info
        return (
            "{"
            + ", ".join(f"{_shown(k, keys)}={_shown(v, values)}" for k, v in value.items())
            + "}"
        )
    if isinstance(type_info, TupleTypeInfo):
        pairs = zip(value, type_info.get_field_types(), strict=True)
        return f"({','.join(_shown(item, kind) for item, kind in pairs)})"
    if isinstance(type_info, RowTypeInfo):
        return _row(type_info.validate(value), type_info)
    if isinstance(value, list | bytes | bytearray) or isinstance(type_info, ListTypeInfo):
        return _sequence(value, type_info)
    if isinstance(value, tuple):
        return f"({','.join(_shown(item, None) for item in value)})"
    return _scalar(value, type_info)


def _sequence(value: Any, type_info: TypeInformation | None) -> str:
    if isinstance(value, bytes | bytearray):  # Java's bytes are signed
        return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
    element = element_type_of(type_info)
    return f"[{', '.join(_shown(item, element) for item in value)}]"


def _scalar(value: Any, type_info: TypeInformation | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(type_info, BasicTypeInfo):
        if type_info.basic_type is BasicType.FLOAT:
            return java_float(value)
        if type_info.basic_type is BasicType.DOUBLE:
            return java_double(float(value))
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, dt.datetime):
        fraction = f"{nanos_of_second(value):09d}".rstrip("0") or "0"
        return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"
    if isinstance(value, dt.time):
        return f"{value:%H:%M:%S}"
    return str(value)


def java_double(value: float) -> str:
    """Return a double as Java shows it.

    >>> [java_double(number) for number in (1.0, 1e10, 0.0001)]
    ['1.0', '1.0E10', '1.0E-4']
    """
    if 1e-3 <= abs(value) < 1e7:
        return float.__repr__(value)  # Python and Java agree here
    return _java_number(value, float.__repr__(value))


def java_float(value: float) -> str:
    """Return a number as Java shows it after it was rounded to 32 bits.

    >>> java_float(0.1)
    '0.1'
    """
    narrow = struct.unpack("f", struct.pack("f", value))[0]
    for digits in range(1, 10):
        text = f"{narrow:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == narrow:
            return _java_number(narrow, text)
    return _java_number(narrow, repr(narrow))


def _java_number(value: float, text: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    assert isinstance(exponent, int)
    prefix = "-" if sign else ""
    plain = "".join(map(str, digits))
    point = len(plain) + exponent  # where the decimal point stands
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{prefix}0.{'0' * -point}{plain}"
        plain = plain.ljust(point, "0")
        return f"{prefix}{plain[:point]}.{plain[point:] or '0'}"
    return f"{prefix}{plain[0]}.{plain[1:] or '0'}E{point - 1}"


__all__ = ["flink_string", "java_double", "java_float"]
