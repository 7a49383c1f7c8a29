"""Confluent's wire format and registry, with Confluent's own serialisers as the other side."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.common.types import Row
from penstock.connectors.base import retrying
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.formats.avro.schema import AvroSchema
from penstock.formats.confluent import registry as registry_module
from penstock.formats.confluent.messages import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    ConfluentRegistryJsonDeserializationSchema,
    ConfluentRegistryJsonSerializationSchema,
    schema_id_of,
    wire_header,
)
from penstock.formats.confluent.registry import (
    RegisteredSchema,
    SchemaReference,
    SchemaRegistry,
    SchemaRegistryError,
    SubjectNameStrategy,
)
from penstock.formats.json.values import JsonDeserializationSchema, JsonSerializationSchema
from tests.builders.schema_registry import RegistryServer, registry_server


def record(*fields, name="Order"):
    parsed = [{"name": n, "type": t, **(more[0] if more else {})} for n, t, *more in fields]
    return AvroSchema({"type": "record", "name": name, "namespace": "shop", "fields": parsed})


V1 = record(("id", "long"), ("name", "string"))
V2 = record(("id", "long"), ("name", "string"), ("note", ["null", "string"], {"default": None}))
V3 = record(("id", "long"), ("price", "double"))  # nothing that V1 wrote has a price
RICH = record(
    ("id", "long"),
    ("name", ["null", "string"]),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("tags", {"type": "array", "items": "string"}),
    ("parts", {"type": "map", "values": "double"}),
)


@pytest.fixture
def server():
    with registry_server() as running:
        yield running


@pytest.fixture(scope="module")
def shared():
    with registry_server() as running:
        yield running


def peer(url):
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": url})


def context(topic="orders"):
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext(topic, MessageField.VALUE)


def reading(server, schema=None, **options):
    registry = SchemaRegistry(server.url, **options)
    return ConfluentRegistryAvroDeserializationSchema.for_generic(schema, registry)


def writing(server, schema, subject="orders-value", **options):
    registry = SchemaRegistry(server.url, patience=0)
    return ConfluentRegistryAvroSerializationSchema.for_generic(
        subject, schema, registry, **options
    )


RECORDS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "price": st.decimals(-(10**9), 10**9, places=2),
        "at": st.datetimes(
            dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC)
        ),
        "tags": st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=3),
        "parts": st.dictionaries(
            st.sampled_from("ab"), st.floats(allow_nan=False, allow_infinity=False), max_size=2
        ),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(RECORDS)
def test_confluents_serialisers_and_ours_read_each_other(shared, value):
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    client = peer(shared.url)
    theirs = AvroSerializer(client, str(RICH))(value, context())
    ours = writing(shared, RICH).serialize(value)
    assert ours == theirs
    assert reading(shared).deserialize(theirs) == value
    assert AvroDeserializer(client)(ours, context()) == value


def test_rows_are_written_and_read(server):
    row = Row(
        id=7, name="a", price=Decimal("1.50"), at=dt.datetime(2024, 3, 1), tags=["x"], parts={}
    )
    message = pickle.loads(pickle.dumps(writing(server, RICH))).serialize(row)
    read = ConfluentRegistryAvroDeserializationSchema.for_row(RICH, server.url)
    assert pickle.loads(pickle.dumps(read)).deserialize(message) == row


def test_an_older_writer_is_read_with_the_readers_defaults_and_a_newer_one_without_its_news(server):
    old = writing(server, V1).serialize({"id": 1, "name": "a"})
    new = writing(server, V2).serialize({"id": 2, "name": "b", "note": "n"})
    assert schema_id_of(old) != schema_id_of(new)
    found = reading(server, V2).deserialize_batch([old, new])
    assert found.records == [
        {"id": 1, "name": "a", "note": None},
        {"id": 2, "name": "b", "note": "n"},
    ]
    assert reading(server, V1).deserialize(new) == {"id": 2, "name": "b"}
    assert reading(server).deserialize(old) == {"id": 1, "name": "a"}


def test_a_writer_that_the_reader_cannot_follow_is_the_messages_fault(server):
    old = writing(server, V1).serialize({"id": 1, "name": "a"})
    good = writing(server, V3, "others-value").serialize({"id": 2, "price": 0.5})
    found = reading(server, V3).deserialize_batch([old, good])
    assert found.records == [{"id": 2, "price": 0.5}]
    [(index, error)] = found.failures
    assert index == 0
    assert "check that the writer's schema is compatible with the reader's" in str(error)


def test_an_incompatible_schema_is_refused_with_subject_and_hint(server):
    writing(server, V1).serialize({"id": 1, "name": "a"})
    with pytest.raises(SchemaRegistryError, match="incompatible with an earlier schema") as caught:
        writing(server, V3).serialize({"id": 1, "price": 0.5})
    assert caught.value.status == 409
    assert "subject 'orders-value'" in str(caught.value)
    assert "compatibility level" in str(caught.value)


def test_each_schema_is_asked_for_once(server):
    write = writing(server, V1)
    messages = write.serialize_batch([{"id": i, "name": "a"} for i in range(50)])
    read = reading(server, V1)
    for _ in range(3):
        assert len(read.deserialize_batch(messages).records) == 50
    assert server.requests == [
        ("POST", "/subjects/orders-value/versions"),
        ("GET", "/schemas/ids/1"),
    ]


BAD = {
    "empty": b"",
    "short": b"\0\0\0",
    "magic": b"\1\0\0\0\1abc",
    "unknown id": wire_header(999) + b"\2\2a",
    "cut": wire_header(1) + b"\2",
    "not of the schema": wire_header(1) + b"\2\xff\xff\xff\xff\xff\xff",
    "JSON": b'{"id": 1}',
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_one_malformed_message_is_reported_alone_wherever_it_stands(shared, bad):
    good = writing(shared, V1, "alone-value").serialize_batch(
        [{"id": i, "name": "a"} for i in range(4)]
    )
    bad = bad.replace(wire_header(1), good[0][:5])
    read = reading(shared, V1)
    for at in range(5):
        found = read.deserialize_batch([*good[:at], bad, *good[at:]])
        assert [value["id"] for value in found.records] == [0, 1, 2, 3]
        assert [index for index, _ in found.failures] == [at]
        assert isinstance(found.failures[0][1], RecordError)


def test_unknown_schema_id_is_cached(server):
    found = reading(server).deserialize_batch([wire_header(42) + b"x"] * 30)
    assert len(found.failures) == 30
    assert len(server.requests) == 1


def test_a_message_of_another_kind_of_schema_is_malformed(server):
    SchemaRegistry(server.url).register("j", RegisteredSchema('{"type":"object"}', "JSON"))
    with pytest.raises(RecordError, match="has type JSON"):
        reading(server).deserialize(wire_header(1) + b"{}")


def test_a_schema_that_uses_others_is_read_with_them(server):
    registry = SchemaRegistry(server.url)
    address = record(("city", "string"), name="Address")
    registry.register("address", RegisteredSchema(str(address)))
    order = json.dumps(
        {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "to", "type": "shop.Address"}]}
    )  # fmt: skip
    used = SchemaReference("shop.Address", "address", 1)
    number = registry.register("order", RegisteredSchema(order, references=(used,)))
    assert reading(server).deserialize(wire_header(number) + b"\2A") == {"to": {"city": "A"}}


class Pauses:
    """The time of a registry's client: it passes while the client pauses, and only then."""

    def __init__(self):
        self.now = 1000.0
        self.count = 0
        self.during_a_pause = lambda: None

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.count += 1
        self.during_a_pause()


