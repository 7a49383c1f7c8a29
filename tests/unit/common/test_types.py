from __future__ import annotations

import array
import datetime as dt
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import pytest

from penstock.common import Instant, Row, RowKind, TypeInformation, Types
from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, check_type
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError, UnsupportedOperationError

DAY = dt.date(2024, 2, 29)
NOON = dt.time(12, 0)
MOMENT = dt.datetime(2024, 2, 29, 12, 0)
PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])

ALL_TYPES = [
    Types.STRING(),
    Types.BYTE(),
    Types.BOOLEAN(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.CHAR(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.INSTANT(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    Types.PICKLED_BYTE_ARRAY(),
    Types.ROW([Types.INT()]),
    PERSON,
    Types.TUPLE([Types.INT(), Types.STRING()]),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.PRIMITIVE_ARRAY(Types.INT()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(PERSON),
    Types.LIST(Types.LIST(Types.INT())),
    Types.MAP(Types.STRING(), Types.LIST(Types.INT())),
]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Types.STRING(), "a", "a"),
        (Types.BOOLEAN(), True, True),
        (Types.BYTE(), -128, -128),
        (Types.SHORT(), 32767, 32767),
        (Types.INT(), 2**31 - 1, 2**31 - 1),
        (Types.INT(), True, 1),
        (Types.LONG(), -(2**63), -(2**63)),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.FLOAT(), 2, 2.0),
        (Types.DOUBLE(), 1, 1.0),
        (Types.DOUBLE(), Decimal("0.5"), 0.5),
        (Types.DOUBLE(), Fraction(1, 4), 0.25),
        (Types.CHAR(), "x", "x"),
        (Types.BIG_INT(), 2**100, 2**100),
        (Types.BIG_DEC(), 7, Decimal(7)),
        (Types.BIG_DEC(), 0.1, Decimal("0.1")),
        (Types.INSTANT(), Instant(1, 2), Instant(1, 2)),
        (
            Types.INSTANT(),
            dt.datetime(1969, 12, 31, 23, 59, 59, 500_000, dt.UTC),
            Instant(-1, 500_000_000),
        ),
        (Types.SQL_DATE(), DAY, DAY),
        (Types.SQL_DATE(), MOMENT, DAY),
        (Types.SQL_TIME(), NOON, NOON),
        (Types.SQL_TIMESTAMP(), MOMENT, MOMENT),
        (Types.PICKLED_BYTE_ARRAY(), None, None),
        (Types.PICKLED_BYTE_ARRAY(), {"any": object}, {"any": object}),
        (Types.TUPLE([Types.INT(), Types.STRING()]), [1, "a"], (1, "a")),
        (Types.TUPLE([Types.INT()]), Row(1), (1,)),
        (Types.TUPLE([Types.PICKLED_BYTE_ARRAY()]), (None,), (None,)),
        (PERSON, ("Al", 3), Row(name="Al", age=3)),
        (PERSON, {"age": 3, "name": "Al"}, Row(name="Al", age=3)),
        (PERSON, {"age": 3}, Row(name=None, age=3)),
        (PERSON, Row(age=3, name="Al"), Row(name="Al", age=3)),
        (PERSON, Row("Al", None), Row(name="Al", age=None)),
        (
            PERSON,
            Row.of_kind(RowKind.DELETE, "Al", 3),
            Row.of_kind(RowKind.DELETE, name="Al", age=3),
        ),
        (Types.ROW([Types.DOUBLE()]), Row(1), Row(f0=1.0)),
        (Types.ROW([Types.INT(), Types.INT()]), Row(b=1, a=2), Row(f0=1, f1=2)),
        (Types.LIST(Types.DOUBLE()), (1, None), [1.0, None]),
        (Types.OBJECT_ARRAY(PERSON), [("Al", 3)], [Row(name="Al", age=3)]),
        (Types.BASIC_ARRAY(Types.STRING()), ["a", None], ["a", None]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), array.array("i", [1, 2]), [1, 2]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, -1], b"\x01\xff"),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1, "b": None}, {"a": 1.0, "b": None}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_value_is_taken_and_coerced(kind, value, expected):
    result = kind.validate(value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (Types.STRING(), 1),
        (Types.STRING(), None),
        (Types.BOOLEAN(), 1.0),
        (Types.BOOLEAN(), "true"),
        (Types.BYTE(), 128),
        (Types.SHORT(), -32769),
        (Types.INT(), 2**31),
        (Types.INT(), float("nan")),
        (Types.INT(), "1"),
        (Types.LONG(), 2**63),
        (Types.FLOAT(), "1.0"),
        (Types.DOUBLE(), "1.0"),
        (Types.DOUBLE(), None),
        (Types.CHAR(), "xy"),
        (Types.BIG_INT(), "1"),
        (Types.BIG_DEC(), "one"),
        (Types.INSTANT(), MOMENT),
        (Types.SQL_DATE(), "2024-02-29"),
        (Types.SQL_TIME(), MOMENT),
        (Types.SQL_TIMESTAMP(), DAY),
        (Types.TUPLE([Types.INT()]), 1),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (Types.TUPLE([Types.INT()]), (None,)),
        (PERSON, "Al"),
        (PERSON, ("Al",)),
        (PERSON, Row(name="Al", years=3)),
        (PERSON, {"name": "Al", "years": 3}),
        (Types.LIST(Types.INT()), "ab"),
        (Types.LIST(Types.INT()), 5),
        (Types.LIST(Types.INT()), ["a"]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [None]),
        (Types.MAP(Types.STRING(), Types.INT()), [("a", 1)]),
        (Types.MAP(Types.STRING(), Types.INT()), {1: 1}),
        (Types.MAP(Types.STRING(), Types.INT()), {None: 1}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_value_that_does_not_fit_is_refused(kind, bad):
    with pytest.raises(RecordError):
        kind.validate(bad)


def test_the_error_names_the_value_the_type_and_the_place():
    kind = Types.ROW_NAMED(["people"], [Types.LIST(PERSON)])
    with pytest.raises(RecordError) as caught:
        kind.validate(Row([("Al", 3), ("Bo", "x")]))
    assert caught.value.message == "'x' (str) is not a value of type Integer"
    assert caught.value.detail == "in field 'people', in element 1, in field 'age'"


@pytest.mark.parametrize("kind", ALL_TYPES, ids=repr)
def test_types_compare_by_value_and_survive_pickling(kind):
    again = pickle.loads(pickle.dumps(kind))
    assert again == kind
    assert hash(again) == hash(kind)
    assert repr(again) == repr(kind)
    assert isinstance(kind, TypeInformation)
    assert [other for other in ALL_TYPES if other == kind] == [kind]


def test_field_names_do_not_count_for_equality():
    assert Types.ROW_NAMED(["a"], [Types.INT()]) == Types.ROW_NAMED(["b"], [Types.INT()])
    assert Types.ROW([Types.INT()]) != Types.TUPLE([Types.INT()])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Types.INT(), "Integer"),
        (PERSON, "RowTypeInfo(name: String, age: Integer)"),
        (Types.ROW([Types.INT()]), "RowTypeInfo(Integer)"),
        (Types.TUPLE([Types.INT(), Types.LONG()]), "TupleTypeInfo(Integer, Long)"),
        (Types.MAP(Types.CHAR(), Types.BIG_DEC()), "MapTypeInfo<Character, BigDecimal>"),
        (Types.LIST(Types.SQL_DATE()), "ListTypeInfo<DateTypeInfo>"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
    ],
    ids=str,
)
def test_types_show_themselves_as_in_pyflink(kind, text):
    assert str(kind) == repr(kind) == text


