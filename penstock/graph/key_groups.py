"""Maps keys to key groups and key groups to subtasks, stable across processes, machines and Python versions.

Python salts `hash()` of text and bytes per process, so keys are hashed here by value. Keys that are equal
(`1 == 1.0 == True`) hash alike.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
import zlib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from penstock.common.user_types import Key
from penstock.errors import ArgumentTypeError
from penstock.graph.keys import ListKey

_MASK = 0xFFFFFFFF
_SEED_NONE = 0x9E3779B9


def _mix(h: int) -> int:
    """Spread the bits of a 32-bit integer (the finalizer of MurmurHash3)."""
    h &= _MASK
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def _number(key: Key) -> int:
    # The hash of NaN depends on the object, in this process only.
    h = hash(key) if key == key else 0  # noqa: PLR0124 - NaN differs from itself
    return _mix(h ^ h >> 32)


def _sequence(key: Key) -> int:
    h = 0x345678
    for item in key:
        h = (h * 31 + stable_hash(item)) & _MASK
    return _mix(h ^ len(key))


def _frozenset(key: frozenset[Any]) -> int:
    return _mix(sum(stable_hash(item) for item in key))


def _datetime(key: dt.datetime) -> int:
    if key.tzinfo is not None:
        key = key.astimezone(dt.UTC)
    return zlib.crc32(key.isoformat().encode())


_HASHERS: dict[type, Callable[[Any], int]] = {
    type(None): lambda _: _SEED_NONE,
    bool: _number,
    int: _number,
    float: _number,
    complex: _number,
    Decimal: _number,
    Fraction: _number,
    str: lambda key: zlib.crc32(key.encode("utf-8", "surrogatepass")),
    bytes: zlib.crc32,
    tuple: _sequence,
    ListKey: _sequence,
    frozenset: _frozenset,
    dt.datetime: _datetime,
    dt.date: lambda key: zlib.crc32(key.isoformat().encode()),
    dt.time: lambda key: zlib.crc32(key.isoformat().encode()),
    dt.timedelta: lambda key: _number(key.total_seconds()),
    uuid.UUID: lambda key: _number(key.int),
}


def _find_hasher(kind: type) -> Callable[[Any], int]:
    if issubclass(kind, enum.Enum) and not issubclass(kind, int | str):
        return lambda key: zlib.crc32(f"{type(key).__qualname__}.{key.name}".encode())
    for base in kind.__mro__[:-1]:
        if base in _HASHERS:
            return _HASHERS[base]
    if hasattr(kind, "stable_key"):
        return lambda key: stable_hash(key.stable_key())
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.compare]
        return lambda key: _sequence([getattr(key, name) for name in names])
    if kind.__module__ == "numpy":
        return lambda key: stable_hash(key.item())
    raise ArgumentTypeError(
        f"keys of type {kind.__qualname__} are not supported: they cannot be hashed by value",
        detail="equal keys must reach the same subtask in every process, and Python's hash() is salted",
        hint="let the key selector return a number, text, bytes, a date, a Row, a frozen dataclass or a "
        "tuple of these; or add a method stable_key() to the class that does",
    )


def stable_hash(key: object) -> int:
    """Return a 32-bit hash of `key` that is the same in every process."""
    kind = type(key)
    hasher = _HASHERS.get(kind)
    if hasher is None:
        hasher = _HASHERS[kind] = _find_hasher(kind)
    return hasher(key)


_NEVER_NAN = frozenset(
    {int, str, bytes, bool, type(None), dt.datetime, dt.date, dt.time, dt.timedelta, uuid.UUID}
)


def holds_nan(key: object) -> bool:
    """Whether a key is or contains NaN: then it is not equal to itself or to a copy of itself.

    >>> holds_nan(("a", float("nan"))), holds_nan(("a", 1.5))
    (True, False)
    """
    kind = type(key)
    if kind in _NEVER_NAN:
        return False
    if kind is float:  # first, because the rest takes 300 ns
        return bool(key != key)  # noqa: PLR0124 - NaN differs from itself
    if isinstance(key, tuple | frozenset | ListKey):
        return any(map(holds_nan, key))
    if hasattr(key, "stable_key"):
        return holds_nan(key.stable_key())
    if dataclasses.is_dataclass(key):
        return any(
            holds_nan(getattr(key, field.name))
            for field in dataclasses.fields(key)
            if field.compare
        )
    return bool(key != key)  # noqa: PLR0124 - NaN differs from itself


def key_group_of(key: object, max_parallelism: int) -> int:
    """Return the key group of `key`.

    >>> key_group_of("a", 128) == key_group_of("a", 128)
    True
    """
    return _mix(stable_hash(key)) % max_parallelism


def subtask_of(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """Return the subtask that owns a key group.

    >>> [subtask_of(group, 2, 4) for group in range(4)]
    [0, 0, 1, 1]
    """
    return key_group * parallelism // max_parallelism


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """Return the key groups that `subtask` owns.

    >>> [key_group_range(subtask, 3, 8) for subtask in range(3)]
    [range(0, 3), range(3, 6), range(6, 8)]
    """
    start = -(-subtask * max_parallelism // parallelism)
    end = -(-(subtask + 1) * max_parallelism // parallelism)
    return range(start, end)
