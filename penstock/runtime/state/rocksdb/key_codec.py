"""Encodes keys as bytes, for backends that do not keep objects.

Equal keys have the same bytes (`1`, `1.0` and `True` do), in every process. The encoding is prefix-free, so keys can be
concatenated and looked up by prefix. Common types can be decoded from their bytes (`is_exact`); for others a backend stores
the objects with their values.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from penstock.errors import ArgumentTypeError
from penstock.graph.keys import ListKey
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow

_NONE: Final = b"N"
_GLOBAL: Final = b"G"

_INT = struct.Struct(">cq")
_FLOAT = struct.Struct(">cd")
_WINDOW = struct.Struct(">cqq")
_LENGTH = struct.Struct(">cI")
_ORDER = struct.Struct(">Q")
_SIGN: Final = 2**63

# Sizes of the encodings without a length, by tag.
_FIXED: Final = {ord("N"): 1, ord("G"): 1, ord("i"): 9, ord("f"): 9, ord("W"): 17, ord("K"): 9}


def order_of(number: int) -> bytes:
    """Return 8 bytes that sort like the number; numbers beyond 64 bits are clamped.

    >>> order_of(-1) < order_of(0) < order_of(10**9)
    True
    """
    return _ORDER.pack(min(max(number, -_SIGN), _SIGN - 1) + _SIGN)


def number_of(order: bytes) -> int:
    """Decode the bytes of `order_of`."""
    found: int = _ORDER.unpack(order)[0] - _SIGN
    return found


def _sized(tag: bytes, content: bytes) -> bytes:
    return _LENGTH.pack(tag, len(content)) + content


def _int(value: Any) -> bytes:
    number = int(value)
    try:
        return _INT.pack(b"i", number)
    except struct.error:
        size = number.bit_length() // 8 + 1
        return _sized(b"I", number.to_bytes(size, "big", signed=True))


def _rational(value: Any) -> bytes:
    """Encode a number by its value: as an integer or a float if it is one, else as a fraction."""
    if value != value:  # noqa: PLR0124 - NaN
        return _FLOAT.pack(b"f", float("nan"))
    if value in (float("inf"), float("-inf")):
        return _FLOAT.pack(b"f", float(value))
    fraction = Fraction(value)
    if fraction.denominator == 1:
        return _int(fraction.numerator)
    try:
        as_float = float(fraction)
    except OverflowError:
        as_float = 0.0
    if Fraction(as_float) == fraction:
        return _FLOAT.pack(b"f", as_float)
    return _sized(b"Q", f"{fraction.numerator}/{fraction.denominator}".encode())


def _complex(value: complex) -> bytes:
    if value.imag == 0:
        return _rational(value.real)
    return _sized(b"C", encode(value.real) + encode(value.imag))


def _str(value: str) -> bytes:
    return _sized(b"S", str.encode(value, "utf-8", "surrogatepass"))


def _tuple(value: Any) -> bytes:
    return _sized(b"T", b"".join(map(encode, value)))


def _list(value: Any) -> bytes:
    return _sized(b"L", b"".join(map(encode, value)))


def _instant(value: dt.datetime) -> bytes:
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC)
    return _sized(b"M", value.isoformat().encode())


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: _NONE,
    int: _int,
    bool: _int,
    float: _rational,
    Decimal: _rational,
    Fraction: _rational,
    complex: _complex,
    str: _str,
    bytes: lambda value: _sized(b"B", value),
    tuple: _tuple,
    ListKey: _list,
    TimeWindow: lambda window: _WINDOW.pack(b"W", window[0], window[1]),
    CountWindow: lambda window: _INT.pack(b"K", window[0]),
    GlobalWindow: lambda _: _GLOBAL,
    frozenset: lambda value: _sized(b"Z", b"".join(sorted(map(encode, value)))),
    dt.datetime: _instant,
    dt.date: lambda value: _sized(b"D", value.isoformat().encode()),
    dt.time: lambda value: _sized(b"M", value.isoformat().encode()),
    dt.timedelta: lambda value: _sized(
        b"P", b"%d:%d:%d" % (value.days, value.seconds, value.microseconds)
    ),
    uuid.UUID: lambda value: _sized(b"U", value.bytes),
}


def _object(kind: type, parts: Any) -> bytes:
    return _sized(b"O", _str(f"{kind.__module__}.{kind.__qualname__}") + encode(tuple(parts)))


def _find_encoder(kind: type) -> Callable[[Any], bytes]:
    if issubclass(kind, enum.Enum) and not issubclass(kind, int | str):
        return lambda value: _object(kind, [value.name])
    for base in kind.__mro__[:-1]:
        if base in _ENCODERS:
            return _ENCODERS[base]
    if hasattr(kind, "stable_key"):
        return lambda value: _object(kind, [value.stable_key()])
    if dataclasses.is_dataclass(kind) and kind.__eq__ is not object.__eq__:
        names = [field.name for field in dataclasses.fields(kind) if field.compare]
        return lambda value: _object(kind, [getattr(value, name) for name in names])
    if kind.__module__ == "numpy":
        return lambda value: encode(value.item())
    if kind.__eq__ is not object.__eq__ and "__dict__" in dir(kind):
        return lambda value: _object(kind, sorted(vars(value).items()))
    raise ArgumentTypeError(
        f"keys of type {kind.__qualname__} are not supported by this state backend",
        detail="state that is kept outside of memory is looked up by the bytes of its key",
        hint="use a number, text, bytes, a date, a Row, a frozen dataclass or a tuple of these as the key; or add "
        "a method stable_key() to the class that returns one",
    )


def encode(value: object) -> bytes:
    """Return the bytes of a key.

    >>> encode(1) == encode(1.0) == encode(True)
    True
    """
    kind = type(value)
    encoder = _ENCODERS.get(kind)
    if encoder is None:
        encoder = _ENCODERS[kind] = _find_encoder(kind)
    return encoder(value)


_EXACT: Final = frozenset({type(None), int, str, bytes, TimeWindow, CountWindow, GlobalWindow})


def is_exact(value: Any) -> bool:
    """Whether `decode` returns the same value with the same type."""
    kind = type(value)
    if kind in _EXACT:
        return True
    if kind is tuple or kind is ListKey:
        return all(map(is_exact, value))
    return kind is float and not value.is_integer()


def decode(data: bytes, position: int = 0) -> object:
    """Return the key whose bytes begin at `position`; only for exact keys.

    >>> decode(encode(("a", 1)))
    ('a', 1)
    """
    tag = data[position]
    if tag == 0x53:  # S
        end = skip(data, position)
        return str(data[position + 5 : end], "utf-8", "surrogatepass")
    if tag == 0x69:  # i
        return _INT.unpack_from(data, position)[1]
    if tag == 0x4E:  # N
        return None
    if tag == 0x57:  # W
        return TimeWindow(*_WINDOW.unpack_from(data, position)[1:])
    if tag == 0x47:  # G
        return GlobalWindow()
    if tag == 0x4B:  # K
        return CountWindow(_INT.unpack_from(data, position)[1])
    if tag == 0x66:  # f
        return _FLOAT.unpack_from(data, position)[1]
    end = skip(data, position)
    content = data[position + 5 : end]
    if tag == 0x42:  # B
        return content
    if tag == 0x49:  # I
        return int.from_bytes(content, "big", signed=True)
    if tag in {0x54, 0x4C}:  # T, L
        items, at = [], 0
        while at < len(content):
            items.append(decode(content, at))
            at = skip(content, at)
        return tuple(items) if tag == 0x54 else ListKey(items)
    raise ValueError(f"cannot decode a key with tag {tag}")


def skip(data: bytes, position: int) -> int:
    """Return the end of the key that begins at `position`."""
    size = _FIXED.get(data[position])
    if size is not None:
        return position + size
    length: int = _LENGTH.unpack_from(data, position)[1]
    return position + 5 + length
