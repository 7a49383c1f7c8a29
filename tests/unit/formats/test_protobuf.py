"""Protobuf messages, with Protobuf's own JSON mapping and Confluent's serialisers as the other side."""

from __future__ import annotations

import base64
import pickle

import pytest
from google.protobuf import json_format, struct_pb2, timestamp_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.formats.confluent import (
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
)
from penstock.datastream.formats.protobuf import (
    ProtobufDeserializationSchema,
    ProtobufSerializationSchema,
)
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from tests.builders.examples import examples
from tests.builders.protobuf_messages import descriptor_set, message_class
from tests.builders.schema_registry import registry_server

ORDER = message_class()
SET = descriptor_set().SerializeToString()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ADDRESS = st.fixed_dictionaries({"city": TEXT})
STATE = st.sampled_from(["NEW", "PAID", "SENT"])
PLAIN = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "name": st.none() | TEXT,
    "count": st.integers(0, 2**32 - 1),
    "big": st.integers(0, 2**64 - 1),
    "price": st.floats(allow_nan=False, allow_infinity=False),
    "share": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "paid": st.booleans(),
    "data": st.binary(max_size=5),
    "state": STATE,
    "tags": st.lists(TEXT, max_size=3),
    "to": st.none() | ADDRESS,
    "stops": st.lists(ADDRESS, max_size=2),
    "at": st.none()
    | st.fixed_dictionaries(
        {"seconds": st.integers(-62135596800, 253402300799), "nanos": st.integers(0, 999999999)}
    ),
    "states": st.lists(STATE, max_size=2),
    "parts": st.dictionaries(TEXT, st.integers(-9, 9), max_size=2),
    "places": st.dictionaries(TEXT, ADDRESS, max_size=2),
}
ORDERS = st.fixed_dictionaries(PLAIN).flatmap(
    lambda order: st.sampled_from(
        [{"card": None, "cash": None}, {"card": "c", "cash": None}, {"card": None, "cash": 0}]
    ).map(lambda pay: {**order, **pay})
)


def with_before(order, before):
    return {**order, "before": None if before is None else {**before, "before": None}}


NESTED = st.builds(with_before, ORDERS, st.none() | ORDERS)


def as_json(order):
    """An order in the form that Protobuf's JSON mapping reads."""
    out = {key: value for key, value in order.items() if value is not None}
    out["data"] = base64.b64encode(order["data"]).decode()
    if order["at"] is not None:
        stamp = timestamp_pb2.Timestamp(**order["at"])
        out["at"] = stamp.ToJsonString()
    if order["before"] is not None:
        out["before"] = as_json(order["before"])
    return out


@given(NESTED)
def test_a_dict_is_written_as_protobufs_own_json_mapping_writes_it(order):
    ours = ORDER.FromString(ProtobufSerializationSchema(ORDER).serialize(order))
    assert ours == json_format.ParseDict(as_json(order), ORDER())


@given(NESTED)
def test_roundtrip_is_exact(order):
    data = ProtobufSerializationSchema(ORDER).serialize(order)
    as_dicts = ProtobufDeserializationSchema(ORDER, target="dict").deserialize(data)
    assert as_dicts == order
    row = ProtobufDeserializationSchema(ORDER).deserialize(data)
    assert row.as_dict(recursive=True) == {**order, **containers(row)}
    assert ProtobufSerializationSchema(ORDER).serialize(row) == data
    message = ProtobufDeserializationSchema(ORDER, target="message").deserialize(data)
    assert ProtobufSerializationSchema(ORDER).serialize(message) == data


def containers(row):
    """Maps of rows, which as_dict leaves as they are, at the depth of two."""
    return {
        name: {key: item.as_dict() if isinstance(item, Row) else item for key, item in row[name].items()}
        for name in ("parts", "places")
    } | (
        {}
        if row.before is None
        else {"before": {**row.before.as_dict(recursive=True), **containers(row.before)}}
    )  # fmt: skip


