"""FlinkKafkaProducer: the sink of older PyFlink programs, based on KafkaSink."""

from __future__ import annotations

import enum
import logging
from typing import Any

from penstock.common.serialization import SerializationSchema
from penstock.connectors.base.delivery import DeliveryGuarantee
from penstock.connectors.kafka.serialization import (
    FlinkFixedPartitioner,
    KafkaRecordSerializationSchema,
)
from penstock.connectors.kafka.sink import KafkaSink
from penstock.datastream.basic_functions import SinkFunction
from penstock.errors import ArgumentError, ArgumentTypeError

_log = logging.getLogger("penstock.connectors.kafka")


class Semantic(enum.Enum):
    """Delivery guarantees of FlinkKafkaProducer."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class FlinkKafkaProducerBase(SinkFunction):
    """Common base of the producers for several versions of Kafka."""

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
        # Each subtask writes to one partition, like the original producer.
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
        """Accepted as in Flink, without effect: records are never dropped silently."""
        if log_failures_only:
            _log.warning("set_log_failures_only has no effect: a lost record is always an error")

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> None:
        """Set whether a checkpoint flushes the producer; otherwise records may be lost."""
        self._flushes = flush_on_checkpoint
        self.sink = self._build()

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> None:
        """Set whether the timestamps of records are written to messages."""
        self._writes_timestamps = write_timestamp_to_kafka
        self.sink = self._build()


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes to one topic; `KafkaSink` has more features.

    `kafka_producer_pool_size` has no effect: there are as many producers as pending checkpoints, and one more.
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
        """Start although transactions of a checkpoint have timed out: their records are lost, which is logged."""
        self._ignores_losses = True
        self.sink = self._build()
        return self
