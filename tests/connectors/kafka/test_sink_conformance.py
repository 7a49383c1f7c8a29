"""KafkaSink, put through the kit for sinks. Kills of whole jobs are in test_sink_crashes."""

from __future__ import annotations

import itertools
import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from penstock.common.serialization import SimpleStringSchema
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from penstock.testing import Guarantee, SinkConformance, SinkSetup
from penstock.testing.conformance import sink_rules
from tests.builders.modes import MODES, SOAKS
from tests.connectors.kafka.sink_jobs import TIMEOUT_S, end_offsets

WITHOUT_JOBS = [
    rule
    for rule in sink_rules()
    if SOAKS
    or (" job " not in f" {rule} " and not str(rule).endswith(tuple(f"({mode})" for mode in MODES)))
]
_numbers = itertools.count()


class Topic(SinkSetup):
    """A topic of one partition, read by a consumer that sees what is committed."""

    kafka_guarantee = DeliveryGuarantee.EXACTLY_ONCE

    def __init__(self, broker):
        self.bootstrap = broker.bootstrap
        self.name = f"conforming-{next(_numbers)}"
        broker.create_topic(self.name, 1)

    def create(self):
        builder = KafkaRecordSerializationSchema.builder().set_topic(self.name)
        serializer = builder.set_value_serialization_schema(SimpleStringSchema()).build()
        sink = KafkaSink.builder().set_bootstrap_servers(self.bootstrap)
        sink.set_record_serializer(serializer).set_delivery_guarantee(self.kafka_guarantee)
        return sink.set_properties({"linger.ms": "1", "max.request.size": "2000000"}).build()

    def big_record(self):
        return "x" * 1_000_000

    def shown(self):
        partition = TopicPartition(self.name, 0, OFFSET_BEGINNING)
        end = end_offsets(self.bootstrap, [partition], committed=True)[0]
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "conforming",
                "isolation.level": "read_committed",
                "enable.partition.eof": "true",
                "log_level": "0",
            }
        )
        consumer.assign([partition])
        found, give_up = [], time.monotonic() + TIMEOUT_S
        while time.monotonic() < give_up:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                found.append(message.value().decode())
            elif message.offset() >= end:
                break
        consumer.close()
        return found

    def left_over(self):
        """A transaction that is open keeps readers of what is committed from the end."""
        partitions = [TopicPartition(self.name, 0)]
        ends = end_offsets(self.bootstrap, partitions)
        committed = end_offsets(self.bootstrap, partitions, committed=True)
        return [] if committed == ends else [(committed, ends)]

    def unwritable(self):
        return 5

    def wrong_arguments(self):
        return [
            lambda: KafkaSink.builder().set_bootstrap_servers("nowhere"),
            lambda: KafkaSink.builder().set_transactional_id_prefix("two words"),
            lambda: KafkaSink.builder().set_bootstrap_servers("a:1").build(),
        ]


class TopicAtLeastOnce(Topic):
    guarantee = Guarantee.AT_LEAST_ONCE
    kafka_guarantee = DeliveryGuarantee.AT_LEAST_ONCE


class TestExactlyOnce(SinkConformance):
    # What an abandoned writer leaves open hides what follows it in the partition until it is aborted, which the kit does not wait
    # for: test_sink_transactions has what happens to it.
    rules = [rule for rule in WITHOUT_JOBS if "aborted attempt that keeps running" not in str(rule)]

    @pytest.fixture
    def connector(self, kafka):
        return Topic(kafka)


class TestAtLeastOnce(SinkConformance):
    rules = WITHOUT_JOBS

    @pytest.fixture
    def connector(self, kafka):
        return TopicAtLeastOnce(kafka)
