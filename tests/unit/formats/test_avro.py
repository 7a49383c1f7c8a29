"""Avro: files, messages, records in Parquet files."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import subprocess
import sys
from decimal import Decimal

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Instant, Row
from penstock.connectors.filesystem.source import FileSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.formats.avro import (
    AvroBulkWriters,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from penstock.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError, RecordError
from penstock.formats.avro import schema as avro_schema
from penstock.formats.avro.records import AvroFileFormat
from tests.builders.avro_files import PAIR, pairs, write_file
from tests.builders.connector_helpers import read_all, read_resuming
from tests.builders.examples import examples

FIELDS = [
    {"name": "i", "type": "int"},
    {"name": "l", "type": "long"},
    {"name": "f", "type": "float"},
    {"name": "d", "type": "double"},
    {"name": "b", "type": "boolean"},
    {"name": "s", "type": "string"},
    {"name": "y", "type": "bytes"},
    {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    {"name": "x", "type": {"type": "fixed", "name": "F", "size": 3}},
    {"name": "u", "type": ["null", "string"]},
    {"name": "a", "type": {"type": "array", "items": "int"}},
    {"name": "m", "type": {"type": "map", "values": "long"}},
    {
        "name": "r",
        "type": {"type": "record", "name": "N", "fields": [{"name": "k", "type": "int"}]},
    },
    {
        "name": "dec",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    },
    {"name": "dt", "type": {"type": "int", "logicalType": "date"}},
    {"name": "tm", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "tu", "type": {"type": "long", "logicalType": "timestamp-micros"}},
]
TEXT = json.dumps({"type": "record", "name": "R", "fields": FIELDS})
SCHEMA = AvroSchema.parse_string(TEXT)
# One record of this schema, as PyFlink 2.3's AvroRowDeserializationSchema read it (in Europe/Berlin: +I[1, 1099511627776, 1.5, 2.5,
# true, text, [1, -1], A, [97, 98, 99], null, [1, 2], {k=5}, +I[7], 12.34, 2022-01-08, 12:34:56, 2024-03-01 12:34:56.123,
# 2024-03-01 12:34:56.123456]) and as its AvroRowSerializationSchema wrote that row again.
MESSAGE = bytes.fromhex(
    "028080808080400000c03f00000000000004400108746578740401ff00616263000402040002026b0a000e0404d2f0a802f6a7992bf6b795a0bf63"
    "80f9bca793a68906"
)
ROW = Row(
    i=1, l=2**40, f=1.5, d=2.5, b=True, s="text", y=b"\1\xff", e="A", x=b"abc", u=None, a=[1, 2], m={"k": 5},
    r=Row(k=7), dec=Decimal("12.34"), dt=dt.date(2022, 1, 8), tm=dt.time(12, 34, 56, 123000),
    ts=dt.datetime(2024, 3, 1, 12, 34, 56, 123000), tu=dt.datetime(2024, 3, 1, 12, 34, 56, 123456),
)  # fmt: skip


# Messages


def test_a_message_is_read_as_flink_reads_it():
    read = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=TEXT)))
    assert read.deserialize(MESSAGE) == ROW


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(ROW, id="row"),
        pytest.param(Row(*ROW), id="row without names"),
        pytest.param({**ROW.as_dict(), "r": {"k": 7}}, id="dict"),
        pytest.param(
            {**ROW.as_dict(), "ts": Instant(1709296496, 123_000_000), "dt": 19000}, id="raw values"
        ),
    ],
)
def test_a_row_is_written_as_flink_writes_it(row):
    write = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=TEXT)))
    assert write.serialize(row) == MESSAGE


@pytest.mark.parametrize("message", [b"", MESSAGE[:10], b"\xff" * 30])
def test_invalid_message_is_named_in_the_error(message):
    with pytest.raises(RecordError, match="not an Avro record"):
        AvroRowDeserializationSchema(avro_schema_string=TEXT).deserialize(message)


@pytest.mark.parametrize("row", [Row(n="x", s="y"), Row(n=1), Row(n=2**40, s="y"), 5])
def test_a_row_that_does_not_fit_is_named(row):
    with pytest.raises(RecordError, match="does not match"):
        AvroRowSerializationSchema(avro_schema_string=str(PAIR)).serialize(row)


def test_a_type_that_contains_itself_is_written_and_read():
    tree = json.dumps(
        {
            "type": "record", "name": "Tree", "namespace": "x",
            "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Tree"]}],
        }
    )  # fmt: skip
    row = Row(v=1, next=Row(v=2, next=None))
    data = AvroRowSerializationSchema(avro_schema_string=tree).serialize(row)
    assert AvroRowDeserializationSchema(avro_schema_string=tree).deserialize(data) == row


def test_row_schemas_need_a_schema_of_a_record_and_no_java():
    for kind in (AvroRowSerializationSchema, AvroRowDeserializationSchema):
        with pytest.raises(ArgumentTypeError, match="avro_schema_string"):
            kind()
        with pytest.raises(ArgumentError, match="Java class"):
            kind("org.example.Word")
        with pytest.raises(ArgumentTypeError, match="not a record"):
            kind(avro_schema_string='"int"')


# Schemas


def test_a_schema_is_read_from_text_and_files(tmp_path):
    (tmp_path / "pair.avsc").write_text(str(PAIR))
    assert AvroSchema.parse_file(str(tmp_path / "pair.avsc")) == PAIR
    assert pickle.loads(pickle.dumps(PAIR)) == PAIR
    assert hash(AvroSchema.parse_string(str(PAIR))) == hash(PAIR)


@pytest.mark.parametrize("text", ["no json", '{"type": "record"}', '{"type": "recrod"}', '"Thing"'])
def test_a_schema_that_is_none_is_refused(text):
    with pytest.raises(ArgumentError):
        AvroSchema.parse_string(text)


def test_missing_fastavro_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(PenstockError, match="fastavro is not installed") as caught:
        AvroSchema.parse_string(str(PAIR))
    assert "pip install 'penstock-stream[avro]'" in caught.value.hint


def test_the_formats_load_nothing_until_they_are_used():
    code = (
        "import sys, penstock.datastream.formats.avro, penstock.datastream.formats.parquet; "
        "print('fastavro' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# Files


def source_of(path, schema=PAIR, **options):
    return FileSource.for_record_stream_format(AvroFileFormat(schema, **options), path).build()


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_files_are_read_and_can_be_resumed_at_every_record(tmp_path, codec):
    write_file(tmp_path / "f.avro", pairs(100), codec=codec, sync_interval=200)
    assert read_all(source_of(tmp_path)) == [pairs(100)]
    for batch_size in (1, 7, 1000):
        assert read_resuming(source_of(tmp_path), batch_size=batch_size) == pairs(100)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 60), st.integers(1, 400), st.integers(1, 20))
def test_any_blocks_and_batches_give_all_records_once(count, interval, batch_size):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as directory:
        write_file(Path(directory) / "f.avro", pairs(count), sync_interval=interval)
        assert read_resuming(source_of(directory), batch_size=batch_size) == pairs(count)


def test_the_readers_schema_decides_which_fields_there_are(tmp_path):
    write_file(tmp_path / "f.avro", pairs(3))
    reader = AvroSchema.parse_string(
        '{"type": "record", "name": "Pair", "fields": [{"name": "s", "type": "string"},'
        '{"name": "more", "type": ["null", "int"], "default": null}]}'
    )
    assert read_all(source_of(tmp_path, reader)) == [
        [{"s": f"text {n}", "more": None} for n in range(3)]
    ]


@pytest.mark.parametrize("data", [b"", b"no avro", b"Obj\x01junk"])
def test_invalid_avro_file_is_named_in_the_error(tmp_path, data):
    (tmp_path / "f.avro").write_bytes(data)
    if not data:
        assert read_all(source_of(tmp_path)) == []
        return
    with pytest.raises(RecordError, match="cannot read a file as Avro") as caught:
        read_all(source_of(tmp_path))
    assert "f.avro" in caught.value.detail


def test_a_file_that_was_cut_off_is_named(tmp_path):
    write_file(tmp_path / "f.avro", pairs(100), sync_interval=200)
    (tmp_path / "f.avro").write_bytes((tmp_path / "f.avro").read_bytes()[:-30])
    with pytest.raises(RecordError, match="cannot read"):
        read_all(source_of(tmp_path))


def written(factory, records):
    out = io.BytesIO()
    writer = pickle.loads(pickle.dumps(factory)).create(out)
    for record in records:
        writer.add_element(record)
    writer.finish()
    out.seek(0)
    return out


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_files_are_written(codec):
    out = written(
        AvroBulkWriters.for_generic_record(PAIR, codec=codec), [{"n": 1, "s": "a"}, Row(2, "b")]
    )
    reader = fastavro.reader(out)
    assert reader.metadata["avro.codec"] == codec
    assert list(reader) == [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]


def test_unknown_codecs_are_rejected():
    with pytest.raises(ArgumentError, match="unknown codec"):
        AvroBulkWriters.for_generic_record(PAIR, codec="zip")


def test_a_record_that_does_not_fit_is_not_written():
    with pytest.raises(RecordError, match="does not match"):
        written(AvroBulkWriters.for_generic_record(PAIR), [{"n": "one", "s": "a"}])


def test_invalid_input_format_is_rejected():
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ArgumentTypeError, match="unsupported input format"):
        env.create_input("f.avro")


# Parquet


def test_records_are_written_to_parquet_and_read(tmp_path):
    out = written(AvroParquetWriters.for_generic_record(SCHEMA), [ROW])
    (tmp_path / "f.parquet").write_bytes(out.getvalue())
    kinds = {field.name: str(field.type) for field in pq.read_schema(out)}
    assert kinds["dec"] == "decimal128(5, 2)"
    assert kinds["ts"] == "timestamp[us, tz=UTC]"
    source = FileSource.for_record_stream_format(
        AvroParquetReaders.for_generic_record(SCHEMA), tmp_path
    ).build()
    ((record,),) = read_all(source)
    utc = {name: getattr(ROW, name).replace(tzinfo=dt.UTC) for name in ("ts", "tu")}
    assert record == {**ROW.as_dict(), "r": {"k": 7}, **utc}


def test_unions_and_nulls_are_written_to_parquet_and_read(tmp_path):
    inner = {"type": "record", "name": "In", "fields": [{"name": "u", "type": ["int", "double"]}]}
    fields = [
        {"name": "nothing", "type": "null"},
        {"name": "number", "type": ["null", "int", "long", "double"]},
        {"name": "real", "type": ["double", "null", "string"]},
        {"name": "list", "type": {"type": "array", "items": ["int", "string"]}},
        {"name": "map", "type": {"type": "map", "values": ["long", "boolean"]}},
        {"name": "in", "type": ["null", inner]},
    ]
    schema = AvroSchema(json.dumps({"type": "record", "name": "R", "fields": fields}))
    names = [each["name"] for each in fields]
    records = [
        dict(zip(names, values, strict=True))
        for values in [
            (None, 1, 1.5, [1, "a"], {"x": 1, "y": True}, {"u": 1}),
            (None, 2**40, "text", [], {}, {"u": 2.5}),
            (None, 2.5, 3.0, ["b"], {"z": False}, None),
            (None, None, None, [2], {"x": 2}, {"u": 3}),
        ]
    ]
    out = written(AvroParquetWriters.for_generic_record(schema), records)
    (tmp_path / "f.parquet").write_bytes(out.getvalue())
    kinds = {field.name: str(field.type) for field in pq.read_schema(out)}
    assert "nothing" not in kinds
    assert kinds["number"] == "struct<member0: int32, member1: int64, member2: double>"
    source = FileSource.for_record_stream_format(
        AvroParquetReaders.for_generic_record(schema), tmp_path
    ).build()
    found = [record for batch in read_all(source) for record in batch]
    assert found == records
    with pytest.raises(RecordError, match="matches none of"):
        written(AvroParquetWriters.for_generic_record(schema), [{**records[0], "number": "x"}])


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ({"type": "array", "items": "Self"}, "recursive type"),
    ],
)
def test_types_without_a_column_are_refused(kind, why):
    fields = [{"name": "a", "type": kind}]
    schema = AvroSchema(json.dumps({"type": "record", "name": "Self", "fields": fields}))
    with pytest.raises(ArgumentTypeError, match=why):
        AvroParquetWriters.for_generic_record(schema)


# Types


def test_the_type_of_records():
    kind = GenericRecordAvroTypeInfo(PAIR)
    assert kind == pickle.loads(pickle.dumps(kind))
    assert kind.validate({"n": 1}) == {"n": 1}
    assert str(kind.to_arrow()) == "struct<n: int32, s: string>"
    with pytest.raises(RecordError, match="is not a value"):
        kind.validate(None)
    with pytest.raises(ArgumentTypeError, match="not an AvroSchema"):
        GenericRecordAvroTypeInfo(str(PAIR))


def test_the_examples_of_docstrings_work():
    import doctest

    results = doctest.testmod(avro_schema)
    assert results.attempted > 0
    assert results.failed == 0
