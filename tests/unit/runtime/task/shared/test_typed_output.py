"""Declared types: what happens to values, alone and in batches."""

from __future__ import annotations

import datetime as dt
import math
from collections import namedtuple
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Instant, Row, Types
from penstock.common.types import RowKind
from penstock.errors import RecordError
from penstock.runtime.task.shared.typed_output import TypedOutput, typed_output
from tests.builders.cases import by_name, check_all

NAMED = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
PAIR = Types.TUPLE([Types.INT(), Types.STRING()])


class Whole(int):
    """A subclass of int."""


Point = namedtuple("Point", "x y")  # noqa: PYI024
BAD = object()

# What PyFlink 2.3's coders make of values; BAD where they raise. The lines at the end of a group are Penstock's own: PyFlink
# refuses them, crashes, or drops fields.
COERCED = [
    (Types.INT(), 2**31 - 1, 2**31 - 1),
    (Types.INT(), 2**31, BAD),
    (Types.INT(), -(2**31) - 1, BAD),
    (Types.INT(), True, 1),
    (Types.INT(), 1.5, 1),
    (Types.INT(), -1.5, -1),
    (Types.INT(), Whole(3), 3),
    (Types.INT(), "1", BAD),
    (Types.INT(), None, BAD),
    (Types.LONG(), 2**63 - 1, 2**63 - 1),
    (Types.LONG(), 2**63, BAD),
    (Types.LONG(), None, BAD),
    (Types.SHORT(), 40000, BAD),
    (Types.BYTE(), -128, -128),
    (Types.BYTE(), 128, BAD),
    (Types.FLOAT(), 1, 1.0),
    (Types.FLOAT(), 1.1, 1.100000023841858),
    (Types.FLOAT(), 1e40, math.inf),
    (Types.FLOAT(), "x", BAD),
    (Types.DOUBLE(), 1, 1.0),
    (Types.DOUBLE(), Decimal("1.5"), 1.5),
    (Types.DOUBLE(), 10**400, BAD),
    (Types.DOUBLE(), None, BAD),
    (Types.BOOLEAN(), 2, True),
    (Types.BOOLEAN(), 0, False),
    (Types.BOOLEAN(), "x", BAD),
    (Types.STRING(), "", ""),
    (Types.STRING(), 1, BAD),
    (Types.STRING(), None, BAD),
    (Types.BIG_DEC(), 1.5, Decimal("1.5")),
    (Types.BIG_DEC(), "1.5", Decimal("1.5")),
    (Types.BIG_DEC(), None, BAD),
    (Types.BIG_INT(), 2**70, 2**70),
    (Types.SQL_DATE(), dt.datetime(2020, 1, 2, 3), dt.date(2020, 1, 2)),
    (Types.SQL_DATE(), "x", BAD),
    (Types.SQL_TIMESTAMP(), dt.date(2020, 1, 2), BAD),
    (Types.INSTANT(), Instant(0, 5), Instant(0, 5)),
    (PAIR, (1, "a"), (1, "a")),
    (PAIR, (1, None), BAD),
    (PAIR, (None, "a"), BAD),
    (PAIR, (1, 2), BAD),
    (PAIR, 5, BAD),
    (PAIR, None, BAD),
    (PAIR, (1,), BAD),
    (PAIR, (1, "a", 2), BAD),
    (PAIR, [1, "a"], (1, "a")),
    (PAIR, Point(1, "a"), (1, "a")),
    (Types.TUPLE([Types.INT(), Types.PICKLED_BYTE_ARRAY()]), (1, None), (1, None)),
    (Types.ROW([Types.INT(), Types.STRING()]), Row(1, "a"), Row(f0=1, f1="a")),
    (Types.ROW([Types.INT(), Types.STRING()]), Row(f1="x", f0=2), Row(f0=2, f1="x")),
    (Types.ROW([Types.INT(), Types.STRING()]), Row(1), BAD),
    (Types.ROW([Types.INT(), Types.STRING()]), None, BAD),
    (NAMED, Row(1, "a"), Row(id=1, name="a")),
    (NAMED, Row(name="a", id=1), Row(id=1, name="a")),
    (NAMED, Row(1, None), Row(id=1, name=None)),
    (NAMED, Row(None, None), Row(id=None, name=None)),
    (NAMED, Row(c=1, d="x"), BAD),
    (NAMED, Row(name="x"), BAD),
    (NAMED, (1, "a"), Row(id=1, name="a")),
    (NAMED, {"id": 1, "name": "a"}, Row(id=1, name="a")),
    (Types.ROW([NAMED]), Row(Row(1, "a")), Row(f0=Row(id=1, name="a"))),
    (Types.ROW([NAMED]), Row(None), Row(f0=None)),
    (Types.TUPLE([NAMED]), ((1, "a"),), (Row(id=1, name="a"),)),
    (Types.LIST(Types.INT()), [1, None], [1, None]),
    (Types.LIST(Types.INT()), ["a"], BAD),
    (Types.LIST(Types.INT()), "ab", BAD),
    (Types.LIST(Types.INT()), (1, 2.0), [1, 2]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], [1, 2]),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [None], BAD),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    (Types.BASIC_ARRAY(Types.STRING()), ["a", None], ["a", None]),
    (Types.BASIC_ARRAY(Types.STRING()), [1], BAD),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": None}, {"a": None}),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1.5}, {"a": 1}),
    (Types.MAP(Types.STRING(), Types.INT()), {None: 1}, BAD),
    (Types.MAP(Types.STRING(), Types.INT()), [("a", 1)], BAD),
]


