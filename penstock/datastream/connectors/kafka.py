"""Kafka: the names of PyFlink's classes, to come."""

from __future__ import annotations

from penstock.common.not_implemented import not_implemented_class as _absent

_REASON = "there is no Kafka connector yet"
_HINT = "write a Source or a Sink of your own with penstock.datastream.connectors.base"

FlinkKafkaConsumer = _absent("FlinkKafkaConsumer", _REASON, hint=_HINT)
FlinkKafkaProducer = _absent("FlinkKafkaProducer", _REASON, hint=_HINT)
KafkaOffsetResetStrategy = _absent("KafkaOffsetResetStrategy", _REASON, hint=_HINT)
KafkaOffsetsInitializer = _absent("KafkaOffsetsInitializer", _REASON, hint=_HINT)
KafkaRecordSerializationSchema = _absent("KafkaRecordSerializationSchema", _REASON, hint=_HINT)
KafkaRecordSerializationSchemaBuilder = _absent(
    "KafkaRecordSerializationSchemaBuilder", _REASON, hint=_HINT
)
KafkaSink = _absent("KafkaSink", _REASON, hint=_HINT)
KafkaSinkBuilder = _absent("KafkaSinkBuilder", _REASON, hint=_HINT)
KafkaSource = _absent("KafkaSource", _REASON, hint=_HINT)
KafkaSourceBuilder = _absent("KafkaSourceBuilder", _REASON, hint=_HINT)
KafkaTopicPartition = _absent("KafkaTopicPartition", _REASON, hint=_HINT)
KafkaTopicSelector = _absent("KafkaTopicSelector", _REASON, hint=_HINT)
Semantic = _absent("Semantic", _REASON, hint=_HINT)

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]