def test_a_type_may_come_from_a_descriptor_set(tmp_path):
    path = tmp_path / "shop.desc"
    path.write_bytes(
        SET
    )  # without google's own files, as protoc writes it without --include_imports
    for given_set in (SET, path, str(path)):
        write = ProtobufSerializationSchema.for_descriptor_set(given_set, "shop.Order")
        read = ProtobufDeserializationSchema.for_descriptor_set(given_set, "shop.Order")
        data = pickle.loads(pickle.dumps(write)).serialize({"id": 7, "at": {"seconds": 5}})
        row = pickle.loads(pickle.dumps(read)).deserialize(data)
        assert (row.id, row.at, row.name, row.state) == (7, Row(seconds=5, nanos=0), None, "NEW")


def test_a_class_without_a_module_survives_pickling_and_one_with_a_module_stays_itself():
    data = pickle.loads(pickle.dumps(ProtobufSerializationSchema(ORDER))).serialize({"id": 7})
    assert (
        pickle.loads(pickle.dumps(ProtobufDeserializationSchema(ORDER))).deserialize(data).id == 7
    )
    read = ProtobufDeserializationSchema(timestamp_pb2.Timestamp, target="message")
    found = pickle.loads(pickle.dumps(read)).deserialize(b"\x08\x05")
    assert isinstance(found, timestamp_pb2.Timestamp)


def test_a_row_type_chooses_fields_and_numbers_of_enums():
    kind = Types.ROW_NAMED(
        ["state", "id", "states"], [Types.INT(), Types.LONG(), Types.LIST(Types.INT())]
    )
    data = ProtobufSerializationSchema(ORDER).serialize(
        {"id": 7, "state": "SENT", "states": ["PAID"]}
    )
    read = ProtobufDeserializationSchema(ORDER, type_info=kind)
    assert read.deserialize(data) == Row(state=2, id=7, states=[1])
    assert read.get_produced_type() == kind
    assert ProtobufSerializationSchema(ORDER, type_info=kind).serialize((2, 7, [1])) == data


def test_defaults_are_read_where_that_is_asked_for():
    read = ProtobufDeserializationSchema(ORDER, read_default_values=True)
    row = read.deserialize(b"")
    assert (row.name, row.cash, row.to, row.tags, row.parts) == ("", 0, None, [], {})


def test_a_number_of_an_enum_without_a_name_is_kept():
    message = ORDER(state=17)
    row = ProtobufDeserializationSchema(ORDER).deserialize(message.SerializeToString())
    assert row.state == "17"
    assert ProtobufSerializationSchema(ORDER).serialize(row) == message.SerializeToString()


def test_types_that_contain_each_other_are_read():
    value = struct_pb2.Struct()
    value.update({"a": [1.5, {"b": None}]})
    data = value.SerializeToString(deterministic=True)
    found = ProtobufDeserializationSchema(struct_pb2.Struct, target="dict").deserialize(data)
    assert ProtobufSerializationSchema(struct_pb2.Struct).serialize(found) == data


BAD = {"cut": b"\x12\x05ab", "no field": b"\xff\xff", "no text": b"\x12\x01\xff", "group": b"\x0b"}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_one_malformed_message_is_reported_alone_wherever_it_stands(bad):
    read = ProtobufDeserializationSchema(ORDER)
    good = ProtobufSerializationSchema(ORDER).serialize_batch([{"id": i} for i in range(4)])
    for at in range(5):
        found = read.deserialize_batch([*good[:at], bad, *good[at:], None])
        assert [row.id for row in found.records] == [0, 1, 2, 3]
        [(index, error)] = found.failures
        assert index == at
        assert isinstance(error, RecordError)
        assert "shop.Order" in str(error)
    ignoring = ProtobufDeserializationSchema(ORDER, ignore_parse_errors=True)
    assert ignoring.deserialize_batch([bad, good[1]]).indexes == [1]


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ({"id": "x"}, "field 'id'"), ({"id": 2**63}, "field 'id'"), ({"count": -1}, "field 'count'"), ({"state": "GONE"}, "has no value 'GONE'"),
        ({"unknown": 1}, "has no field 'unknown'"), ({"tags": [None]}, "cannot contain None"), ({"parts": {"a": None}}, "cannot contain None"),
        ({"to": {"city": 5}}, "field 'to': field 'city'"), (timestamp_pb2.Timestamp(), "it is a google.protobuf.Timestamp"), (5, "does not match"),
    ],
)  # fmt: skip
def test_a_record_that_does_not_fit_is_named(record, match):
    with pytest.raises(RecordError, match=match):
        ProtobufSerializationSchema(ORDER).serialize(record)


