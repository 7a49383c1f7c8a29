"""KafkaSource, put through the kit that every connector is put through."""

from __future__ import annotations

import itertools

import pytest

from penstock.common import SimpleStringSchema
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.testing import SourceConformance, SourceSetup
from tests.builders.kafka_jobs import produce
from tests.builders.modes import SOAKS

_numbers = itertools.count()


class Topic(SourceSetup):
    bounded = True

    def __init__(self, broker):
        self.broker = broker
        self.topic = broker.create_topic(
            f"conformance-{next(_numbers)}", 3, {"max.message.bytes": "4000000"}
        )

    def add(self, records):
        produce(self.broker, self.topic, records, **{"message.max.bytes": 4_000_000})

    def add_malformed(self):
        produce(self.broker, self.topic, [b"\xff"], partition=2)
        return "is not text in UTF-8"

    def builder(self):
        builder = KafkaSource.builder().set_bootstrap_servers(self.broker.bootstrap)
        builder.set_topics(self.topic).set_value_only_deserializer(SimpleStringSchema())
        return builder.set_property("partition.discovery.interval.ms", "300")

    def create(self):
        return self.builder().set_bounded(KafkaOffsetsInitializer.latest()).build()

    def wrong_arguments(self):
        return [
            lambda: self.builder().set_bounded("latest"),
            lambda: self.builder().set_property("no.such.property", "1").build(),
        ]


class EndlessTopic(Topic):
    bounded = False
    appends = True

    def create(self):
        return self.builder().build()


@pytest.mark.skipif(
    not SOAKS, reason="what it has beyond the endless one is in test_source_reading"
)
class TestBoundedTopic(SourceConformance):
    @pytest.fixture
    def connector(self, kafka):
        return Topic(kafka)


class TestEndlessTopic(SourceConformance):
    @pytest.fixture
    def connector(self, kafka):
        return EndlessTopic(kafka)
