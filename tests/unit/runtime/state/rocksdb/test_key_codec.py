"""Keys as bytes: equal keys alike, no key the beginning of another, read back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Row
from penstock.errors import ArgumentTypeError
from penstock.runtime.state.rocksdb.key_codec import (
    decode,
    encode,
    is_exact,
    number_of,
    order_of,
    skip,
)
from penstock.runtime.state.rocksdb.store import after
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow

INT64 = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.recursive(
    st.none()
    | st.integers()
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False)
    | st.booleans(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
WINDOWS = st.builds(TimeWindow, INT64, INT64) | st.builds(CountWindow, INT64)
KEYS = PLAIN | WINDOWS | st.just(GlobalWindow()) | st.decimals(allow_nan=False) | st.fractions()


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int


class Named:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Named({self.name})"

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Opaque:
    __slots__ = ()


@given(KEYS, KEYS)
def test_keys_have_the_same_bytes_exactly_if_they_are_equal(one, other):
    windows = (TimeWindow, CountWindow, GlobalWindow)
    if isinstance(one, windows) == isinstance(other, windows):
        assert (encode(one) == encode(other)) == (one == other)


@given(KEYS, KEYS, st.binary())
def test_no_key_is_the_beginning_of_another(one, other, rest):
    data = encode(one) + encode(other) + rest
    assert skip(data, 0) == len(encode(one))
    assert skip(data, skip(data, 0)) == len(data) - len(rest)


@given(KEYS)
def test_a_key_that_is_exact_is_read_back(key):
    if is_exact(key):
        again = decode(b"xx" + encode(key) + b"y", 2)
        assert again == key
        assert type(again) is type(key)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True), (1, 1.0), (0, -0.0), (2, Decimal("2.00")), (0.5, Fraction(1, 2)), (1, 1 + 0j), (1, Level.HIGH),
        (Decimal("0.1"), Fraction(1, 10)), ((1, "a"), (1.0, "a")), (Row(1, 2), Row(1.0, 2)),
        (frozenset([1, 2]), frozenset([2, 1])), (Point(1, 2), Point(1, 2)), (Named("a"), Named("a")),
        (dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        (10**30, float(10**30) and Decimal(10) ** 30),
    ],
    ids=str,
)  # fmt: skip
def test_equal_keys_of_different_types_have_the_same_bytes(one, other):
    assert one == other
    assert encode(one) == encode(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", 1), (b"a", "a"), ((), None), (("a", "b"), ("ab",)), (("a",), "a"), (Point(1, 2), (1, 2)), (Colour.RED, 1),
        (dt.date(2024, 1, 1), "2024-01-01"), (uuid.UUID(int=1), 1), (Named("a"), Named("b")), (0.1, Decimal("0.1")),
    ],
    ids=str,
)  # fmt: skip
def test_keys_that_differ_have_different_bytes(one, other):
    assert encode(one) != encode(other)


def test_a_key_without_a_value_of_its_own_is_refused():
    with pytest.raises(ArgumentTypeError, match="Opaque are not supported") as caught:
        encode(Opaque())
    assert "stable_key" in caught.value.hint


@given(INT64, INT64)
def test_times_sort_as_bytes(one, other):
    assert (order_of(one) < order_of(other)) == (one < other)
    assert number_of(order_of(one)) == one


@given(st.binary(min_size=1).filter(lambda prefix: prefix.strip(b"\xff")), st.binary())
def test_prefix_range_contains_all_keys_with_the_prefix(prefix, rest):
    assert prefix <= prefix + rest < after(prefix)