@pytest.mark.parametrize(
    ("act", "match"),
    [
        (lambda: ProtobufDeserializationSchema(Row), "not a Protobuf message class"),
        (lambda: ProtobufDeserializationSchema(ORDER, target="json"), "unknown target"),
        (lambda: ProtobufDeserializationSchema(ORDER, type_info={"x": int}), "no field 'x'"),
        (lambda: ProtobufDeserializationSchema(ORDER, type_info={"id": str}), "'id' of shop.Order is not a STRING"),
        (lambda: ProtobufDeserializationSchema(ORDER, type_info={"to": {"street": str}}), "no field 'street'"),
        (lambda: ProtobufSerializationSchema.for_descriptor_set(SET, "shop.Nothing"), "no message 'shop.Nothing'"),
        (lambda: ProtobufSerializationSchema.for_descriptor_set(b"\xff", "shop.Order"), "cannot read the descriptor set"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected_at_once(act, match):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=match):
        act()


# Confluent's wire format


@pytest.fixture(scope="module")
def server():
    with registry_server() as running:
        yield running


def peers(server, kind):
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    where = SerializationContext("orders", MessageField.VALUE)
    conf = {"use.deprecated.format": False}
    client = SchemaRegistryClient({"url": server.url})
    write, read = ProtobufSerializer(kind, client, conf), ProtobufDeserializer(kind, conf, client)
    return lambda message: write(message, where), lambda data: read(data, where)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=examples(30),
)
@given(NESTED)
def test_confluents_serialisers_and_ours_read_each_other(server, order):
    write, read = peers(server, ORDER)
    ours = ConfluentRegistryProtobufSerializationSchema(
        "orders-value", ProtobufSerializationSchema(ORDER), server.url
    )
    message = json_format.ParseDict(as_json(order), ORDER())
    theirs = write(message)
    mine = ours.serialize(order)
    assert mine[:7] == theirs[:7]  # the same schema, and the same path
    assert read(mine) == message
    back = ConfluentRegistryProtobufDeserializationSchema(
        ProtobufDeserializationSchema(ORDER, target="dict")
    )
    assert back.deserialize_batch([theirs, mine]).records == [order, order]


@pytest.mark.parametrize("name", ["shop.First", "shop.Order", "shop.First.Outer.Inner"])
def test_the_path_to_a_message_is_confluents(server, name):
    kind = message_class(name)
    write, read = peers(server, kind)
    ours = ConfluentRegistryProtobufSerializationSchema(
        "orders-value", ProtobufSerializationSchema(kind), server.url
    )
    data = pickle.loads(pickle.dumps(ours)).serialize({})
    assert data == write(kind())
    assert read(data) == kind()


def test_imports_are_registered_and_referred_to():
    with registry_server() as server:
        schema = ProtobufSerializationSchema(ORDER)
        unregistered = ConfluentRegistryProtobufSerializationSchema(
            "orders-value", schema, server.url, register=False
        )
        with pytest.raises(Exception, match="not found"):
            unregistered.serialize({})
        ConfluentRegistryProtobufSerializationSchema("orders-value", schema, server.url).serialize(
            {}
        )
        assert set(server.subjects) == {"shop/address.proto", "orders-value"}
        used = server.version("orders-value", "latest")["references"]
        assert used == [
            {"name": "shop/address.proto", "subject": "shop/address.proto", "version": 1}
        ]
        assert unregistered.serialize({})


@pytest.mark.parametrize(
    "bad", [b"", b"\0\0\0\0\1", b"\1\0\0\0\1\0", b"\0\0\0\0\1\x7f\x80", b"\0\0\0\0\1" + b"\xff" * 12, b"\0\0\0\0\1\0\x12\x05a"]
)  # fmt: skip
def test_one_malformed_message_behind_the_header_is_reported_alone(bad):
    read = ConfluentRegistryProtobufDeserializationSchema(ProtobufDeserializationSchema(ORDER))
    found = read.deserialize_batch([b"\0\0\0\0\1\0\x08\x07", bad, b"\0\0\0\0\1\0"])
    assert [row.id for row in found.records] == [7, 0]
    [(index, error)] = found.failures
    assert index == 1
    assert isinstance(error, RecordError)