def test_a_row_type_knows_its_fields():
    assert PERSON.get_field_names() == ["name", "age"]
    assert PERSON.get_field_types() == [Types.STRING(), Types.INT()]
    assert (PERSON.get_field_index("age"), PERSON.get_field_index("x")) == (1, -1)
    assert RowTypeInfo([Types.INT(), Types.INT()]).get_field_names() == ["f0", "f1"]
    assert TupleTypeInfo([Types.INT()]).get_field_types() == [Types.INT()]


@pytest.mark.parametrize(
    ("create", "error", "match"),
    [
        (lambda: Types.ROW_NAMED(["a"], []), ArgumentError, "1 field names do not fit 0"),
        (lambda: Types.ROW_NAMED(["a", "a"], [Types.INT()] * 2), ArgumentError, "not unique"),
        (lambda: Types.ROW_NAMED([1], [Types.INT()]), ArgumentTypeError, "not a str"),
        (lambda: Types.ROW([int]), ArgumentTypeError, r"field_types\[0\]"),
        (lambda: Types.ROW(Types.INT()), ArgumentTypeError, "not a list of types"),
        (lambda: Types.LIST("int"), ArgumentTypeError, "not a type"),
        (lambda: Types.PRIMITIVE_ARRAY(Types.STRING()), ArgumentTypeError, "element type"),
        (lambda: Types.BASIC_ARRAY(PERSON), ArgumentTypeError, "element type"),
    ],
    ids=["count", "duplicate", "name", "python type", "no list", "text", "primitive", "basic"],
)
def test_types_that_make_no_sense_are_refused(create, error, match):
    with pytest.raises(error, match=match):
        create()