@pytest.fixture
def pauses(monkeypatch):
    pauses = Pauses()
    monkeypatch.setattr(registry_module, "time", pauses)
    monkeypatch.setattr(retrying, "time", pauses)
    return pauses


def test_a_registry_that_fails_for_a_moment_is_asked_again(server, pauses):
    message = writing(server, V1).serialize({"id": 1, "name": "a"})
    server.fail_next = 3
    assert reading(server, patience=20).deserialize(message)["id"] == 1


def test_a_registry_that_is_away_is_waited_for(pauses):
    server = RegistryServer().start()
    message = writing(server, V1).serialize({"id": 1, "name": "a"})
    port = server.port
    server.stop()
    pauses.during_a_pause = lambda: pauses.count == 3 and server.start(port)
    try:
        assert reading(server, patience=20).deserialize(message)["id"] == 1
        assert pauses.count == 3
    finally:
        server.stop()


def test_unavailable_registry_fails_the_batch_not_the_messages(pauses):
    server = RegistryServer().start()
    url = server.url
    server.stop()
    read = ConfluentRegistryAvroDeserializationSchema.for_generic(
        V1, SchemaRegistry(url, patience=3)
    )
    with pytest.raises(SchemaRegistryError, match="did not answer") as caught:
        read.deserialize_batch([wire_header(1) + b"x"])
    assert 1000 < pauses.now <= 1003
    assert pauses.count > 1
    assert url in str(caught.value)
    assert caught.value.status is None


def test_the_second_address_is_asked_when_the_first_is_away(server):
    gone = RegistryServer().start()
    gone.stop()
    registry = SchemaRegistry(f"http://127.0.0.1:{gone_port(gone)}, {server.url}/", patience=0)
    assert registry.register("s", RegisteredSchema('"int"')) == 1


def gone_port(server):
    return server.server.server_address[1]


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ("me:s:cret", {"auth": ("me", "s:cret")}),
        ("me:s:cret", {"auth": "me:s:cret"}),
        ("Bearer abc", {"token": "abc"}),
    ],
    ids=["user", "user info", "token"],
)
def test_users_are_known_by_password_or_token(expected, options):
    with registry_server(auth=expected) as server:
        registry = pickle.loads(pickle.dumps(SchemaRegistry(server.url, **options)))
        assert registry.register("s", RegisteredSchema('"int"')) == 1
        with pytest.raises(SchemaRegistryError, match="Unauthorized") as caught:
            SchemaRegistry(server.url).register("s", RegisteredSchema('"int"'))
        assert caught.value.status == 401


