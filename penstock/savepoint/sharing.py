"""Whether a value holds the same changeable object twice: then its parts cannot be written one by one."""

from __future__ import annotations

import datetime as dt
import enum
import types
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from penstock.common.types import Row
from penstock.common.windowing import CountWindow, GlobalWindow, TimeWindow

# Nothing can be told from the identity of these. A tuple may hold what can be told apart, so it is not one of them.
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


def shares_objects(value: Any) -> bool:
    """Whether a value refers to one changeable object from two places, or to itself.

    Written part by part it would come back with two objects instead of one. What is inside objects of unknown classes
    does not matter: such an object is pickled as a whole.

    >>> item = []
    >>> shares_objects([item, item]), shares_objects([[], []]), shares_objects(("a", "a"))
    (True, False, False)
    """
    if type(value) in _ATOMS:
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
    return False
