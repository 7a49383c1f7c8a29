"""The broker of the tests keeps what it has confirmed."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.builders.kafka_jobs import TIMEOUT_S, transaction
from tools.servers.kafka import KafkaBroker


def test_a_broker_that_was_killed_has_its_topics_and_messages_when_it_is_back(
    fragile_kafka: KafkaBroker,
) -> None:
    topic = fragile_kafka.create_topic("kept", 2)
    producer = Producer({"bootstrap.servers": fragile_kafka.bootstrap, "log_level": "0"})
    for number in range(100):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0

    fragile_kafka.kill()
    fragile_kafka.start()

    client = {"bootstrap.servers": fragile_kafka.bootstrap, "group.id": "kept", "log_level": "0"}
    consumer = Consumer(client)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
        found = [message.value() for message in consumer.consume(100, timeout=TIMEOUT_S)]
    finally:
        consumer.close()
    assert sorted(map(int, filter(None, found))) == list(range(100))


def test_topics_get_more_partitions_and_go(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("grows", 1)
    kafka.add_partitions(topic, 3)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    assert len(client.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 3
    kafka.delete_topic(topic)
    assert topic not in client.list_topics(timeout=TIMEOUT_S).topics


def test_a_transaction_is_whole_when_the_broker_is_killed_right_after_it_was_committed(
    fragile_kafka: KafkaBroker,
) -> None:
    topic = fragile_kafka.create_topic("whole")
    transaction(fragile_kafka, topic, ["a", "b"])
    fragile_kafka.kill()
    fragile_kafka.start()
    client = {"bootstrap.servers": fragile_kafka.bootstrap, "group.id": "whole", "log_level": "0"}
    consumer = Consumer({**client, "isolation.level": "read_committed"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [message.value() for message in consumer.consume(2, timeout=TIMEOUT_S)] == [
            b"a",
            b"b",
        ]
    finally:
        consumer.close()