def test_a_password_in_the_url_works_and_is_never_shown():
    with registry_server(auth="me:sec/ret") as server:
        url = server.url.replace("//", "//me:sec%2Fret@")
        registry = SchemaRegistry(url)
        assert registry.register("s", RegisteredSchema('"int"')) == 1
        assert "sec" not in repr(registry)
        with pytest.raises(SchemaRegistryError) as caught:
            registry.lookup("unknown", RegisteredSchema('"int"'))
        assert caught.value.code == 40401
        assert "sec" not in str(caught.value)
    with pytest.raises(ArgumentError) as refused:
        SchemaRegistry("ftp://me:sec@host")
    assert "sec" not in str(refused.value)


def test_settings_may_have_confluents_names():
    with registry_server(auth="me:pw") as server:
        configs = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "me:pw"}
        write = ConfluentRegistryAvroSerializationSchema.for_generic("s", V1, server.url, configs)
        assert write.serialize((1, "a"))[:5] == wire_header(1)


def test_a_schema_may_have_to_be_registered_before(server):
    write = writing(server, V1, register=False)
    with pytest.raises(SchemaRegistryError, match="not found"):
        write.serialize((1, "a"))
    number = SchemaRegistry(server.url).register("orders-value", RegisteredSchema(str(V1)))
    assert schema_id_of(writing(server, V1, register=False).serialize((1, "a"))) == number


def test_json_behind_the_header_is_read_by_confluents_serialisers_and_ours(server):
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

    text = json.dumps(
        {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    )
    client = peer(server.url)
    value = {"id": 7, "more": [1, None]}
    write = ConfluentRegistryJsonSerializationSchema(
        "orders-value", text, JsonSerializationSchema(), server.url
    )
    read = ConfluentRegistryJsonDeserializationSchema(JsonDeserializationSchema())
    ours = pickle.loads(pickle.dumps(write)).serialize(value)
    theirs = JSONSerializer(text, client)(value, context())
    assert ours[:5] == theirs[:5]
    assert JSONDeserializer(text)(ours, context()) == value
    found = read.deserialize_batch([theirs, b"{}", ours, None])
    assert found.records == [value, value]
    assert [index for index, _ in found.failures] == [1]


def test_a_record_that_does_not_fit_is_named(server):
    with pytest.raises(RecordError, match="does not match the Avro schema"):
        writing(server, V1).serialize_batch([(1, "a"), ("x", "a")])


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda: SchemaRegistry("localhost:8081"), ArgumentError),
        (lambda: SchemaRegistry([]), ArgumentError),
        (lambda: SchemaRegistry("http://h", auth="me"), ArgumentError),
        (lambda: SchemaRegistry("http://h", auth=("a", "b"), token="c"), ArgumentError),
        (lambda: SchemaRegistry("http://h", timeout=0), ArgumentError),
        (lambda: SchemaRegistry.of(5), ArgumentTypeError),
        (lambda: SchemaRegistry.of("http://h", {"basic.user": "x"}), ArgumentError),
        (lambda: SchemaRegistry.of(SchemaRegistry("http://h"), {"a": "b"}), ArgumentError),
        (lambda: SubjectNameStrategy.TOPIC_NAME.subject(record="r"), ArgumentError),
        (lambda: SubjectNameStrategy.RECORD_NAME.subject(topic="t"), ArgumentError),
        (
            lambda: ConfluentRegistryAvroSerializationSchema.for_generic("", V1, "http://h"),
            ArgumentTypeError,
        ),
        (
            lambda: ConfluentRegistryAvroDeserializationSchema.for_generic("{}", "http://h"),
            ArgumentTypeError,
        ),
        (lambda: ConfluentRegistryJsonDeserializationSchema(str), ArgumentTypeError),
        (
            lambda: ConfluentRegistryJsonSerializationSchema(
                "s", "{", JsonSerializationSchema(), "http://h"
            ),
            ArgumentError,
        ),
        (
            lambda: ConfluentRegistryJsonSerializationSchema("s", "{}", str, "http://h"),
            ArgumentTypeError,
        ),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected_at_once(act, error):
    with pytest.raises(error):
        act()


@pytest.mark.parametrize("is_key", [False, True])
@pytest.mark.parametrize("strategy", SubjectNameStrategy)
def test_subjects_have_the_names_that_confluents_serialisers_give_them(strategy, is_key):
    from confluent_kafka.schema_registry import (
        record_subject_name_strategy,
        topic_record_subject_name_strategy,
        topic_subject_name_strategy,
    )
    from confluent_kafka.serialization import MessageField, SerializationContext

    theirs = {
        "TopicNameStrategy": topic_subject_name_strategy,
        "RecordNameStrategy": record_subject_name_strategy,
        "TopicRecordNameStrategy": topic_record_subject_name_strategy,
    }[strategy.value]
    where = SerializationContext("orders", MessageField.KEY if is_key else MessageField.VALUE)
    ours = strategy.subject(topic="orders", record="shop.Order", is_key=is_key)
    assert ours == theirs(where, "shop.Order")
