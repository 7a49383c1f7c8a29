"""Values of all kinds, and what tells them apart: not only whether they are equal, but whether they are the same."""

from __future__ import annotations

import datetime as dt
import enum
import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from penstock.common.types import Row, RowKind
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow

BERLIN = ZoneInfo("Europe/Berlin")


@dataclass(frozen=True)
class Point:
    x: int
    y: object = None


class Pair(NamedTuple):
    left: object
    right: object


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


def exact(value):
    """A value as nested tuples in which everything shows: 1, 1.0 and True differ, and so do 1.5 and 1.50."""
    kind = type(value)
    if kind is float:
        return kind, "nan" if value != value else struct.pack(">d", value)
    if kind is Decimal:
        return kind, str(value)
    if kind is dt.datetime:
        return kind, value.replace(tzinfo=None).isoformat(), value.fold, repr(value.tzinfo)
    if kind is dt.time:
        return kind, value.isoformat(), value.fold, repr(value.tzinfo)
    if kind is dict:
        return kind, tuple((exact(key), exact(item)) for key, item in value.items())
    if kind is Row:
        names = value.get_field_names()
        return kind, repr(names), value.get_row_kind(), tuple(map(exact, value))
    if kind in {set, frozenset}:
        return kind, tuple(sorted(map(repr, map(exact, value))))
    if isinstance(value, tuple | list):
        return kind, tuple(map(exact, value))
    if kind is Point:
        return kind, exact(value.x), exact(value.y)
    return kind, value


int64 = st.integers(-(2**63), 2**63 - 1)
zones = st.sampled_from(
    [
        None,
        dt.UTC,
        BERLIN,
        dt.timezone(dt.timedelta(hours=-3, minutes=-30)),
        dt.timezone(dt.timedelta(seconds=1)),
        dt.timezone(dt.timedelta(hours=1), "home"),
    ]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    int64,
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.text(st.characters(categories=["Cs", "L"]), max_size=3),
    st.binary(max_size=8),
    st.dates(),
    st.times(),
    st.datetimes(timezones=zones),
    st.timedeltas(),
    st.decimals(places=2, min_value=-1000, max_value=1000),
    st.decimals().filter(lambda number: not number.is_snan()),  # those have no hash
    st.uuids(),
    st.builds(TimeWindow, int64, int64),
    st.builds(CountWindow, int64),
    st.just(GlobalWindow()),
    st.sampled_from([Color.RED, Level.LOW]),
    st.builds(Point, st.integers()),
    st.builds(Pair, st.integers(), st.text(max_size=2)),
)
hashable = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(inner, max_size=3),
    ),
    max_leaves=5,
)


def _named_row_kind(kind, value):
    row = Row.of_kind(kind, value)
    row.set_field_names(["row_kind"])
    return row


def rows(inner):
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda values: Row(*values)),
        st.builds(lambda a, b: Row(a=a, b=b), inner, inner),
        st.builds(_named_row_kind, st.sampled_from(list(RowKind)), inner),
        st.builds(lambda kind, a: Row.of_kind(kind, a), st.sampled_from(list(RowKind)), inner),
    )


def containers(inner):
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.tuples(inner, inner),
        st.dictionaries(hashable, inner, max_size=3),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.sets(hashable, max_size=3),
        rows(inner),
    )


values = st.recursive(scalars, containers, max_leaves=8)


def alike(kind):
    """Columns whose values have one shape, as most columns of state have."""
    return st.lists(st.one_of(st.none(), kind), max_size=6)


def _column_of(kind):
    return st.one_of(
        alike(kind),
        alike(st.lists(kind, max_size=3)),
        alike(st.tuples(kind, st.integers(0, 5))),
        alike(st.lists(kind, max_size=3).map(tuple)),
        alike(st.dictionaries(st.text(max_size=3), kind, max_size=3)),
        alike(st.builds(lambda a, b: Row(a=a, b=b), kind, int64)),
        alike(st.dictionaries(int64, st.lists(st.tuples(kind, kind), max_size=2), max_size=2)),
    )


columns = st.one_of(
    st.lists(values, max_size=5),
    st.one_of(
        [
            _column_of(kind)
            for kind in (
                st.none(),
                st.booleans(),
                int64,
                st.floats(),
                st.text(max_size=5),
                st.binary(max_size=5),
                st.dates(),
                st.times(),
                st.datetimes(),
                st.datetimes(timezones=st.just(dt.UTC)),
                st.datetimes(timezones=st.just(BERLIN)),
                st.timedeltas(),
                st.decimals(places=3, min_value=-10, max_value=10),
                st.decimals(),
                st.uuids(),
                st.builds(TimeWindow, int64, int64),
                st.builds(CountWindow, int64),
                st.just(GlobalWindow()),
                st.builds(Point, st.integers()),
            )
        ]
    ),
)

SOME_UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
