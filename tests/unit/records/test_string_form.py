from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import Instant, Row, RowKind, Types
from penstock.records.string_form import flink_string, java_double, java_float

NESTED = Types.ROW([Types.STRING(), Types.TUPLE([Types.BOOLEAN(), Types.FLOAT()])])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Row("a", 0), "+I[a, 0]"),
        (Row(f0="a", f1=0), "+I[a, 0]"),
        (Row.of_kind(RowKind.UPDATE_AFTER, None, True), "+U[null, true]"),
        (Row(Row(1), [1, None], {"k": 1.0}), "+I[+I[1], [1, null], {k=1.0}]"),
        (Row(b"\x01\xff", (1, "x")), "+I[[1, -1], (1,x)]"),
        (("hi", 0, True), "('hi', 0, True)"),
        ("hi", "hi"),
        (True, "True"),
        (1.0, "1.0"),
        ([1, None], "[1, None]"),
        (None, "None"),
    ],
    ids=repr,
)
def test_values_without_a_type(value, text):
    assert flink_string(value) == text
    assert flink_string(value, Types.PICKLED_BYTE_ARRAY()) == text


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (
            ("hi", 0, 5, 4),
            Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()]),
            "(hi,0,5,4)",
        ),
        (Row("a", (True, 0.1)), NESTED, "+I[a, (true,0.1)]"),
        (("a", (True, 0.1)), NESTED, "+I[a, (true,0.1)]"),
        (True, Types.BOOLEAN(), "true"),
        (None, Types.STRING(), "null"),
        (3, Types.DOUBLE(), "3.0"),
        (1e10, Types.DOUBLE(), "1.0E10"),
        (0.10000000149011612, Types.FLOAT(), "0.1"),
        ([1, None], Types.LIST(Types.INT()), "[1, null]"),
        (["a", "b"], Types.BASIC_ARRAY(Types.STRING()), "[a, b]"),
        ([0.5], Types.PRIMITIVE_ARRAY(Types.FLOAT()), "[0.5]"),
        (b"a", Types.PRIMITIVE_ARRAY(Types.BYTE()), "[97]"),
        ({"a": True}, Types.MAP(Types.STRING(), Types.BOOLEAN()), "{a=true}"),
        (Decimal("1.50"), Types.BIG_DEC(), "1.50"),
        (dt.date(2024, 2, 29), Types.SQL_DATE(), "2024-02-29"),
        (dt.time(1, 2, 3), Types.SQL_TIME(), "01:02:03"),
        (dt.datetime(2024, 2, 29, 1, 2, 3), Types.SQL_TIMESTAMP(), "2024-02-29 01:02:03.0"),
        (
            dt.datetime(2024, 2, 29, 1, 2, 3, 120_000),
            Types.SQL_TIMESTAMP(),
            "2024-02-29 01:02:03.12",
        ),
        (Instant(0), Types.INSTANT(), "1970-01-01T00:00:00Z"),
    ],
    ids=str,
)
def test_values_with_a_type(value, kind, text):
    assert flink_string(value, kind) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.5, "-12.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.25e-7, "1.25E-7"),
        (123456789.125, "1.23456789125E8"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
    ids=str,
)
def test_doubles_look_as_in_java(number, text):
    assert java_double(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back(number):
    assert float(java_double(number)) == number


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_within_32_bits(number):
    import struct

    assert struct.pack("f", float(java_float(number))) == struct.pack("f", number)
