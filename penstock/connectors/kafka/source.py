"""The Kafka source."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.common.serialization import DeserializationSchema
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.connectors.kafka.enumerator import (
    AdoptedPartitions,
    KafkaEnumerator,
    KafkaSourcePlan,
    find_stops,
)
from penstock.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    Offsets,
)
from penstock.connectors.kafka.properties import check_properties
from penstock.connectors.kafka.reader import KafkaReader
from penstock.connectors.kafka.record import KafkaRecordDeserializationSchema
from penstock.connectors.kafka.source_options import (
    CLIENT_ID_PREFIX,
    SourceOptions,
    source_options,
)
from penstock.connectors.kafka.subscription import Subscription
from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError
from penstock.errors.not_implemented import not_implemented

Schema = DeserializationSchema | KafkaRecordDeserializationSchema


class KafkaSource(Source):
    """Reads partitions of Kafka topics, in parallel, each from the offset in the last checkpoint.

    >>> from penstock.common import SimpleStringSchema
    >>> (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("orders")
    ...     .set_group_id("billing")
    ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    KafkaSource(orders at localhost:9092)
    """

    get_java_function = not_implemented("there is no JVM object behind a source")

    def __init__(self, j_kafka_source: Any) -> None:
        if not isinstance(j_kafka_source, _Parts):
            raise ArgumentTypeError(
                "a KafkaSource is created by its builder",
                hint="use KafkaSource.builder()...build()",
            )
        self._plan = j_kafka_source.plan
        self._schema = j_kafka_source.schema
        self._stops: Offsets = {}  # of partitions that another job read without a stopping offset

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder."""
        return KafkaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded."""
        return Boundedness.BOUNDED if self._plan.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> object:
        """Return the type of the records, None if it is unknown."""
        return self._schema.get_produced_type()

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create the enumerator, which finds partitions."""
        return KafkaEnumerator(self._plan, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader, with its own consumer."""
        return KafkaReader(self._plan.options, self._schema)

    def adopt_split(self, split: SourceSplit) -> SourceSplit:
        """Apply this source's stopping offset, or none, to a partition that another job has read."""
        payload, stopping = split.payload, self._plan.stopping
        if (payload.stop is None) == (stopping is None):
            return split
        stop = None if stopping is None else self._stop_of(payload.partition)
        return dataclasses.replace(
            split, payload=dataclasses.replace(payload, stop=stop), bounded=stop is not None
        )

    def adopt_enumerator(self, state: Any) -> object:
        """Make a bounded source look once for partitions that the other job did not know."""
        return AdoptedPartitions(tuple(state)) if self._plan.bounded else state

    def _stop_of(self, partition: KafkaTopicPartition) -> int:
        if partition not in self._stops:
            self._stops |= find_stops(self._plan, partition)
        return self._stops[partition]

    def __repr__(self) -> str:
        return f"KafkaSource({self._plan.subscription} at {self._plan.options.servers})"


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    plan: KafkaSourcePlan
    schema: Schema


class KafkaSourceBuilder:
    """Builds a KafkaSource. Each method checks its arguments."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._subscription: Subscription | None = None
        self._starting = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._bounded = False
        self._schema: Schema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set the bootstrap servers: `host:port`, separated by commas."""
        return self.set_property("bootstrap.servers", _text(bootstrap_servers, "bootstrap_servers"))

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group to which the job commits its offsets."""
        return self.set_property("group.id", _text(group_id, "group_id"))

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read all partitions of these topics."""
        if not topics:
            raise ArgumentError("set_topics needs at least one topic")
        named = tuple(dict.fromkeys(_text(topic, "a topic") for topic in topics))
        return self._subscribe(Subscription(topics=named))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches a regular expression, including new ones."""
        try:
            re.compile(_text(topic_pattern, "topic_pattern"))
        except re.error as error:
            raise ArgumentError(
                f"topic_pattern is not a valid regular expression: {topic_pattern!r}",
                detail=str(error),
            ) from None
        return self._subscribe(Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions only."""
        if not isinstance(partitions, set | frozenset | list | tuple):
            raise ArgumentTypeError(
                f"partitions must be a set of KafkaTopicPartition, not {partitions!r}"
            )
        for each in partitions:
            if not isinstance(each, KafkaTopicPartition):
                raise ArgumentTypeError(f"{each!r} is not a KafkaTopicPartition")
        if not partitions:
            raise ArgumentError("set_partitions needs at least one partition")
        return self._subscribe(Subscription(partitions=frozenset(partitions)))

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise InvalidProgramError(
                f"the source already reads {self._subscription}",
                hint="call one of set_topics, set_topic_pattern and set_partitions, once",
            )
        self._subscription = subscription
        return self

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Set the starting offsets of partitions that are in no checkpoint (default: earliest)."""
        self._starting = _initializer(starting_offsets_initializer)
        return self

    def set_bounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Make the source bounded: it stops at these offsets, exclusive."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self._bounded = True
        return self

    def set_unbounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Stop partitions at these offsets, in a source that counts as unbounded."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self._bounded = False
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set the prefix of the source's client ids, in the brokers' logs and metrics."""
        return self.set_property(CLIENT_ID_PREFIX, _text(prefix, "prefix"))

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property: one of Kafka's Java consumer, of librdkafka, or of the source."""
        self._properties.update(check_properties({key: value}, "set_property"))
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several properties."""
        self._properties.update(check_properties(props, "set_properties"))
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema
    ) -> KafkaSourceBuilder:
        """Deserialize the values of messages."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise ArgumentTypeError(
                f"deserialization_schema must be a DeserializationSchema, not {deserialization_schema!r}",
                hint="use for example SimpleStringSchema(), or JsonRowDeserializationSchema.builder()...build()",
            )
        self._schema = deserialization_schema
        return self

    def set_deserializer(
        self, record_deserializer: KafkaRecordDeserializationSchema
    ) -> KafkaSourceBuilder:
        """Deserialize messages with their key, headers, topic, partition, offset and timestamp."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise ArgumentTypeError(
                f"record_deserializer must be a KafkaRecordDeserializationSchema, not {record_deserializer!r}",
                hint="use KafkaRecordDeserializationSchema.of(lambda record: ...)",
            )
        self._schema = record_deserializer
        return self

    def build(self) -> KafkaSource:
        """Check the settings and properties, and create the source."""
        if not self._properties.get("bootstrap.servers"):
            raise InvalidProgramError(
                "the Kafka source has no bootstrap servers", hint="call set_bootstrap_servers"
            )
        if self._subscription is None:
            raise InvalidProgramError(
                "the Kafka source has no topics",
                hint="call set_topics, set_topic_pattern or set_partitions",
            )
        if self._schema is None:
            raise InvalidProgramError(
                "the Kafka source has no deserializer",
                hint="call set_value_only_deserializer or set_deserializer",
            )
        plan = KafkaSourcePlan(
            self._subscription, self._starting, self._stopping, self._bounded, self._options()
        )
        return KafkaSource(_Parts(plan, self._schema))

    def _options(self) -> SourceOptions:
        options = source_options(self._properties)
        initializers: Sequence[KafkaOffsetsInitializer | None] = (self._starting, self._stopping)
        if options.group_id is None and any(each and each.needs_group for each in initializers):
            raise InvalidProgramError(
                "committed offsets need a consumer group, and the source has none",
                hint="call set_group_id",
            )
        if options.reset is KafkaOffsetResetStrategy.NONE:
            options = dataclasses.replace(options, reset=self._starting.reset_strategy)
        return options


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} must be a str, not {value!r}")
    if not value.strip():
        raise ArgumentError(f"{name} is empty")
    return value


def _initializer(value: object) -> KafkaOffsetsInitializer:
    if not isinstance(value, KafkaOffsetsInitializer):
        raise ArgumentTypeError(
            f"offsets must be a KafkaOffsetsInitializer, not {value!r}",
            hint="use for example KafkaOffsetsInitializer.latest()",
        )
    return value
