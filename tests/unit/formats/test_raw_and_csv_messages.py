"""Raw and CSV messages, alone and in batches."""

from __future__ import annotations

import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.formats.raw import RawDeserializationSchema, RawSerializationSchema
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
RAW = {
    "text": (Types.STRING(), TEXT, None),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=6), None),
    "boolean": (Types.BOOLEAN(), st.booleans(), "?"),
    "byte": (Types.BYTE(), st.integers(-128, 127), "b"),
    "short": (Types.SHORT(), st.integers(-(2**15), 2**15 - 1), "h"),
    "int": (Types.INT(), st.integers(-(2**31), 2**31 - 1), "i"),
    "long": (Types.LONG(), st.integers(-(2**63), 2**63 - 1), "q"),
    "float": (Types.FLOAT(), st.floats(width=32, allow_nan=False), "f"),
    "double": (Types.DOUBLE(), st.floats(allow_nan=False), "d"),
}


@pytest.mark.parametrize(("kind", "values", "code"), RAW.values(), ids=RAW)
@pytest.mark.parametrize(("endianness", "order"), [("big-endian", ">"), ("little-endian", "<")])
@given(data=st.data())
def test_a_raw_value_is_written_in_its_order_of_bytes_and_read_again(
    kind, values, code, endianness, order, data
):
    value = data.draw(values)
    write = pickle.loads(pickle.dumps(RawSerializationSchema(kind, endianness=endianness)))
    read = pickle.loads(pickle.dumps(RawDeserializationSchema(kind, endianness=endianness)))
    message = write.serialize(value)
    if code is not None:
        assert message == struct.pack(order + code, value)
    assert read.deserialize(message) == value
    assert read.deserialize_batch([message, None, message]).records == [value, value]


def test_raw_text_has_its_charset_and_may_stand_in_a_row():
    kind = Types.ROW_NAMED(["word"], [Types.STRING()])
    write = RawSerializationSchema(kind, charset="ISO-8859-1")
    read = RawDeserializationSchema(kind, charset="ISO-8859-1")
    assert write.serialize(Row(word="é")) == b"\xe9"
    assert read.deserialize_batch([b"\xe9"]).records == [Row(word="é")]
    assert read.get_produced_type() == kind


@pytest.mark.parametrize(
    ("kind", "good", "bad", "match"),
    [
        (Types.INT(), b"\0\0\0\1", b"\0\1", "it has 2 bytes, not 4"),
        (Types.INT(), b"\0\0\0\1", b"", "it has 0 bytes, not 4"),
        (Types.STRING(), b"a", b"\xff", "text in utf-8"),
    ],
)
def test_one_malformed_raw_message_is_reported_alone_wherever_it_stands(kind, good, bad, match):
    read = RawDeserializationSchema(kind)
    for at in range(4):
        messages = [good] * 3
        messages.insert(at, bad)
        found = read.deserialize_batch(messages)
        assert len(found.records) == 3
        [(index, error)] = found.failures
        assert index == at
        assert isinstance(error, RecordError)
        assert match in str(error)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Types.INT(), 2**31), (Types.INT(), "1"), (Types.STRING(), 1), (Types.BOOLEAN(), 1), (Types.PRIMITIVE_ARRAY(Types.BYTE()), "a")],
)  # fmt: skip
def test_a_value_without_raw_form_is_named(kind, value):
    with pytest.raises(RecordError, match="cannot write a record as raw"):
        RawSerializationSchema(kind).serialize(value)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda: RawDeserializationSchema(Types.BIG_DEC()), ArgumentTypeError),
        (lambda: RawDeserializationSchema({"a": int, "b": int}), ArgumentTypeError),
        (lambda: RawDeserializationSchema(Types.INT(), endianness="big"), ArgumentError),
        (lambda: RawDeserializationSchema(Types.STRING(), charset="no such"), ArgumentError),
    ],
)
def test_a_raw_schema_that_cannot_work_is_refused_when_it_is_made(act, error):
    with pytest.raises(error):
        act()


# CSV

