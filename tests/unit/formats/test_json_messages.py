"""JSON messages: as quick as C and as careful as before."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import pickle
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.errors import ArgumentTypeError, RecordError
from penstock.formats.json.fast import loads
from penstock.formats.json.rows import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.formats.json.values import JsonDeserializationSchema, JsonSerializationSchema

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.integers(2**63, 2**80) | TEXT
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
ROW = Types.ROW_NAMED(
    ["id", "a name", "share", "paid", "price", "day", "tags", "inner"],
    [
        Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.BIG_DEC(), Types.SQL_DATE(),
        Types.LIST(Types.INT()), Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]),
    ],
)  # fmt: skip
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3)
ROWS = st.builds(
    lambda *values: dict(
        zip(["id", "a name", "share", "paid", "price", "day", "tags", "inner"], values, strict=True)
    ),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | TEXT,
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.booleans(),
    st.none() | DECIMALS,
    st.none() | st.dates(),
    st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3),
    st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9), "y": TEXT}),
)
# Numbers and texts where the type says something else: what the careful way makes of them must come out of a batch too.
ODD = st.sampled_from(
    [
        b'{"id": "12"}', b'{"id": 3.0}', b'{"id": 3.5}', b'{"id": true}', b'{"share": 1}', b'{"share": "0.5"}',
        b'{"share": NaN}', b'{"share": 1e400}', b'{"a name": 5}', b'{"a name": {"k": [1]}}', b'{"paid": "TRUE"}', b'{"paid": 1}',
        b'{"price": "1.50"}', b'{"price": "NaN"}', b'{"price": 12345678901234567890.123456789}', b'{"day": "x"}', b'{"day": 5}',
        b'{"tags": 7}', b'{"tags": [1.5]}', b'{"tags": ["1"]}', b'{"inner": []}', b'{"inner": {"x": "a"}}', b"[]", b"null", b"", b"{",
        b'{"id": 1}{', b"\xff", b'\xef\xbb\xbf{"id": 1}', b'{"id": 1, "id": 2}', b'{"unknown": 1}', b'{"a name": "\\ud800"}', b"[" * 50_000,
        b'{"id": 123456789012345678901234567890}',
    ]
)  # fmt: skip


def as_json(row):
    def plain(value):
        return value.isoformat() if isinstance(value, dt.date) else value

    text = json.dumps({k: plain(v) for k, v in row.items() if not isinstance(v, decimal.Decimal)})
    if isinstance(row["price"], decimal.Decimal):
        text = f'{text[:-1]}{", " if len(text) > 2 else ""}"price": {row["price"]:f}}}'
    return text.encode()


def outcome(act):
    try:
        return act(), None
    except RecordError as error:
        return None, error.message


def same(a, b):
    return repr(a) == repr(b)  # NaN is NaN, and 1 is not 1.0


@given(VALUES)
def test_a_value_is_read_as_the_standard_library_reads_it(value):
    text = json.dumps(value).encode()
    assert same(loads(text), json.loads(text))
    assert same(JsonDeserializationSchema().deserialize(text), json.loads(text))


@given(VALUES)
def test_written_json_is_read_by_the_standard_library(value):
    for text in (
        JsonSerializationSchema().serialize(value),
        *JsonSerializationSchema().serialize_batch([value]),
    ):
        assert same(json.loads(text), value)


@given(st.lists(st.builds(as_json, ROWS) | ODD, max_size=6), st.booleans())
def test_batch_of_rows_equals_single_messages(messages, ignore):
    schema = JsonRowDeserializationSchema(ROW, ignore_parse_errors=ignore)
    alone = [outcome(lambda m=m: schema.deserialize(m)) for m in messages]
    found = schema.deserialize_batch(messages)
    good = [i for i, (row, _) in enumerate(alone) if row is not None]
    assert list(found.of_each(range(len(messages)))) == good
    assert same(found.records, [alone[i][0] for i in good])
    assert [(i, error.message) for i, error in found.failures] == [
        (i, message) for i, (_, message) in enumerate(alone) if message is not None
    ]


@given(st.integers(0, 20), st.sampled_from([b"{", b"", b"\xff", b'{"id": "x"}', b"[]", b"{}x"]))
def test_one_malformed_message_is_reported_alone_wherever_it_stands(at, bad):
    messages = [b'{"id": %d}' % i for i in range(20)]
    messages.insert(at, bad)
    found = JsonRowDeserializationSchema(ROW).deserialize_batch(messages)
    assert [row.id for row in found.records] == list(range(20))
    [(index, error)] = found.failures
    assert index == at
    assert isinstance(error, RecordError)
    assert repr(bad) in str(error)


def test_tombstones_and_null_are_left_out():
    found = JsonDeserializationSchema().deserialize_batch([b"1", None, b"null", b"2"])
    assert (found.records, found.indexes, found.failures) == ([1, 2], [0, 3], [])


def test_missing_fields_fail_where_they_must_not_be_missing():
    schema = (
        JsonRowDeserializationSchema.builder()
        .type_info(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]))
        .fail_on_missing_field()
        .build()
    )
    found = schema.deserialize_batch([b'{"a":1,"b":null}', b'{"a":1}'])
    assert found.records == [Row(a=1, b=None)]
    assert "field 'b' is missing" in str(found.failures[0][1])


@given(ROWS)
def test_rows_are_written_with_all_their_digits(row):
    schema = JsonRowSerializationSchema(ROW)
    text = schema.serialize(Row(**row))
    found = JsonRowDeserializationSchema(ROW).deserialize_batch([text]).records[0]
    assert found.as_dict(recursive=True) == row
    assert schema.serialize_batch([Row(**row)]) == [text]


FLAT = Types.ROW_NAMED(["a name", "share", "any"], [Types.LONG(), Types.DOUBLE(), Types.STRING()])
FLAT_VALUES = st.tuples(
    st.none() | st.integers() | st.integers(2**63, 2**80),
    st.none() | st.floats() | st.integers(),
    st.none() | TEXT | st.booleans(),
)
FLAT_NAMES = ("a name", "share", "any")
FLAT_RECORDS = st.one_of(
    FLAT_VALUES.map(lambda values: Row(**dict(zip(FLAT_NAMES, values, strict=True)))),
    FLAT_VALUES.map(
        lambda values: Row(**dict(reversed(list(zip(FLAT_NAMES, values, strict=True)))))
    ),
    FLAT_VALUES.map(lambda values: Row(*values)),
    FLAT_VALUES,
    st.just(Row(1, 2.5)),
    st.just(Row(1, 2.5, [1])),
)


@given(st.lists(FLAT_RECORDS, max_size=6))
def test_a_batch_of_rows_is_written_as_each_row_alone_is(records):
    schema = JsonRowSerializationSchema(FLAT)
    alone = [outcome(lambda r=r: schema.serialize(r)) for r in records]
    failed = next((message for _, message in alone if message is not None), None)
    found, message = outcome(lambda: schema.serialize_batch(records))
    assert message == failed
    if failed is None:
        assert found == [text for text, _ in alone]


def test_numbers_that_json_has_not_are_texts():
    row = Types.ROW_NAMED(["x", "y"], [Types.DOUBLE(), Types.INT()])
    assert JsonRowSerializationSchema(row).serialize((math.nan, None)) == b'{"x":"NaN","y":null}'
    schema = JsonSerializationSchema()
    value = {"a": [math.inf, None, 1.5], "b": -math.inf, "c": decimal.Decimal("1.10")}
    text = b'{"a":["Infinity",null,1.5],"b":"-Infinity","c":1.10}'
    assert schema.serialize(value) == text
    assert schema.serialize_batch([{}, value]) == [b"{}", text]


@dataclass
class Order:
    id: int
    price: decimal.Decimal = decimal.Decimal(0)
    at: dt.datetime | None = None


def test_objects_of_a_class_are_read_and_written():
    schema = pickle.loads(pickle.dumps(JsonDeserializationSchema(Order)))
    order = Order(7, decimal.Decimal("12.50"), dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC))
    text = JsonSerializationSchema().serialize(order)
    assert text == b'{"id":7,"price":12.50,"at":"2024-03-01T12:00:00Z"}'
    found = schema.deserialize_batch([text, b'{"id": "7"}', b"{}"])
    assert found.records == [order]
    assert [i for i, _ in found.failures] == [1, 2]
    assert "Expected `int`, got `str`" in str(found.failures[0][1])


def test_rows_and_decimals_are_written_in_plain_values():
    schema = pickle.loads(pickle.dumps(JsonSerializationSchema()))
    assert schema.serialize(Row(a=1, b=Row(c=b"x"))) == b'{"a":1,"b":{"c":"eA=="}}'
    assert schema.serialize([Row(1, 2)]) == b"[[1,2]]"
    with pytest.raises(RecordError, match="object cannot be written as JSON"):
        schema.serialize({"a": object()})
    with pytest.raises(RecordError, match="object cannot be written as JSON"):
        schema.serialize_batch([1, object()])


def test_numbers_keep_their_digits_if_asked():
    text = b'{"price": 0.1000000000000000000001, "n": 5}'
    found = JsonDeserializationSchema(decimals=True).deserialize_batch([text, b"{"])
    assert found.records == [{"price": decimal.Decimal("0.1000000000000000000001"), "n": 5}]
    assert [i for i, _ in found.failures] == [1]


@pytest.mark.parametrize(
    "act",
    [
        lambda: JsonDeserializationSchema(Order, decimals=True),
        lambda: JsonDeserializationSchema(lambda: 1),
    ],
    ids=["decimals of a class", "a function"],
)
def test_a_schema_that_cannot_work_is_refused_when_it_is_made(act):
    with pytest.raises(ArgumentTypeError):
        act()


def test_lines_of_files_are_read_the_same_way():
    assert JsonLinesFormat().decode('{"a": NaN, "b": 18446744073709551616}')["b"] == 2**64
