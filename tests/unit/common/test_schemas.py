from __future__ import annotations

import io
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common import ByteArraySchema, Encoder, Row, SimpleStringSchema, TypeSerializer
from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    DeserializationSchema,
    RowFieldExtractorSchema,
    SerializationSchema,
)
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["UTF-8", "UTF-16"]))
def test_text_survives_its_schema(text, charset):
    schema = SimpleStringSchema(charset)
    assert schema.deserialize(schema.serialize(text)) == text


@given(st.binary())
def test_bytes_survive_their_schema(data):
    schema = ByteArraySchema()
    assert schema.deserialize(schema.serialize(bytearray(data))) == data


@pytest.mark.parametrize(
    ("act", "match"),
    [
        (lambda: SimpleStringSchema().serialize(5), "5 is not a str"),
        (lambda: SimpleStringSchema("ascii").serialize("é"), "cannot be written in ascii"),
        (lambda: SimpleStringSchema().deserialize(b"\xff"), "is not text in UTF-8"),
        (lambda: ByteArraySchema().serialize("a"), "is not bytes"),
        (lambda: RowFieldExtractorSchema(1).serialize(Row(b"a")), "a field 1"),
        (lambda: RowFieldExtractorSchema(0).serialize(Row("a")), "is not bytes"),
        (lambda: Encoder.of(lambda value: 5).encode(1), "returned 5"),
    ],
    ids=["int", "charset", "bytes", "text", "short row", "text field", "encoder"],
)
def test_a_record_that_does_not_fit_is_refused(act, match):
    with pytest.raises(RecordError, match=match):
        act()


def test_one_field_of_a_row_is_written():
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row(b"k", b"v")) == b"v"
    assert schema.serialize((b"k", None)) == b""


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a", b"a\n"),
        (5, b"5\n"),
        ((1, "a"), b"(1, 'a')\n"),
        (Row(a=1), b"Row(a=1)\n"),
        (None, b"None\n"),
    ],
    ids=repr,
)
def test_the_simple_encoder_writes_lines_of_text(value, line):
    assert Encoder.simple_string_encoder().encode(value) == line


def test_the_simple_encoder_knows_charsets_and_survives_pickling():
    encoder = pickle.loads(pickle.dumps(Encoder.simple_string_encoder("latin-1")))
    assert encoder.encode("é") == b"\xe9\n"


@pytest.mark.parametrize(
    ("function", "data"),
    [
        (lambda value: f"<{value}>", b"<1>\n"),
        (lambda value: f"<{value}>\n", b"<1>\n"),
        (lambda value: b"raw", b"raw"),
    ],
    ids=["text", "line", "bytes"],
)
def test_a_function_can_be_an_encoder(function, data):
    assert Encoder.of(function).encode(1) == data


@pytest.mark.parametrize(
    ("create", "error"),
    [
        (lambda: SimpleStringSchema("klingon"), ArgumentError),
        (lambda: Encoder.simple_string_encoder("klingon"), ArgumentError),
        (lambda: Encoder.of("text"), ArgumentTypeError),
        (lambda: RowFieldExtractorSchema(-1), ArgumentError),
        (lambda: RowFieldExtractorSchema("0"), ArgumentTypeError),
    ],
    ids=["schema", "encoder", "no function", "negative", "text index"],
)
def test_arguments_are_checked_at_the_call(create, error):
    with pytest.raises(error):
        create()


@pytest.mark.parametrize(
    "base", [SerializationSchema, DeserializationSchema, Encoder, BulkWriterFactory, BulkWriter]
)
def test_bases_are_there_to_be_implemented(base):
    with pytest.raises(TypeError, match="abstract"):
        base()


def test_a_bulk_writer_writes_a_whole_file():
    class Writer(BulkWriter):
        def __init__(self, stream):
            self.stream = stream

        def add_element(self, element):
            self.stream.write(element)

        def finish(self):
            self.stream.write(b"!")

    class Factory(BulkWriterFactory):
        def create(self, stream):
            return Writer(stream)

    stream = io.BytesIO()
    writer = Factory().create(stream)
    writer.add_element(b"a")
    writer.flush()
    writer.finish()
    assert stream.getvalue() == b"a!"


def test_a_type_serializer_compares_by_its_settings():
    class Serializer(TypeSerializer):
        def __init__(self, width):
            self.width = width

        def serialize(self, element, stream):
            stream.write(element.to_bytes(self.width, "big"))

        def deserialize(self, stream):
            return int.from_bytes(stream.read(self.width), "big")

    stream = io.BytesIO()
    Serializer(4).serialize(7, stream)
    stream.seek(0)
    assert Serializer(4).deserialize(stream) == 7
    assert Serializer(4) == Serializer(4) != Serializer(8)
    assert hash(Serializer(4)) == hash(Serializer(4))