ROW = Types.ROW_NAMED(["name", "age", "share"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
ROWS = st.tuples(TEXT.filter(bool), st.integers(-(2**31), 2**31 - 1), st.floats(allow_nan=False, allow_infinity=False))  # fmt: skip
# What Flink reads of bad messages where it ignores parse errors; of the others nothing.
READ_LENIENTLY = {
    b"a,1": Row(name="a", age=1, share=None),
    b"a,x,1": Row(name="a", age=None, share=1.0),
    b"a,,1": Row(name="a", age=None, share=1.0),
}
BAD = [
    b"a,1", b"a,1,2,3", b"a,x,1", b"a,,1", b'"a,1,2', b'a"b",1,2\n"', b"\xff,1,2", b'"a"x,1,2', b"a,1,2\nb,3,4", b'x,1,"', b'",1,2',
]  # fmt: skip


@given(st.lists(ROWS, max_size=5))
def test_csv_rows_are_written_and_read_again_in_batches(rows):
    write = CsvRowSerializationSchema.Builder(ROW).set_line_terminator("").build()
    messages = write.serialize_batch([Row(*row) for row in rows])
    read = CsvRowDeserializationSchema.Builder(ROW).build()
    found = pickle.loads(pickle.dumps(read)).deserialize_batch(messages)
    assert [tuple(row) for row in found.records] == rows
    assert not found.failures


@given(st.lists(st.sampled_from([*BAD, b"a,1,2", b'"b,""c",1,2.5', b"", None, b"#c,1,2", b"a,1,2\r\n"]), max_size=8), st.booleans(), st.booleans())  # fmt: skip
def test_batch_of_csv_messages_equals_single_messages(messages, ignore, comments):
    builder = CsvRowDeserializationSchema.Builder(ROW).set_ignore_parse_errors(ignore)
    read = (builder.set_allow_comments() if comments else builder).build()
    found = read.deserialize_batch(messages)
    records, indexes, failures = [], [], []
    for index, message in enumerate(messages):
        try:
            record = None if message is None else read.deserialize(message)
        except RecordError as error:
            failures.append((index, str(error)))
        else:
            if record is not None:
                records.append(record)
                indexes.append(index)
    assert found.records == records
    assert list(found.of_each(range(len(messages)))) == indexes
    assert [(index, str(error)) for index, error in found.failures] == failures


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_one_malformed_csv_message_is_reported_alone_wherever_it_stands(bad):
    read = CsvRowDeserializationSchema.Builder(ROW).build()
    good = [b'"n%d",%d,0.5' % (i, i) for i in range(3)]
    for at in range(4):
        found = read.deserialize_batch([*good[:at], bad, *good[at:]])
        assert [row.age for row in found.records] == [0, 1, 2]
        [(index, error)] = found.failures
        assert index == at
        assert isinstance(error, RecordError)
        assert "invalid CSV record" in str(error)
    ignoring = CsvRowDeserializationSchema.Builder(ROW).set_ignore_parse_errors(True).build()
    assert ignoring.deserialize(bad) == READ_LENIENTLY.get(bad)


def test_parse_errors_are_ignored_value_by_value_as_in_flink():
    inner = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])
    kind = Types.ROW_NAMED(["n", "r", "ar"], [Types.INT(), inner, Types.LIST(Types.INT())])
    read = CsvRowDeserializationSchema.Builder(kind).set_ignore_parse_errors(True).build()
    cases = {
        b"1,2;a,3;4": Row(n=1, r=Row(x=2, y="a"), ar=[3, 4]),
        b"x,2;a,3;4": Row(n=None, r=Row(x=2, y="a"), ar=[3, 4]),
        b"1,2,3": Row(n=1, r=Row(x=2, y=None), ar=[3]),
        b"1,;a,": Row(n=1, r=Row(x=None, y="a"), ar=[]),
        b"1,2;a;b,x;4": Row(n=1, r=Row(x=2, y="a"), ar=[None, 4]),
        b"1": Row(n=1, r=None, ar=None),
        b"1,2;a,3,4": None,
    }
    assert {message: read.deserialize(message) for message in cases} == cases
    assert read.skipped == 1
    found = read.deserialize_batch(list(cases))
    assert found.records == [row for row in cases.values() if row is not None]
    assert not found.failures


def test_comments_are_skipped_if_allowed():
    read = CsvRowDeserializationSchema.Builder(ROW).set_allow_comments().build()
    assert read.deserialize_batch([b"# note", b"a,1,2"]).indexes == [1]
    assert read.get_produced_type() == ROW


def test_two_csv_messages_that_look_like_one_row_are_two_malformed_messages():
    kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    read = CsvRowDeserializationSchema.Builder(kind).build()
    found = read.deserialize_batch([b'1,"a', b'b"', b"2,c"])
    assert found.records == [Row(id=2, name="c")]
    assert [index for index, _ in found.failures] == [0, 1]
