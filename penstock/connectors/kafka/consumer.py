"""FlinkKafkaConsumer, PyFlink's old Kafka source."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.serialization import DeserializationSchema
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceReader,
    SplitEnumerator,
)
from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.connectors.kafka.properties import check_properties
from penstock.connectors.kafka.source import KafkaSource
from penstock.connectors.kafka.source_options import COMMIT_ON_CHECKPOINT, DISCOVERY_INTERVAL
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.not_implemented import not_implemented


class FlinkKafkaConsumer(Source):
    """A KafkaSource with the old API: `env.add_source(FlinkKafkaConsumer("orders", schema, properties))`.

    Like the original, it starts at the group offsets by default; a partition without one is read from `auto.offset.reset`, whose
    default is latest.
    """

    get_java_function = not_implemented("there is no JVM object behind a source")

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, str],
    ) -> None:
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._schema = deserialization_schema
        self._properties = check_properties(properties, "properties")
        # Discovery of new partitions is off by default, like in the original.
        renamed = self._properties.pop("flink.partition-discovery.interval-millis", "0")
        self._properties.setdefault(DISCOVERY_INTERVAL, renamed)
        self._starting: KafkaOffsetsInitializer | None = None
        self._build()  # raises errors now

    def _build(self) -> KafkaSource:
        builder = KafkaSource.builder().set_properties(self._properties).set_topics(*self._topics)
        builder.set_starting_offsets(self._starting or self._group_offsets())
        return builder.set_value_only_deserializer(self._schema).build()

    def _group_offsets(self) -> KafkaOffsetsInitializer:
        wanted = self._properties.get("auto.offset.reset", "latest").upper()
        if wanted not in KafkaOffsetResetStrategy.__members__:
            raise ArgumentError(
                f"auto.offset.reset must be earliest, latest or none, not {wanted!r}"
            )
        return KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy[wanted])

    def set_start_from_earliest(self) -> FlinkKafkaConsumer:
        """Start with the first records."""
        return self._start(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> FlinkKafkaConsumer:
        """Start with records that are written from now on."""
        return self._start(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumer:
        """Start with the first records that are not before this time, in epoch milliseconds."""
        return self._start(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumer:
        """Start at the offsets of the consumer group."""
        return self._start(self._group_offsets())

    def _start(self, starting: KafkaOffsetsInitializer) -> FlinkKafkaConsumer:
        self._starting = starting
        return self

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumer:
        """Set whether the job commits its offsets to the consumer group."""
        if not isinstance(commit_on_checkpoints, bool):
            raise ArgumentTypeError(
                f"commit_on_checkpoints must be True or False, not {commit_on_checkpoints!r}"
            )
        self._properties[COMMIT_ON_CHECKPOINT] = str(commit_on_checkpoints).lower()
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumer:
        """Accepted as in Flink, without effect: all partitions of a checkpoint are always resumed."""
        return self

    def get_produced_type(self) -> object:
        """Return the type of the records, None if it is unknown."""
        return self._schema.get_produced_type()

    def get_boundedness(self) -> Boundedness:
        """Return that the source is unbounded."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create the enumerator, which finds partitions."""
        return self._build().create_enumerator(parallelism, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader, with its own consumer."""
        return self._build().create_reader()
