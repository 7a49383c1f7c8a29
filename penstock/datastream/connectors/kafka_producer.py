"""FlinkKafkaProducer: the sink of older PyFlink programs, over KafkaSink."""

from __future__ import annotations

import enum
import logging
from typing import Any

from penstock.common.serialization import SerializationSchema
from penstock.connectors.delivery import DeliveryGuarantee
from penstock.connectors.kafka.serialization import (
    FlinkFixedPartitioner,
    KafkaRecordSerializationSchema,
)
from penstock.connectors.kafka.sink import KafkaSink
from penstock.datastream.basic_functions import SinkFunction
from penstock.errors import ArgumentError, ArgumentTypeError

_log = logging.getLogger("penstock.connectors.kafka")


class Semantic(enum.Enum):
    """How often a record reaches the topic after failures."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class FlinkKafkaProducerBase(SinkFunction):
    """What producers of several versions of Kafka had in common."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: dict[str, str],
        semantic: Semantic,
    ) -> None:
        if not isinstance(semantic, Semantic):
            raise ArgumentTypeError(f"semantic is not a Semantic: {semantic!r}")
        self._topic = topic
        self._schema = serialization_schema
        self._config = producer_config
        self._semantic = semantic
        self._writes_timestamps = False
        self._flushes = True
        self._ignores_losses = False
        super().__init__(self._build())

    def _build(self) -> Any:
        # Each subtask writes to one partition, as this producer always did.
        serializer = (
            KafkaRecordSerializationSchema.builder()
            .set_topic(self._topic)
            .set_value_serialization_schema(self._schema)
            .set_partitioner(FlinkFixedPartitioner())
            .set_write_timestamps(self._writes_timestamps)
            .build()
        )
        guarantee = DeliveryGuarantee[self._semantic.name]
        if guarantee is DeliveryGuarantee.AT_LEAST_ONCE and not self._flushes:
            guarantee = DeliveryGuarantee.NONE
        return (
            KafkaSink.builder()
            .set_properties(self._config)
            .set_record_serializer(serializer)
            .set_delivery_guarantee(guarantee)
            .set_ignore_lost_transactions(self._ignores_losses)
            .build()
        )

    def set_log_failures_only(self, log_failures_only: bool) -> None:
        """Log what cannot be sent instead of failing: not done here, for it would lose records in silence."""
        if log_failures_only:
            _log.warning("set_log_failures_only has no effect: a record that is lost is an error")

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> None:
        """Whether a checkpoint waits for the brokers; without that, records may be lost."""
        self._flushes = flush_on_checkpoint
        self.sink = self._build()

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> None:
        """Whether the timestamps of records become those of messages."""
        self._writes_timestamps = write_timestamp_to_kafka
        self.sink = self._build()


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes to one topic; `KafkaSink` can do more.

    `kafka_producer_pool_size` is of no importance: there are as many producers as checkpoints under way, and one more.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: dict[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        if isinstance(kafka_producer_pool_size, bool) or not isinstance(
            kafka_producer_pool_size, int
        ):
            raise ArgumentTypeError(
                f"kafka_producer_pool_size is not an int: {kafka_producer_pool_size!r}"
            )
        if kafka_producer_pool_size < 1:
            raise ArgumentError(
                f"kafka_producer_pool_size must be at least 1, not {kafka_producer_pool_size}"
            )
        super().__init__(topic, serialization_schema, producer_config, semantic)

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Start although transactions that a checkpoint counts on have timed out: their records are lost, and the log says so."""
        self._ignores_losses = True
        self.sink = self._build()
        return self
