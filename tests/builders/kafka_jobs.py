"""Jobs that read Kafka, messages for them, and what they have committed."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.connectors import Committer, Sink, SinkWriter
from penstock.datastream.connectors.kafka import KafkaSource
from tests.builders.environments import configured, restarts
from tests.builders.modes import runs_in
from tests.builders.waiting import wait_until

TIMEOUT_S = 120.0  # for what happens within seconds, unless the machine is very busy

# Slots are threads of this process: what was committed is here, by the name of the sink.
_committed: dict[str, dict[tuple, list]] = {}
_lock = threading.Lock()


def committed(name):
    """Return the records that durable checkpoints have, as (record, timestamp)."""
    with _lock:
        return [record for part in _committed.get(name, {}).values() for record in part]


def values(name):
    """Return the committed records, sorted."""
    return sorted(record for record, _ in committed(name))


class CommittedSink(Sink):
    """Publishes records, once, when the checkpoint that has them is durable."""

    def __init__(self, name):
        self.name = name

    def create_writer(self, context, restored=None):
        return _Writer(self.name, context.subtask)

    def create_committer(self):
        return _Committer()


class _Writer(SinkWriter):
    def __init__(self, name, subtask):
        self.name, self.subtask = name, subtask
        self.records = []

    def begin(self, checkpoint):
        self.checkpoint_id = (checkpoint.checkpoint_id, checkpoint.attempt, self.subtask)

    def write(self, values, timestamps, watermark):
        self.records += zip(values, timestamps, strict=True)

    def prepare_commit(self):
        records, self.records = self.records, []
        return [(self.name, self.checkpoint_id, records)]


class _Committer(Committer):
    def commit(self, request):
        with _lock:
            for name, checkpoint_id, records in request.committables:
                _committed.setdefault(name, {}).setdefault(checkpoint_id, records)


def source(broker, *topics, **properties):
    """Return the builder of a source of text that looks for new partitions often."""
    builder = KafkaSource.builder().set_bootstrap_servers(broker.bootstrap)
    builder.set_property("partition.discovery.interval.ms", "300")
    builder.set_properties({name.replace("_", "."): value for name, value in properties.items()})
    if topics:
        builder.set_topics(*topics)
    return builder.set_value_only_deserializer(SimpleStringSchema())


def environment(mode, directory, parallelism=2, **options):
    """Return an environment whose checkpoints come fast and stay."""
    settings = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        **runs_in(mode),
        **restarts(20, "10 ms"),
        **options,
    }
    return configured(settings, parallelism)


def start(env, kafka_source, name, through=None, strategy=None):
    """Start a job that writes what a source reads to a sink; return its client."""
    strategy = strategy or WatermarkStrategy.no_watermarks()
    stream = env.from_source(kafka_source, strategy, "kafka").uid("kafka")
    if through is not None:
        stream = stream.map(through)
    stream.sink_to(CommittedSink(name)).uid("sink")
    return env.execute_async(name)


def run(env, kafka_source, name, **options):
    """Run a job to its end, and return its records, sorted."""
    start(env, kafka_source, name, **options).get_job_execution_result().result(TIMEOUT_S)
    return values(name)


def until(condition, seconds=TIMEOUT_S):
    """Wait for a condition, and say so if it does not come true."""
    return wait_until(condition, seconds=seconds)


def produce(broker, topic, messages, partition=None, **settings):
    """Write messages (a value, or a dict of what `Producer.produce` takes); to partitions in turn if none is given."""
    client = {"bootstrap.servers": broker.bootstrap, "log_level": "0", **settings}
    producer = Producer(client)
    count = len(producer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
    for number, message in enumerate(messages):
        given = message if isinstance(message, dict) else {"value": message}
        to = number % count if partition is None else partition
        producer.produce(topic, **{"partition": to, **given})
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def transaction(broker, topic, messages, *, commit=True, partition=0):
    """Write messages in a transaction of their own."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "log_level": "0"}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for message in messages:
        producer.produce(topic, message, partition=partition)
    producer.flush(TIMEOUT_S)
    (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)


def group_offsets(broker, group, topic, partitions):
    """Return the committed offsets of a consumer group."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": "0"}
    )
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return [each.offset for each in consumer.committed(asked, timeout=TIMEOUT_S)]
    finally:
        consumer.close()


def commit_offsets(broker, group, topic, offsets):
    """Let a consumer group have offsets."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": "0"}
    )
    try:
        given = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
        consumer.commit(offsets=given, asynchronous=False)
    finally:
        consumer.close()
