"""Settings of a Kafka source are checked when they are set, and mean the same as in Flink."""

from __future__ import annotations

import pickle

import pytest

from penstock.common import SimpleStringSchema
from penstock.connectors.base.source import Boundedness
from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy as Strategy
from penstock.connectors.kafka.source_options import source_options
from penstock.connectors.kafka.subscription import Subscription
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
)
from penstock.errors import ConfigurationError, InvalidProgramError, PenstockError

SERVERS = {"bootstrap.servers": "broker:9092"}


def builder():
    built = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topics("a")
    return built.set_value_only_deserializer(SimpleStringSchema())


@pytest.mark.parametrize(
    "call",
    [
        lambda: builder().set_bootstrap_servers(5),
        lambda: builder().set_bootstrap_servers(" "),
        lambda: builder().set_group_id(None),
        lambda: KafkaSource.builder().set_topics(),
        lambda: KafkaSource.builder().set_topics("a", 5),
        lambda: KafkaSource.builder().set_topic_pattern("("),
        lambda: KafkaSource.builder().set_partitions({("a", 1)}),
        lambda: KafkaSource.builder().set_partitions(set()),
        lambda: builder().set_starting_offsets("earliest"),
        lambda: builder().set_bounded(None),
        lambda: builder().set_unbounded(5),
        lambda: builder().set_client_id_prefix(""),
        lambda: builder().set_property(5, "a"),
        lambda: builder().set_properties([("a", "b")]),
        lambda: builder().set_value_only_deserializer(bytes.decode),
        lambda: builder().set_deserializer(SimpleStringSchema()),
        lambda: KafkaRecordDeserializationSchema.of("no function"),
        lambda: KafkaTopicPartition("a", -1),
        lambda: KafkaTopicPartition("", 1),
        lambda: KafkaOffsetsInitializer.timestamp(-1),
        lambda: KafkaOffsetsInitializer.timestamp("now"),
        lambda: KafkaOffsetsInitializer.committed_offsets("latest"),
        lambda: KafkaOffsetsInitializer.offsets({"a": 1}),
        lambda: KafkaOffsetsInitializer.offsets({KafkaTopicPartition("a", 0): -5}),
        lambda: KafkaSource(None),
        lambda: FlinkKafkaConsumer("a", None, SERVERS),
        lambda: builder().set_property("partition.discovery.interval.ms", "often").build(),
        lambda: builder().set_property("commit.offsets.on.checkpoint", "yes").build(),
        lambda: builder().set_property("bootstrap.timeout.ms", "0").build(),
        lambda: builder().set_property("auto.offset.reset", "middle").build(),
    ],
)
def test_invalid_arguments_are_rejected_at_once(call):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert isinstance(caught.value, PenstockError)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KafkaSource.builder().build(), "no bootstrap servers"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("a:1").build(), "no topics"),
        (
            lambda: KafkaSource.builder().set_bootstrap_servers("a:1").set_topics("a").build(),
            "no deserializer",
        ),
        (lambda: builder().set_topic_pattern("b.*"), "already reads a"),
        (
            lambda: (
                builder().set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build()
            ),
            "consumer group, and the source has none",
        ),
    ],
)
def test_missing_settings_are_named_in_the_error(build, message):
    with pytest.raises(InvalidProgramError, match=message):
        build()


def test_a_property_that_no_client_knows_is_refused_by_name():
    with pytest.raises(ConfigurationError) as caught:
        builder().set_property("no.such.property", "1").build()
    assert "no.such.property" in str(caught.value)


def test_properties_of_the_java_client_and_of_librdkafka_become_one_configuration():
    options = source_options(
        {
            **SERVERS,
            "group.id": "g",
            "client.id.prefix": "mine",
            "fetch.max.wait.ms": "7",
            "queued.min.messages": "50",
            "max.partition.fetch.bytes": "1000",
            "enable.auto.commit": "true",
            "key.deserializer": "org.apache.kafka.StringDeserializer",
            "max.poll.records": "100",
            "partition.discovery.interval.ms": "-1",
            "auto.offset.reset": "earliest",
        }
    )
    configuration = options.consumer
    assert configuration["fetch.wait.max.ms"] == "7"
    assert configuration["queued.min.messages"] == "50"
    assert configuration["max.partition.fetch.bytes"] == "1000"
    assert "fetch.message.max.bytes" not in configuration
    assert configuration["enable.auto.commit"] == "false"
    assert configuration["auto.offset.reset"] == "error"
    assert not {"key.deserializer", "max.poll.records", "client.id.prefix"} & set(configuration)
    assert (options.discovery_ms, options.reset, options.client_id) == (
        None,
        Strategy.EARLIEST,
        "mine",
    )


def test_defaults_are_those_of_flink():
    options = source_options(SERVERS)
    assert options.discovery_ms == 300_000
    assert not options.committed_only
    assert not options.commits  # there is no group
    assert source_options({**SERVERS, "group.id": "g"}).commits
    assert options.reset is Strategy.NONE
    assert builder().build().get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    bounded = builder().set_bounded(KafkaOffsetsInitializer.latest()).build()
    assert bounded.get_boundedness() is Boundedness.BOUNDED
    stops = builder().set_unbounded(KafkaOffsetsInitializer.latest()).build()
    assert stops.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED


def test_passwords_are_for_all_clients_and_in_no_text():
    options = source_options(
        {
            **SERVERS,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="secret";',
        }
    )
    assert options.consumer["sasl.password"] == "secret"
    assert options.admin()["sasl.password"] == "secret"
    assert "group.id" not in options.admin()
    assert "secret" not in repr(options)


def test_a_source_pickles_and_tells_the_type_of_its_records():
    source = pickle.loads(pickle.dumps(builder().build()))
    assert repr(source) == "KafkaSource(a at broker:9092)"
    assert source.get_produced_type() == SimpleStringSchema().get_produced_type()


class Lookup:
    """Partitions 0 and 1 of a topic, with offsets 10 to 20 each; the group knows of the first."""

    def __init__(self, group_id="g", committed=15):
        self.group_id = group_id
        self._committed = {FIRST: committed}

    def earliest(self, partitions):
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions):
        return dict.fromkeys(partitions, 20)

    def at(self, partitions, timestamp):
        return {FIRST: 17} if timestamp < 100 and FIRST in partitions else {}

    def committed(self, partitions):
        return {each: self._committed[each] for each in partitions if each in self._committed}


FIRST, SECOND = KafkaTopicPartition("a", 0), KafkaTopicPartition("a", 1)


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), (10, 10)),
        (KafkaOffsetsInitializer.latest(), (20, 20)),
        (KafkaOffsetsInitializer.timestamp(50), (17, 20)),
        (KafkaOffsetsInitializer.timestamp(500), (20, 20)),
        (KafkaOffsetsInitializer.committed_offsets(Strategy.EARLIEST), (15, 10)),
        (KafkaOffsetsInitializer.committed_offsets(Strategy.LATEST), (15, 20)),
        (KafkaOffsetsInitializer.offsets({FIRST: 12, SECOND: 20}), (12, 20)),
        (KafkaOffsetsInitializer.offsets({SECOND: 13}), (15, 13)),
        (KafkaOffsetsInitializer.offsets({FIRST: 12}, Strategy.LATEST), (12, 20)),
        (KafkaOffsetsInitializer.offsets({FIRST: 9, SECOND: 21}, Strategy.LATEST), (20, 20)),
        (KafkaOffsetsInitializer.offsets({FIRST: 9, SECOND: 21}), (10, 10)),
    ],
)
def test_offsets_are_looked_up_as_the_program_says(initializer, expected):
    found = initializer.resolve([FIRST, SECOND], Lookup())
    assert (found[FIRST], found[SECOND]) == expected


def test_offsets_without_a_strategy_must_be_there():
    committed = KafkaOffsetsInitializer.committed_offsets()
    with pytest.raises(PenstockError, match="group 'g' has no offset for a-1"):
        committed.resolve([FIRST, SECOND], Lookup())
    with pytest.raises(PenstockError, match="offset 5 of a-0 is out of range") as caught:
        committed.resolve([FIRST], Lookup(committed=5))
    assert "offsets 10 to 20" in caught.value.detail


def test_partitions_are_those_that_were_asked_for():
    cluster = {"a": 2, "ab": 1, "__internal": 1}
    assert Subscription(topics=("a",)).select(cluster, "s") == {FIRST, SECOND}
    assert Subscription(partitions=frozenset({SECOND})).select(cluster, "s") == {SECOND}
    assert Subscription(pattern="a|__.*").select(cluster, "s") == {FIRST, SECOND}
    with pytest.raises(PenstockError, match="topic 'c' does not exist") as caught:
        Subscription(topics=("a", "c")).select(cluster, "broker:9092")
    assert "broker:9092" in caught.value.detail
    with pytest.raises(PenstockError, match="has no partition 7"):
        Subscription(partitions=frozenset({KafkaTopicPartition("a", 7)})).select(cluster, "s")


def test_the_old_consumer_has_the_same_settings():
    properties = {**SERVERS, "group.id": "g", "flink.partition-discovery.interval-millis": "50"}
    consumer = FlinkKafkaConsumer(["a", "b"], SimpleStringSchema(), properties)
    assert consumer.set_start_from_earliest() is consumer
    assert consumer.set_start_from_latest() is consumer
    assert consumer.set_start_from_timestamp(5) is consumer
    assert consumer.set_start_from_group_offsets() is consumer
    assert consumer.set_commit_offsets_on_checkpoints(False) is consumer
    assert consumer.disable_filter_restored_partitions_with_subscribed_topics() is consumer
    assert consumer.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert consumer.get_produced_type() == SimpleStringSchema().get_produced_type()
    pickle.loads(pickle.dumps(consumer)).create_reader()


def test_a_record_has_all_that_kafka_knows():
    record = KafkaRecord(b"k", None, [], "a", 0, 5, 1000)
    assert (record.key, record.value, record.offset, record.timestamp) == (b"k", None, 5, 1000)