@pytest.mark.parametrize("forgotten", [Types.INT, Types.SQL_DATE], ids=["INT", "SQL_DATE"])
def test_forgotten_parentheses_are_pointed_out(forgotten):
    with pytest.raises(ArgumentTypeError, match=rf"Types.{forgotten.__name__}\(\)"):
        check_type(forgotten, "output_type")


def test_there_is_no_java_behind_a_type():
    with pytest.raises(UnsupportedOperationError):
        Types.INT().get_java_type_info()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.STRING(), "a"),
        (Types.BYTE(), 1),
        (Types.BOOLEAN(), True),
        (Types.SHORT(), 1),
        (Types.INT(), 1),
        (Types.LONG(), 1),
        (Types.FLOAT(), 1.5),
        (Types.DOUBLE(), 1.5),
        (Types.CHAR(), "c"),
        (Types.BIG_INT(), 1),
        (Types.BIG_DEC(), Decimal("1.5")),
        (Types.SQL_DATE(), DAY),
        (Types.SQL_TIME(), NOON),
        (Types.SQL_TIMESTAMP(), MOMENT),
        (Types.PICKLED_BYTE_ARRAY(), b"x"),
        (Types.LIST(Types.INT()), [1, None]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab"),
        (Types.MAP(Types.STRING(), Types.INT()), [("a", 1)]),
    ],
    ids=str,
)
def test_the_arrow_type_holds_the_value(kind, value):
    pa = pytest.importorskip("pyarrow")
    assert pa.array([value, None], type=kind.to_arrow()).to_pylist() == [value, None]


def test_the_arrow_types_of_composites_have_named_fields():
    pa = pytest.importorskip("pyarrow")
    assert PERSON.to_arrow() == pa.struct([("name", pa.string()), ("age", pa.int32())])
    assert Types.TUPLE([Types.LONG()]).to_arrow() == pa.struct([("f0", pa.int64())])
    assert Types.INSTANT().to_arrow() == pa.timestamp("ns", tz="UTC")


def test_the_package_loads_without_arrow_pandas_and_spark():
    check = (
        "import sys, penstock.common, penstock.records.string_form, penstock.state_descriptors.descriptors; "
        "print([m for m in ('pyarrow', 'pandas', 'pyspark', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
