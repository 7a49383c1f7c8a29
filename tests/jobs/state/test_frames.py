"""Frames of state: pandas and Arrow, with types that were declared or come from the values."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.common import Row
from penstock.datastream import TimeWindow
from penstock.state import columns
from penstock.state.columns import (
    BIG_LONG,
    BOOLEAN,
    DOUBLE,
    LONG,
    NULL,
    STRING,
    TEXT,
    infer,
    unify,
)
from penstock.state.tables import SnapshotTable
from tests.builders.examples import examples


@dataclasses.dataclass(frozen=True)
class Order:
    item: str
    price: float


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, LONG),
        (2**70, TEXT),
        (True, BOOLEAN),
        (1.5, DOUBLE),
        ("a", STRING),
        (None, NULL),
        (b"a", ("binary",)),
        (dt.date(2026, 1, 1), ("date",)),
        (dt.datetime(2026, 1, 1), ("local timestamp",)),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), ("timestamp",)),
        ([1, 2.5, None], ("list", DOUBLE)),
        ([1, "a"], ("list", TEXT)),
        ((1, "a"), ("struct", (("f0", LONG), ("f1", STRING)))),
        (TimeWindow(0, 5), ("struct", (("start", LONG), ("end", LONG)))),
        (Row(a=1), ("struct", (("a", LONG),))),
        (Row(1, 2), ("struct", (("f0", LONG), ("f1", LONG)))),
        (Order("tea", 2.5), ("struct", (("item", STRING), ("price", DOUBLE)))),
        ({"a": 1, "b": "x"}, ("struct", (("a", LONG), ("b", STRING)))),
        ({1: "x"}, ("map", LONG, STRING)),
        ({f"k{n}": n for n in range(100)}, ("map", STRING, LONG)),
        ({1, 2}, TEXT),
        ((), TEXT),
        (Decimal("1.5"), ("decimal", 1, 1)),
        (Decimal("-12E3"), ("decimal", 5, 0)),
        (Decimal("0.001"), ("decimal", 0, 3)),
        (Decimal("1E+50"), TEXT),
        (Decimal("NaN"), TEXT),
        (2**53 + 1, BIG_LONG),
        (np.int32(3), LONG),
        (np.array([1.5]), ("list", DOUBLE)),
    ],
    ids=repr,
)
def test_types_come_from_values(value, kind):
    assert infer(value) == kind


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (1, 2.5, DOUBLE),
        (1, None, LONG),
        (1, "a", TEXT),
        (True, 1, TEXT),
        ([1], [], ("list", LONG)),
        ([1], ["a"], ("list", TEXT)),
        ({"a": 1}, {"b": 2}, ("struct", (("a", LONG), ("b", LONG)))),
        ((1,), (1, 2), ("struct", (("f0", LONG), ("f1", LONG)))),
        ({1: 1}, {2: 2.5}, ("map", LONG, DOUBLE)),
    ],
    ids=repr,
)
def test_values_of_two_types_have_one_in_common(one, other, both):
    assert unify(infer(one), infer(other)) == both


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary()
)
VALUES = st.recursive(
    SCALARS | st.dates() | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3)
        | st.dictionaries(st.integers(0, 3) | st.none(), inner, max_size=3)
        | st.builds(Row, inner, inner)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=6))
@example([{"a": 0}, (False, None)])
@example([{None: 1}])
def test_any_values_become_a_column(values):
    table = SnapshotTable(
        "any", ("value",), lambda: iter([(value,) for value in values])
    ).to_arrow()
    assert table.num_rows == len(values)
    nulls = [value is None for value in values]
    assert [value is None for value in table.column("value").to_pylist()] == nulls


KINDS = VALUES.map(infer)


@settings(max_examples=examples(200), deadline=None)
@given(KINDS, KINDS, KINDS)
def test_unifying_types_does_not_depend_on_the_order(one, two, three):
    def unordered(kind):
        if kind[0] == "struct":
            return ("struct", frozenset((name, unordered(inner)) for name, inner in kind[1]))
        return (kind[0], *map(unordered, kind[1:]))

    assert unordered(unify(one, two)) == unordered(unify(two, one))
    left, right = unify(unify(one, two), three), unify(one, unify(two, three))
    assert unordered(left) == unordered(right)
    assert unify(one, one) == one


def test_declared_types_win_where_the_values_are_of_them(everything):
    visits = everything.state("all", "visit").to_arrow()
    assert visits.schema.field("value").type == pa.struct(
        [("page", pa.string()), ("count", pa.int64())]
    )
    assert sorted(visits.to_pylist(), key=lambda row: row["key"]) == [
        {"key": "ann", "value": {"page": "p3", "count": 2}},
        {"key": "bob", "value": {"page": "p2", "count": 1}},
    ]


@pytest.mark.parametrize(
    ("name", "explode", "column", "kind"),
    [
        ("total", False, "value", pa.int64()),
        ("seen", False, "value", pa.list_(pa.int64())),
        ("seen", True, "value", pa.int64()),
        ("parity", False, "value", pa.map_(pa.string(), pa.int64())),
        ("parity", True, "map_key", pa.string()),
        ("mean", False, "value", pa.struct([("f0", pa.int64()), ("f1", pa.int64())])),
        ("kept map", False, "value", pa.map_(pa.int64(), pa.int64())),
        ("kept", False, "last_access", pa.int64()),
    ],
)
def test_arrow_types_of_state(everything, name, explode, column, kind):
    table = everything.state("all", name, explode=explode).to_arrow()
    assert table.schema.field(column).type == kind
    assert table.num_rows == everything.state("all", name, explode=explode).count()


def test_a_value_that_is_not_of_its_declared_type_widens_the_column():
    declared = columns.declared(("Integer",))
    profile = columns.ColumnProfile([declared], [False])
    profile.add((1,))
    assert profile.types() == [LONG]
    profile.add(("not a number",))
    assert profile.types() == [TEXT]


def test_profiles_of_parts_merge():
    one, other = (columns.ColumnProfile([LONG, None], [False, False]) for _ in range(2))
    one.add((1, 1))
    other.add((2.5, 2.5))
    one.merge(other)
    assert one.types() == [DOUBLE, DOUBLE]


def test_pandas_frames_hold_the_objects(everything):
    frame = everything.state("all", "visit").to_pandas()
    assert list(frame.columns) == ["key", "value"]
    assert dict(zip(frame.key, frame.value, strict=True))["ann"] == Row(page="p3", count=2)
    totals = everything.state("all", "total").to_pandas()
    assert totals.value.dtype == np.int64
    assert totals.set_index("key").value.to_dict() == {"ann": 4, "bob": 2}


def test_an_empty_table_is_a_frame_with_columns():
    table = SnapshotTable("none", ("key", "value"), lambda: iter(()))
    assert list(table.to_pandas().columns) == ["key", "value"]
    assert table.to_arrow().schema.names == ["key", "value"]


def test_windows_are_structs(windows):
    table = windows.windows("tumbling").to_arrow()
    assert table.column("window").to_pylist() == [{"start": 0, "end": 10}] * 2


@pytest.mark.parametrize(
    ("values", "column", "kind"),
    [
        ([2**53 + 1, 0.5], ["9007199254740993", "0.5"], pa.string()),
        ([2**53 + 1, 1], [2**53 + 1, 1], pa.int64()),
        ([1, 0.5], [1.0, 0.5], pa.float64()),
        ([Decimal("1.5"), Decimal("20.25")], [Decimal("1.50"), Decimal("20.25")], pa.decimal128(38, 2)),
        ([Decimal("1E+30"), Decimal("1E-30")], ["Decimal('1E+30')", "Decimal('1E-30')"], pa.string()),
    ],
    ids=["long and double", "longs", "small and double", "decimals", "decimals too far apart"],
)  # fmt: skip
def test_no_digit_of_a_number_is_lost(values, column, kind):
    table = SnapshotTable("numbers", ["value"], lambda: iter([(value,) for value in values]))
    arrow = table.to_arrow()
    assert arrow.column("value").to_pylist() == column
    assert arrow.schema.field("value").type == kind
    assert table.to_pandas()["value"].tolist() == values
