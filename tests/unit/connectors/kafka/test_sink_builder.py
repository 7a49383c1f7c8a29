"""KafkaSink and FlinkKafkaProducer are checked when they are built."""

from __future__ import annotations

import pickle

import cloudpickle
import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.base.sink import CommitterContext
from penstock.connectors.kafka.client_properties import protocol_configuration
from penstock.connectors.kafka.committer import KafkaCommitter
from penstock.connectors.kafka.producer import producer_configuration
from penstock.connectors.kafka.transactions import Transactions
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    Semantic,
)
from penstock.errors import ArgumentError, ArgumentTypeError, ConfigurationError

pytest.importorskip("confluent_kafka")


def serializer():
    builder = KafkaRecordSerializationSchema.builder().set_topic("orders")
    return builder.set_value_serialization_schema(SimpleStringSchema()).build()


def ready():
    builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092, other:9093")
    return builder.set_record_serializer(serializer())


def test_a_sink_can_be_sent_to_tasks():
    sink = ready().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    assert isinstance(pickle.loads(cloudpickle.dumps(sink)), KafkaSink)


@pytest.mark.parametrize(
    ("guarantee", "commits"),
    [
        (DeliveryGuarantee.NONE, False),
        (DeliveryGuarantee.AT_LEAST_ONCE, False),
        (DeliveryGuarantee.EXACTLY_ONCE, True),
    ],
)
def test_only_transactions_are_committed(guarantee, commits):
    sink = ready().set_delivery_guarantee(guarantee).build()
    assert (sink.create_committer() is not None) == commits


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("set_bootstrap_servers", [5], ArgumentTypeError),
        ("set_bootstrap_servers", [""], ArgumentError),
        ("set_bootstrap_servers", ["localhost"], ArgumentError),
        ("set_delivery_guarantee", ["EXACTLY_ONCE"], ArgumentTypeError),
        ("set_transactional_id_prefix", [None], ArgumentTypeError),
        ("set_transactional_id_prefix", [""], ArgumentError),
        ("set_transactional_id_prefix", ["two words"], ArgumentError),
        ("set_transactional_id_prefix", ["x" * 181], ArgumentError),
        ("set_record_serializer", [SimpleStringSchema()], ArgumentTypeError),
        ("set_property", ["acks", None], ArgumentTypeError),
        ("set_properties", ["acks=all"], ArgumentTypeError),
        ("set_ignore_lost_transactions", ["yes"], ArgumentTypeError),
    ],
)
def test_arguments_are_checked_at_once(name, arguments, error):
    with pytest.raises(error):
        getattr(KafkaSink.builder(), name)(*arguments)


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"acks": "1"}, ArgumentError, "needs acks=all"),
        ({"transactional.id": "mine"}, ArgumentError, "transactional.id cannot be set"),
        ({"transaction.timeout.ms": "soon"}, ArgumentError, "not a number"),
        ({"linger.mss": "5"}, ConfigurationError, "linger.mss"),
        ({"compression.type": "rar"}, ConfigurationError, "compression"),
    ],
)
def test_properties_are_checked_when_the_sink_is_built(properties, error, message):
    builder = ready().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(error, match=message):
        builder.set_properties(properties).build()


def test_missing_settings_are_named_in_the_error():
    with pytest.raises(ArgumentError, match="no bootstrap servers"):
        KafkaSink.builder().set_record_serializer(serializer()).build()
    with pytest.raises(ArgumentError, match="no record serializer"):
        KafkaSink.builder().set_bootstrap_servers("a:1").build()


def test_defaults_are_those_of_the_java_client():
    configuration = producer_configuration({"bootstrap.servers": "a:1"})
    assert configuration["partitioner"] == "murmur2_random"
    assert configuration["enable.idempotence"] is True
    assert configuration["delivery.timeout.ms"] == 120_000
    assert producer_configuration({"acks": "0"})["enable.idempotence"] is False
    assert producer_configuration({"partitioner": "random"})["partitioner"] == "random"


def test_a_timeout_that_does_not_outlast_checkpoints_is_warned_about(caplog):
    committer = KafkaCommitter(Transactions({}), None, 60_000)
    committer.open(CommitterContext("job", "sink", 10_000))
    assert "transaction.timeout.ms" not in caplog.text
    committer.open(CommitterContext("job", "sink", 40_000))
    assert "transaction.timeout.ms" in caplog.text


@pytest.mark.parametrize("semantic", list(Semantic))
def test_the_older_producer_is_a_sink(semantic):
    config = {"bootstrap.servers": "localhost:9092"}
    producer = FlinkKafkaProducer("orders", SimpleStringSchema(), config, semantic=semantic)
    producer.set_write_timestamp_to_kafka(True)
    producer.set_flush_on_checkpoint(True)
    assert producer.ignore_failures_after_transaction_timeout() is producer
    commits = producer.sink.create_committer() is not None
    assert commits == (semantic is Semantic.EXACTLY_ONCE)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a b", SimpleStringSchema(), {"bootstrap.servers": "a:1"}), ArgumentError),
        (("a", str, {"bootstrap.servers": "a:1"}), ArgumentTypeError),
        (("a", SimpleStringSchema(), {}), ArgumentError),
        (("a", SimpleStringSchema(), {"bootstrap.servers": "a:1"}, 0), ArgumentError),
        (("a", SimpleStringSchema(), {"bootstrap.servers": "a:1"}, 5, "x"), ArgumentTypeError),
    ],
)
def test_the_older_producer_is_checked(arguments, error):
    with pytest.raises(error):
        FlinkKafkaProducer(*arguments)


def test_security_properties_are_translated_for_the_client_that_commits():
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";'
    found = protocol_configuration(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas,
        }
    )
    wanted = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "a",
        "sasl_plain_password": "b",
    }
    assert {name: found[name] for name in wanted} == wanted


def test_a_key_store_that_cannot_be_read_by_both_clients_is_refused():
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.keystore.location": "/secret/client.p12",
    }
    with pytest.raises(ConfigurationError, match="as PEM"):
        protocol_configuration(properties)


def test_tls_may_skip_the_host_name():
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert protocol_configuration(properties)["ssl_context"].check_hostname is False
