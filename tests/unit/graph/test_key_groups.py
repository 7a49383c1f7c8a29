"""Keys to key groups to subtasks."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import os
import subprocess
import sys
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.types import Row
from penstock.errors import ArgumentTypeError
from penstock.graph.key_groups import key_group_of, key_group_range, stable_hash, subtask_of
from tests.builders.cases import by_name, check_all


class Point(NamedTuple):
    x: int
    y: int


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    number: int


class Named:
    def __init__(self, name):
        self.name = name

    def stable_key(self):
        return self.name


_KEYS = """
import datetime as dt, uuid
from decimal import Decimal
from penstock.graph.key_groups import key_group_of
from penstock.common.types import Row
keys = ["a", "\\u00e9\\U0001f600", "", b"bytes", ("t", 1, None), frozenset({"x", "y", "z"}), 1, -1, 2**80, 1.5,
        None, True, Decimal("1.10"), dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.time(1, 2),
        dt.timedelta(days=1, microseconds=7), uuid.UUID(int=7), Row("a", 1), (("deep", b"x"), frozenset({("q",)}))]
print([key_group_of(key, 32768) for key in keys])
"""


def test_groups_are_the_same_in_every_process():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _KEYS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    assert len(set(eval(outputs.pop()))) > 15  # the keys do spread


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([1, 1.0, True, Decimal(1), Fraction(1), complex(1), Level.LOW], id="one"),
        pytest.param([0, 0.0, -0.0, False, Decimal("-0")], id="zero"),
        pytest.param([2**70, float(2**70), Decimal(2**70)], id="large"),
        pytest.param([0.5, Fraction(1, 2), Decimal("0.50")], id="half"),
        pytest.param(["a", Word.A], id="text"),
        pytest.param([(1, 2), Point(1, 2), (1.0, True + 1)], id="tuples"),
        pytest.param([frozenset([1, 2, 3]), frozenset([3.0, 2, True])], id="sets"),
        pytest.param(
            [
                dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC),
                dt.datetime(2024, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            ],
            id="moments",
        ),
        pytest.param([dt.timedelta(days=1), dt.timedelta(hours=24)], id="spans"),
        pytest.param([Row(a=1, b="x"), Row(a=1.0, b="x")], id="rows"),
        pytest.param([User("a", 1), User("a", True)], id="dataclasses"),
    ],
)
def test_equal_keys_hash_alike(keys):
    assert all(key == keys[0] for key in keys)
    assert len({stable_hash(key) for key in keys}) == 1


@pytest.mark.parametrize(
    "key",
    [Colour.RED, Named("x"), User("a", 1), uuid.UUID(int=1), Row("a", 1), b"x", (), None],
    ids=lambda key: type(key).__name__,
)
def test_a_hash_is_an_unsigned_number_of_32_bits(key):
    assert 0 <= stable_hash(key) < 2**32


def test_numpy_values_hash_like_the_python_values_they_equal():
    numpy = pytest.importorskip("numpy")
    pairs = [(numpy.int64(7), 7), (numpy.float64(0.5), 0.5), (numpy.str_("a"), "a")]
    assert all(stable_hash(value) == stable_hash(plain) for value, plain in pairs)


def test_a_key_that_cannot_be_hashed_by_value_is_refused():
    with pytest.raises(ArgumentTypeError, match="cannot be hashed by value") as caught:
        stable_hash(object())
    assert "stable_key" in caught.value.hint


keys = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()
    ),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)


@given(keys, st.integers(1, 32768))
def test_every_key_has_a_group(key, groups):
    assert 0 <= key_group_of(key, groups) < groups


@given(st.integers(1, 512).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))))
def test_ranges_partition_all_groups_and_agree_with_the_owner(case):
    parallelism, groups = case
    ranges = [key_group_range(subtask, parallelism, groups) for subtask in range(parallelism)]
    assert [group for owned in ranges for group in owned] == list(range(groups))
    assert all(len(owned) >= groups // parallelism for owned in ranges)
    for subtask, owned in enumerate(ranges):
        assert {subtask_of(group, parallelism, groups) for group in owned} == {subtask}


def test_the_default_128_groups_are_covered_at_every_parallelism():
    def check(parallelism):
        owned = [len(key_group_range(subtask, parallelism, 128)) for subtask in range(parallelism)]
        assert sum(owned) == 128
        assert max(owned) - min(owned) <= 1

    check_all(by_name(range(1, 129), str), check)


def test_keys_spread_evenly():
    counts = collections.Counter(key_group_of(f"user-{n}", 16) for n in range(16_000))
    assert len(counts) == 16
    assert 800 < min(counts.values()) <= max(counts.values()) < 1200
    counts = collections.Counter(key_group_of(n, 16) for n in range(16_000))
    assert 800 < min(counts.values()) <= max(counts.values()) < 1200