def test_values_are_converted_to_their_declared_type():
    def check(case):
        kind, value, expected = case
        good = [each for other, _, each in COERCED if repr(other) == repr(kind) and each is not BAD]
        batch = [*good, value, *good]
        if expected is BAD:
            with pytest.raises(RecordError):
                TypedOutput(kind).apply(batch)
            return
        converted = TypedOutput(kind).apply(batch)
        assert converted == [*good, expected, *good]
        assert type(converted[len(good)]) is type(expected)

    check_all(by_name(COERCED, lambda case: f"{case[0]!r} {case[1]!r}"), check)


@pytest.mark.parametrize("kind", [None, Types.PICKLED_BYTE_ARRAY()], ids=repr)
def test_without_a_type_anything_goes(kind):
    assert typed_output(kind) is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Types.INT(), [1, 2]),
        (Types.STRING(), ["a", "b"]),
        (PAIR, [(1, "a"), (2, "b")]),
        (Types.TUPLE([]), [(), ()]),
        (Types.LIST(PAIR), [[(1, "a")], []]),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), [{"a": 1.0}, {"b": None}]),
        (NAMED, [Row(id=1, name="a"), Row(id=2, name=None)]),
    ],
    ids=repr,
)
def test_a_batch_that_fits_is_not_copied(kind, values):
    assert TypedOutput(kind).apply(values) is values


def test_shared_row_is_not_renamed():
    kept = Row(1, "a")
    converted = TypedOutput(NAMED).apply([kept, Row(2, "b")])
    assert converted == [Row(id=1, name="a"), Row(id=2, name="b")]
    assert kept.get_field_names() is None


def test_a_row_keeps_its_kind_when_its_fields_are_converted():
    kind = Types.ROW([Types.DOUBLE()])
    (row,) = TypedOutput(kind).apply([Row.of_kind(RowKind.DELETE, 1)])
    assert row == Row.of_kind(RowKind.DELETE, f0=1.0)


@pytest.mark.parametrize(
    ("kind", "value", "message", "detail"),
    [
        (Types.INT(), 2**40, "1099511627776 (int) is not a value of type Integer", "record 1099511627776"),
        (PAIR, (2**40, "a"), "1099511627776 (int) is not a value of type Integer",
         "in field 0 of record (1099511627776, 'a')"),
        (PAIR, (None, "a"), "None is not a value of type Integer", "in field 0 of record (None, 'a')"),
        (PAIR, (1,), "(1,) (tuple) is not a value of type TupleTypeInfo(Integer, String)", "record (1,)"),
        (NAMED, Row(1, 2), "2 (int) is not a value of type String", "in field 'name' of record <Row(1, 2)>"),
        (Types.ROW([Types.LIST(PAIR)]), Row([(1, "a"), (1, 2)]), "2 (int) is not a value of type String",
         "in field 'f0', in element 1, in field 1 of record <Row([(1, 'a'), (1, 2)])>"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_the_error_names_the_value_the_place_and_the_record(kind, value, message, detail):
    with pytest.raises(RecordError) as caught:
        TypedOutput(kind).apply([value])
    assert (caught.value.message, caught.value.detail) == (message, detail)


def test_the_first_record_at_fault_is_named():
    with pytest.raises(RecordError, match=r"record \('b', 1\)"):
        TypedOutput(PAIR).apply([(1, "a"), ("b", 1), (2**40, "c")])


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3),
    st.builds(Whole, st.integers(0, 5)),
)  # fmt: skip
FIELDS = st.sampled_from(
    [Types.BYTE(), Types.INT(), Types.LONG(), Types.DOUBLE(), Types.FLOAT(), Types.STRING(),
     Types.BOOLEAN(), Types.CHAR(), Types.PICKLED_BYTE_ARRAY(), Types.LIST(Types.INT())]
)  # fmt: skip


@st.composite
def typed_batches(draw):
    fields = draw(st.lists(FIELDS, min_size=0, max_size=3))
    kind = draw(st.sampled_from([Types.TUPLE, Types.ROW]))(fields)
    values = st.lists(SCALARS, min_size=len(fields), max_size=len(fields))
    made = st.one_of(values.map(tuple), values, values.map(lambda each: Row(*each)))
    return kind, draw(st.lists(made, min_size=1, max_size=6))


@given(typed_batches())
def test_batch_conversion_equals_conversion_of_single_records(case):
    kind, values = case
    try:
        expected = [kind.validate(value) for value in values]
    except RecordError:
        with pytest.raises(RecordError):
            TypedOutput(kind).apply(values)
        return
    found = TypedOutput(kind).apply(values)
    assert repr(found) == repr(expected)  # NaN is not equal to itself; True and 1 are
