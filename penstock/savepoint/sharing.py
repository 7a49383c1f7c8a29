"""Detects values that reference the same mutable object twice: their parts cannot be written separately."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import gc
import types
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from penstock.common.types import Row
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow

# The identity of these does not matter. A tuple may contain other objects, so it is not one of them.
_ATOMS: Final = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        dt.date,
        dt.datetime,
        dt.time,
        dt.timedelta,
        dt.timezone,
        Decimal,
        Fraction,
        uuid.UUID,
        range,
        type,
        types.FunctionType,
        types.BuiltinFunctionType,
        TimeWindow,
        CountWindow,
        GlobalWindow,
    }
)

_OPEN: Final = frozenset({tuple, frozenset, list, set, dict, Row})
_NEVER_PICKLED_APART: Final = (type, types.ModuleType, types.FunctionType, enum.Enum)
_MAX_REACHED: Final = 10_000


def shares_objects(value: Any) -> bool:
    """Whether a value references one mutable object from two places, or itself.

    Written part by part it would be restored with two objects instead of one. An object of an unknown class is pickled as a
    whole, so it may contain repeated references; but not to something elsewhere in the value.

    >>> item = []
    >>> shares_objects([item, item]), shares_objects([[], []]), shares_objects(("a", "a"))
    (True, False, False)
    """
    if type(value) not in _OPEN:
        return False
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        kind = type(current)
        if kind in _ATOMS or isinstance(current, enum.Enum):
            continue
        if kind is tuple or kind is frozenset:
            waiting.extend(current)
            continue
        if id(current) in seen:
            return True
        seen.add(id(current))
        if kind is list or kind is set:
            waiting.extend(current)
        elif kind is dict:
            waiting.extend(current)
            waiting.extend(current.values())
        elif kind is Row:
            waiting.extend(current)
        elif not _is_record(kind):
            inside = _reached_from(current)
            if inside is None or not inside.isdisjoint(seen):
                return True
            seen |= inside
    return False


def _is_record(kind: type) -> bool:
    """Whether a class is one of Penstock's plain data classes, whose identity does not matter."""
    return kind.__module__.startswith("penstock.") and dataclasses.is_dataclass(kind)


def _reached_from(value: object) -> set[int] | None:
    """Return the ids of the mutable objects that an object of an unknown class references; None if they are too many."""
    found: set[int] = set()
    waiting = [value]
    while waiting:
        for current in gc.get_referents(waiting.pop()):
            if isinstance(current, _NEVER_PICKLED_APART) or type(current) in _ATOMS:
                continue
            if type(current) is tuple or type(current) is frozenset:
                waiting.append(current)
            elif id(current) not in found and current is not value:
                found.add(id(current))
                waiting.append(current)
                if len(found) > _MAX_REACHED:
                    return None
    return found
