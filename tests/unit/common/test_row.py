from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Row, RowKind
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.graph.key_groups import stable_hash

values = st.lists(st.one_of(st.integers(), st.text(), st.none(), st.booleans()), max_size=5)
names = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=1, max_size=5, unique=True)
kinds = st.sampled_from(list(RowKind))


@st.composite
def rows(draw):
    if draw(st.booleans()):
        fields = draw(names)
        return Row.of_kind(draw(kinds), **{name: draw(st.integers(0, 2)) for name in fields})
    return Row.of_kind(draw(kinds), *draw(st.lists(st.integers(0, 2), max_size=3)))


def test_fields_are_found_by_index_name_and_attribute():
    row = Row(name="Alice", age=11)
    assert (row[0], row["age"], row.name, row[-1], row[0:2]) == (
        "Alice",
        11,
        "Alice",
        11,
        ["Alice", 11],
    )
    assert list(row) == ["Alice", 11]
    assert len(row) == 2
    assert "name" in row
    assert "Alice" not in row  # of a row with names, the names are its members
    assert "Alice" in Row("Alice", 11)


def test_fields_can_be_set_by_index_name_and_slice():
    row = Row(a=1, b=2)
    row[0] = 10
    row["b"] = 20
    assert row == Row(a=10, b=20)
    row[0:2] = [5, 6]
    assert row == Row(a=5, b=6)
    with pytest.raises(ArgumentError, match="number of fields"):
        row[0:1] = [1, 2, 3]
    assert row == Row(a=5, b=6)


def test_a_field_that_is_not_there_is_reported_as_python_does():
    row = Row(a=1)
    with pytest.raises(KeyError):
        row["b"]
    with pytest.raises(AttributeError, match="b"):
        _ = row.b
    with pytest.raises(IndexError):
        row[1]
    with pytest.raises(KeyError):
        Row(1)["a"]
    with pytest.raises(AttributeError):
        row.b = 1


def test_values_and_named_values_do_not_mix():
    with pytest.raises(ArgumentError, match="not both"):
        Row(1, a=2)


def test_a_row_of_names_makes_named_rows():
    person = Row("name", "age")
    assert person("Alice", 11) == Row(name="Alice", age=11)
    with pytest.raises(ArgumentError):
        person("Alice")


def test_names_can_be_given_later():
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row == Row(a=1, b=2)
    assert row.get_field_names() == ["a", "b"]
    with pytest.raises(ArgumentError, match="3 names do not fit"):
        row.set_field_names(["a", "b", "c"])


@pytest.mark.parametrize(
    ("row", "wanted", "expected"),
    [
        (Row(a=1, b=2), ["b", "a"], [2, 1]),
        (Row(a=1, b=2), ["a", "b"], [1, 2]),
        (Row(a=1, b=2), ["b"], [2]),
        (Row(1, 2), ["x", "y"], [1, 2]),
    ],
    ids=["other order", "same order", "some", "no names"],
)
def test_fields_come_in_the_order_of_the_names(row, wanted, expected):
    assert row.get_fields_by_names(wanted) == expected


def test_a_missing_name_is_named_in_the_error():
    with pytest.raises(ArgumentError, match="no field 'c'"):
        Row(a=1).get_fields_by_names(["a", "c"])


def test_a_row_becomes_a_dictionary():
    row = Row(key=1, value=Row(name="a"), items=[Row(x=1)], by={"k": Row(y=2)})
    assert row.as_dict() == {
        "key": 1,
        "value": Row(name="a"),
        "items": [Row(x=1)],
        "by": {"k": Row(y=2)},
    }
    assert row.as_dict(True) == {
        "key": 1,
        "value": {"name": "a"},
        "items": [{"x": 1}],
        "by": {"k": {"y": 2}},
    }
    with pytest.raises(ArgumentTypeError, match="without field names"):
        Row(1).as_dict()


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Row(f0=1, f1="a"), "Row(f0=1, f1='a')"),
        (Row(1, "a"), "<Row(1, 'a')>"),
        (Row(), "<Row()>"),
    ],
    ids=["named", "positional", "empty"],
)
def test_a_row_shows_itself_as_in_pyflink(row, text):
    assert repr(row) == str(row) == text


@pytest.mark.parametrize(
    ("kind", "short"),
    [
        (RowKind.INSERT, "+I"),
        (RowKind.UPDATE_BEFORE, "-U"),
        (RowKind.UPDATE_AFTER, "+U"),
        (RowKind.DELETE, "-D"),
    ],
)
def test_row_kinds_have_short_strings(kind, short):
    assert str(kind) == kind.short_string == short
    assert RowKind.from_short_string(short) is kind


def test_an_unknown_short_string_is_refused():
    with pytest.raises(ArgumentError, match="not a row kind"):
        RowKind.from_short_string("+X")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Row(1), Row(2)),
        (Row(1), Row(1, 1)),
        (Row(a=1), Row(b=1)),
        (Row(a=1), Row(1)),
        (Row(1), Row.of_kind(RowKind.DELETE, 1)),
        (Row(1), (1,)),
    ],
    ids=["values", "length", "names", "named or not", "kind", "not a row"],
)
def test_rows_differ_by(left, right):
    assert left != right


def test_a_row_kind_must_be_one():
    with pytest.raises(ArgumentTypeError):
        Row(1).set_row_kind("+I")


@given(rows(), rows(), rows())
def test_equality_is_an_equivalence_and_agrees_with_the_hash(a, b, c):
    assert a == copy.copy(a)
    assert (a == b) == (b == a)
    if a == b:
        assert hash(a) == hash(b)
        assert stable_hash(a) == stable_hash(b)
        if b == c:
            assert a == c


@given(rows())
def test_rows_survive_pickling_and_copying(row):
    for again in (pickle.loads(pickle.dumps(row)), copy.deepcopy(row), copy.copy(row)):
        assert again == row
        assert again.get_row_kind() is row.get_row_kind()
        assert again.get_field_names() == row.get_field_names()


@given(values)
def test_a_row_without_names_holds_its_values_in_order(fields):
    row = Row(*fields)
    assert list(row) == fields
    assert row.stable_key() == tuple(fields)


def test_rows_are_equal_as_in_pyflink() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert hash(Row(a=1, b=2)) == hash(Row(b=2, a=1))
    assert stable_hash(Row(a=1, b=2)) == stable_hash(Row(b=2, a=1))
    assert Row(a=1, b=2) != Row(a=2, b=1)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)
    assert Row(1) != (1,)
