"""What holds for batches of every format: whatever one message is, its neighbours are read, and nothing else is reported."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.common.serialization import SimpleStringSchema
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)
from penstock.datastream.formats.changelog import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from penstock.datastream.formats.confluent import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
)
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import (
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    JsonSerializationSchema,
)
from penstock.datastream.formats.protobuf import (
    ProtobufDeserializationSchema,
    ProtobufSerializationSchema,
)
from penstock.datastream.formats.raw import RawDeserializationSchema, RawSerializationSchema
from penstock.errors import RecordError
from tests.builders.protobuf_messages import message_class
from tests.builders.schema_registry import registry_server

TABLE = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
AVRO = json.dumps(
    {
        "type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "map", "values": "bytes"}, "default": {}}],
    }
)  # fmt: skip
ORDER = message_class()
ROW = Row(id=7, name="ä")
RECORD = {"id": 7, "name": "ä", "tags": {"k": b"v"}}


@pytest.fixture(scope="module")
def schemas():
    """Pairs of schemas by name, with a record of each."""
    with registry_server() as server:
        avro = AvroSchema(AVRO)
        protobuf = ProtobufSerializationSchema(ORDER)
        yield {
            "text": (SimpleStringSchema(), SimpleStringSchema(), "ä"),
            "json": (JsonSerializationSchema(), JsonDeserializationSchema(), [7]),
            "json rows": (
                JsonRowSerializationSchema(TABLE),
                JsonRowDeserializationSchema(TABLE),
                ROW,
            ),
            "csv": (
                CsvRowSerializationSchema.Builder(TABLE).build(),
                CsvRowDeserializationSchema.Builder(TABLE).build(),
                ROW,
            ),
            "raw": (RawSerializationSchema(Types.INT()), RawDeserializationSchema(Types.INT()), 7),
            "avro": (
                AvroRowSerializationSchema(avro_schema_string=AVRO),
                AvroRowDeserializationSchema(avro_schema_string=AVRO),
                Row(**RECORD),
            ),
            "registry avro": (
                ConfluentRegistryAvroSerializationSchema.for_generic("s", avro, server.url),
                ConfluentRegistryAvroDeserializationSchema.for_generic(avro, server.url),
                RECORD,
            ),
            "protobuf": (
                protobuf,
                ProtobufDeserializationSchema(ORDER, type_info={"id": int, "name": str}),
                ROW,
            ),
            "registry protobuf": (
                ConfluentRegistryProtobufSerializationSchema("p", protobuf, server.url),
                ConfluentRegistryProtobufDeserializationSchema(
                    ProtobufDeserializationSchema(ORDER, type_info={"id": int, "name": str})
                ),
                ROW,
            ),
            "debezium": (
                DebeziumJsonSerializationSchema(TABLE),
                DebeziumJsonDeserializationSchema(TABLE),
                ROW,
            ),
            "canal": (
                CanalJsonSerializationSchema(TABLE),
                CanalJsonDeserializationSchema(TABLE),
                ROW,
            ),
            "maxwell": (
                MaxwellJsonSerializationSchema(TABLE),
                MaxwellJsonDeserializationSchema(TABLE),
                ROW,
            ),
        }


NAMES = [
    "text", "json", "json rows", "csv", "raw", "avro", "registry avro", "protobuf", "registry protobuf", "debezium", "canal", "maxwell",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    noise=st.binary(max_size=40),
    cut=st.integers(0, 200),
    at=st.integers(0, 3),
    tombstone=st.booleans(),
)
@example(noise=b"", cut=3, at=1, tombstone=True)
@example(noise=b"\xff" * 30, cut=5, at=0, tombstone=False)
def test_whatever_one_message_is_its_neighbours_are_read(schemas, name, noise, cut, at, tombstone):
    write, read, record = schemas[name]
    good = write.serialize(as_fields(record) if "protobuf" in name else record)
    odd = good[:cut] + noise  # sometimes a whole message, sometimes with more behind it
    messages = [good] * 3
    messages.insert(at, odd)
    if tombstone:
        messages.insert(2, None)
    found = read.deserialize_batch(messages)
    where = list(found.of_each(range(len(messages))))
    assert len(where) == len(found.records)
    for index, message in enumerate(messages):
        if message is good:
            assert [r for r, i in zip(found.records, where, strict=True) if i == index] == [record]
    assert [messages[index] for index, _ in found.failures] in ([], [odd])
    assert all(isinstance(error, RecordError) for _, error in found.failures)


def as_fields(row):
    return row.as_dict()
