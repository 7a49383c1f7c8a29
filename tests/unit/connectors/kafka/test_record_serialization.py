"""Records become messages."""

from __future__ import annotations

import pytest

from penstock.common import Row
from penstock.common.serialization import (
    ByteArraySchema,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.datastream.connectors.kafka import (
    FlinkFixedPartitioner,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaTopicSelector,
)
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError


def built(*calls, value=None):
    builder = KafkaRecordSerializationSchema.builder()
    builder.set_value_serialization_schema(value or SimpleStringSchema())
    for name, *arguments in calls:
        assert getattr(builder, name)(*arguments) is builder
    return builder.build()


def messages(schema, records, timestamps=None, partitions=4):
    return schema.to_messages(records, timestamps, lambda topic: partitions)


def test_values_go_to_the_topic():
    found = messages(built(("set_topic", "a")), ["x", "y"])
    assert (found.topic, found.values) == ("a", [b"x", b"y"])
    assert found.keys is found.partitions is found.timestamps is found.headers is None


class ByFirstLetter(KafkaTopicSelector):
    def apply(self, data):
        return f"topic-{data[0]}"


@pytest.mark.parametrize("selector", [ByFirstLetter(), lambda data: f"topic-{data[0]}"])
def test_a_selector_chooses_topics(selector):
    found = messages(built(("set_topic_selector", selector)), ["xa", "yb"])
    assert found.topic == ["topic-x", "topic-y"]


def test_a_selector_that_returns_no_topic_is_named():
    with pytest.raises(RecordError, match="topic selector returned None"):
        messages(built(("set_topic_selector", lambda data: None)), ["x"])


def test_keys_are_made_by_a_schema_of_the_record():
    schema = built(
        ("set_topic", "a"),
        ("set_key_serialization_schema", RowFieldExtractorSchema(0)),
        value=RowFieldExtractorSchema(1),
    )
    found = messages(schema, [Row(b"k", b"v")])
    assert (found.keys, found.values) == ([b"k"], [b"v"])


@pytest.mark.parametrize(
    ("field", "record", "key"),
    [
        ("id", Row(id=5, name="a"), b"5"),
        ("id", {"id": "five"}, b"five"),
        (1, (0, b"raw"), b"raw"),
        ("imag", 3j, b"3.0"),
        ("id", {"id": None}, None),
    ],
)
def test_keys_are_taken_from_a_field(field, record, key):
    schema = built(("set_topic", "a"), ("set_key_field", field), value=AsText())
    assert messages(schema, [record]).keys == [key]


class AsText(SerializationSchema):
    def serialize(self, value):
        return str(value).encode()


def test_a_key_field_may_have_a_schema_of_its_own():
    schema = built(
        ("set_topic", "a"),
        ("set_key_field", 0),
        ("set_key_serialization_schema", AsText()),
        value=AsText(),
    )
    assert messages(schema, [((1, 2), "x"), (None, "y")]).keys == [b"(1, 2)", None]


@pytest.mark.parametrize(("field", "record"), [("id", {"x": 1}), (4, (1, 2)), ("id", "text")])
def test_a_record_without_the_key_field_is_named(field, record):
    schema = built(("set_topic", "a"), ("set_key_field", field), value=AsText())
    with pytest.raises(RecordError, match="has no key field"):
        messages(schema, [record])


def test_timestamps_of_records_are_those_of_messages():
    schema = built(("set_topic", "a"))
    assert messages(schema, ["x", "y", "z"], [5, None, -9]).timestamps == [5, 0, 0]
    silent = built(("set_topic", "a"), ("set_write_timestamps", False))
    assert messages(silent, ["x"], [5]).timestamps is None


def test_headers_are_pairs():
    schema = built(
        ("set_topic", "a"),
        ("set_headers", lambda data: {"kind": data, "raw": b"1"} if data != "none" else None),
    )
    found = messages(schema, ["x", "none"])
    assert found.headers == [[("kind", "x"), ("raw", b"1")], None]


def test_invalid_header_is_named_in_the_error():
    schema = built(("set_topic", "a"), ("set_headers", lambda data: {"kind": 5}))
    with pytest.raises(RecordError, match="'kind': 5"):
        messages(schema, ["x"])


def test_tombstones_have_a_key_and_no_value():
    schema = built(
        ("set_topic", "a"),
        ("set_key_field", 0),
        ("set_tombstones", lambda record: record[1] is None),
        value=AsText(),
    )
    found = messages(schema, [("k", 1), ("k", None)])
    assert found.values == [b"('k', 1)", None]


def test_a_function_chooses_partitions():
    schema = built(
        ("set_topic", "a"), ("set_partitioner", lambda record, key, count: len(record) % count)
    )
    assert messages(schema, ["x", "yy", "vwxyz"]).partitions == [1, 2, 1]


class Reversed(KafkaPartitioner):
    def open(self, subtask, parallelism):
        self.offset = parallelism - subtask

    def partition(self, record, key, value, topic, partitions):
        return (len(value) + self.offset) % partitions


def test_a_partitioner_knows_its_subtask():
    schema = built(("set_topic", "a"), ("set_partitioner", Reversed()))
    schema.open(1, 3)
    assert messages(schema, ["x"]).partitions == [3]
    fixed = built(("set_topic", "a"), ("set_partitioner", FlinkFixedPartitioner()))
    fixed.open(5, 8)
    assert messages(fixed, ["x", "y"]).partitions == [1, 1]


@pytest.mark.parametrize("wrong", [-1, 4, "a", None])
def test_a_partition_that_the_topic_does_not_have_is_named(wrong):
    schema = built(("set_topic", "a"), ("set_partitioner", lambda *_: wrong))
    with pytest.raises(RecordError, match="partitioner returned"):
        messages(schema, ["x"])


@pytest.mark.parametrize(
    ("name", "argument", "error"),
    [
        ("set_topic", 5, ArgumentTypeError),
        ("set_topic", "", ArgumentError),
        ("set_topic", "a b", ArgumentError),
        ("set_topic", "..", ArgumentError),
        ("set_topic", "x" * 250, ArgumentError),
        ("set_topic_selector", "topic", ArgumentTypeError),
        ("set_topic_selector", ByFirstLetter, ArgumentTypeError),
        ("set_key_serialization_schema", str, ArgumentTypeError),
        ("set_value_serialization_schema", None, ArgumentTypeError),
        ("set_key_field", 1.5, ArgumentTypeError),
        ("set_key_field", True, ArgumentTypeError),
        ("set_partitioner", 3, ArgumentTypeError),
        ("set_headers", {"a": "b"}, ArgumentTypeError),
        ("set_tombstones", None, ArgumentTypeError),
        ("set_write_timestamps", "no", ArgumentTypeError),
    ],
)
def test_arguments_are_checked_at_once(name, argument, error):
    with pytest.raises(error):
        getattr(KafkaRecordSerializationSchema.builder(), name)(argument)


def test_missing_settings_are_named_in_the_error():
    builder = KafkaRecordSerializationSchema.builder()
    with pytest.raises(ArgumentError, match="no topic"):
        builder.build()
    builder.set_topic("a")
    with pytest.raises(ArgumentError, match="value serialization schema"):
        builder.build()
    builder.set_value_serialization_schema(ByteArraySchema()).set_tombstones(lambda record: False)
    with pytest.raises(ArgumentError, match="tombstones need keys"):
        builder.build()
    with pytest.raises(ArgumentError, match="already set"):
        builder.set_topic("b")
