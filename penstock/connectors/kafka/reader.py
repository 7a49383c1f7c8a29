"""Reads partitions of Kafka, in a task."""

from __future__ import annotations

import itertools
import logging
import operator
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock.common.serialization import (
    DeserializationSchema,
    Deserialized,
    deserialize_all,
    deserialize_each,
)
from penstock.common.user_types import Position
from penstock.connectors.base.source import (
    MalformedRecord,
    NonBlockingReadLimits,
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.connectors.kafka.client_log import client_log, log_client_error
from penstock.connectors.kafka.errors import KafkaRefusedError
from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaTopicPartition
from penstock.connectors.kafka.partition_buffer import PartitionBuffer
from penstock.connectors.kafka.properties import confluent_kafka
from penstock.connectors.kafka.record import KafkaRecord, KafkaRecordDeserializationSchema
from penstock.connectors.kafka.source_errors import fatal_error, is_kind
from penstock.connectors.kafka.source_options import SourceOptions
from penstock.connectors.kafka.subscription import missing_topic
from penstock.errors import PenstockError, RecordError
from penstock.records.dropped_records import SKIPPED

_log = logging.getLogger("penstock.connectors.kafka")

_LOOK_S: Final = 0.1
_SAME_LOOK_S: Final = (
    0.0005  # partitions that are read in quick succession share one poll of the consumer
)
# How long a partition may be unknown before it counts as deleted: a broker that has just started has incomplete metadata.
_GONE_S: Final = 10.0
_CORRUPT: Final = ("_BAD_MSG", "_BAD_COMPRESSION", "INVALID_MSG", "_UNKNOWN_CODEC")
_GONE: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_ID")
_OUT_OF_RANGE: Final = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_NO_OFFSET")


class KafkaReader(SourceReader):
    """Reads partitions with one consumer.

    librdkafka prefetches in its own threads. Its messages are polled in batches, by the thread that processes them: a separate
    thread that hands messages over would only compete for the interpreter lock. Nor can a thread wait at the consumer for a
    message, because the Python client blocks all other calls meanwhile.

    The position is the next offset. If a partition is read from another position than the one it has reached, the reader
    starts over.
    """

    def __init__(
        self,
        options: SourceOptions,
        schema: DeserializationSchema | KafkaRecordDeserializationSchema,
    ) -> None:
        self._options = options
        self._schema = schema
        #: The client id; with the number of the subtask once the reader is open.
        self._name = options.client_id
        #: Fetched messages by topic and partition; the consumer has these partitions.
        self._buffers: dict[tuple[str, int], PartitionBuffer] = {}
        #: Why reading has failed: raised by every fetch since.
        self._failure: PenstockError | None = None
        #: None until the first partition is read, and after `_reset_consumer`.
        self._consumer: Any = None
        #: The consumer was empty; it is not polled again before this moment (monotonic).
        self._empty_until = 0.0
        #: The group KafkaSourceReader; None until the reader is open.
        self._metrics: Any = None

    def open(self, context: Any) -> None:
        """Register the lag metrics; the consumer is created with the first partition."""
        self._library = confluent_kafka("KafkaSource")
        message = self._library.Message
        self._value, self._error_of = message.value, message.error
        self._partition_of, self._topic_of = message.partition, message.topic
        self._timestamp, self._offset = message.timestamp, message.offset
        self._key, self._headers = message.key, message.headers
        self._name = f"{self._options.client_id}-{context.get_index_of_this_subtask()}"
        group = context.get_metrics_group()
        self._skipped = group.counter(SKIPPED)
        self._schema.use_metrics(group)
        group.gauge("pendingRecords", lambda: sum(self._lags(), 0))
        self._metrics = group.add_group("KafkaSourceReader")
        self._metrics.add_group("KafkaConsumer").gauge(
            "records-lag-max", lambda: max(self._lags(), default=0)
        )

    # Reading

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield the fetched records of the partition, from an offset on."""
        buffer = self._buffer_of(split, position)
        pipelined = isinstance(limits, NonBlockingReadLimits)
        while not buffer.done:
            messages = buffer.take(limits.batch_size)
            if not messages:
                self._resume(buffer)
                self._fetch(limits.batch_size, 0.0)
                messages = buffer.take(limits.batch_size)
            if messages:
                yield self._batch(buffer, messages)
                continue
            if buffer.end is not None and buffer.end > buffer.next:
                # The last entries of the partition are not records, but the position advances past them.
                stop = split.payload.stop
                buffer.next = buffer.end if stop is None else min(buffer.end, stop)
                yield SourceBatch([], buffer.next)
                continue
            if not pipelined and self._may_wait(buffer, limits):
                left = limits.remaining
                self._fetch(limits.batch_size, _LOOK_S if left is None else min(left, _LOOK_S))
                continue
            if split.payload.stop is None:
                return
            yield SourceBatch([], buffer.next)  # ending the iterator would finish the split
        self._forget(buffer)

    @staticmethod
    def _may_wait(buffer: PartitionBuffer, limits: ReadLimits) -> bool:
        if limits.expired:
            return False
        return buffer.end is None or buffer.split.stop is not None

    def _batch(self, buffer: PartitionBuffer, messages: list[Any]) -> SourceBatch:
        position = messages[-1].offset() + 1
        stop = buffer.split.stop
        if stop is not None and position > stop:
            messages = messages[: bisect_left(list(map(self._offset, messages)), stop)]
            position = stop
        times = [moment for _, moment in map(self._timestamp, messages)]
        values = list(map(self._value, messages))
        before = self._schema.skipped
        if isinstance(self._schema, KafkaRecordDeserializationSchema):
            found = self._deserialized(
                self._schema, self._records(buffer.partition, messages, values, times)
            )
        else:
            found = self._schema.deserialize_batch(values)
        self._skipped.inc(self._schema.skipped - before)
        buffer.next = position
        return SourceBatch(
            found.records,
            position,
            times if found.indexes is None else list(found.of_each(times)),
            malformed=[
                self._malformed(buffer.partition, messages[index], error)
                for index, error in found.failures
            ],
        )

    @staticmethod
    def _deserialized(schema: KafkaRecordDeserializationSchema, records: list[Any]) -> Deserialized:
        if type(schema).deserialize_many is KafkaRecordDeserializationSchema.deserialize_many:
            return deserialize_each(schema.deserialize, records)  # type: ignore[arg-type]
        return deserialize_all(schema.deserialize_many, records)  # type: ignore[arg-type]

    def _records(
        self,
        partition: KafkaTopicPartition,
        messages: list[Any],
        values: list[Any],
        times: list[int],
    ) -> list[KafkaRecord]:
        keys = map(self._key, messages)
        headers = (each or [] for each in map(self._headers, messages))
        topics, numbers = itertools.repeat(partition.topic), itertools.repeat(partition.partition)
        offsets = map(self._offset, messages)
        return list(map(KafkaRecord, keys, values, headers, topics, numbers, offsets, times))

    @staticmethod
    def _malformed(
        partition: KafkaTopicPartition, message: Any, error: Exception
    ) -> MalformedRecord:
        offset = message.offset()
        origin = {"topic": partition.topic, "partition": partition.partition, "offset": offset}
        return MalformedRecord.of(
            message.value(), error, origin, timestamp=message.timestamp()[1], position=offset + 1
        )

    # Partitions

    def _buffer_of(self, split: SourceSplit, position: int) -> PartitionBuffer:
        key = _key(split.payload.partition)
        buffer = self._buffers.get(key)
        if buffer is not None and buffer.next != position:
            self._reset_consumer()
            buffer = None
        if buffer is None:
            untouched = position == split.start
            buffer = PartitionBuffer(split.payload, position, untouched=untouched)
            self._buffers[key] = buffer
            self._assign(buffer, position)
            self._tell_of(buffer)
        return buffer

    def _assign(self, buffer: PartitionBuffer, offset: int) -> None:
        if self._consumer is None:
            self._consumer = self._library.Consumer(
                {**self._options.consumer, "client.id": self._name, "error_cb": self._on_error},
                logger=client_log,
            )
        partition = self._library.TopicPartition(*_key(buffer.partition), offset)
        self._consumer.incremental_assign([partition])

    def _forget(self, buffer: PartitionBuffer) -> None:
        key = _key(buffer.partition)
        if self._buffers.pop(key, None) is not None and self._consumer is not None:
            self._consumer.incremental_unassign([self._library.TopicPartition(*key)])

    def _reset_consumer(self) -> None:
        """Drop the consumer and its fetched messages: a task is retried from an earlier position."""
        self._disconnect()
        self._buffers.clear()

    # Fetching

    def _fetch(self, most: int, wait_s: float) -> None:
        """Poll the consumer for all partitions; wait for the first message up to `wait_s`."""
        if self._failure is not None:
            raise self._failure
        now = time.monotonic()
        if wait_s <= 0 and now < self._empty_until:
            return
        first = self._consumer.poll(wait_s) if wait_s > 0 else None
        messages = self._consumer.consume(most, 0)
        if first is not None:
            messages.insert(0, first)
        if messages:
            self._sort(messages)
        else:
            self._empty_until = now + _SAME_LOOK_S
        if self._failure is not None:
            raise self._failure
        for buffer in self._buffers.values():
            if buffer.missing_since is not None and _is_over(buffer.missing_since):
                raise missing_topic(buffer.partition.topic, self._options.servers)

    def _sort(self, messages: list[Any]) -> None:
        """Add messages to their partitions, and handle events among them."""
        if not any(map(self._error_of, messages)):
            self._deal_out(messages)
            return
        events = [each for each in messages if each.error() is not None]
        messages = [each for each in messages if each.error() is None]
        if messages:
            self._deal_out(messages)
        for event in events:
            self._on_event(event)

    def _deal_out(self, messages: list[Any]) -> None:
        """Add each message to its partition. Usually there are a few long runs of one partition."""
        numbers = list(map(self._partition_of, messages))
        topics = list(map(self._topic_of, messages))
        if numbers.count(numbers[0]) == len(numbers) and topics.count(topics[0]) == len(topics):
            self._add((topics[0], numbers[0]), messages)
            return
        keyed = zip(topics, numbers, messages, strict=True)
        for key, run in itertools.groupby(keyed, operator.itemgetter(0, 1)):
            self._add(key, [each[2] for each in run])

    def _add(self, key: tuple[str, int], messages: list[Any]) -> None:
        buffer = self._buffers.get(key)
        if buffer is None:
            return  # it is finished, and was fetched beyond its end
        buffer.add(messages)
        if buffer.full and not buffer.paused:
            buffer.paused = True
            self._consumer.pause([self._library.TopicPartition(*key)])

    def _resume(self, buffer: PartitionBuffer) -> None:
        if buffer.paused:
            buffer.paused = False
            self._consumer.resume([self._library.TopicPartition(*_key(buffer.partition))])

    def _on_event(self, event: Any) -> None:
        """Handle an event of a partition, which the consumer returns in place of a message."""
        error = event.error()
        buffer = self._buffers.get((event.topic(), event.partition()))
        if is_kind(error, "_PARTITION_EOF"):
            if buffer is not None:
                buffer.on_end(event.offset())
        elif buffer is not None and is_kind(error, *_OUT_OF_RANGE):
            self._reset(buffer, error)
        elif buffer is not None and is_kind(error, *_GONE):
            buffer.on_missing()
        elif buffer is not None and is_kind(error, *_CORRUPT):
            self._failure = RecordError(
                f"cannot read messages of {buffer.partition}: {error.str()}",
                detail=f"after offset {buffer.fetched}, from {self._options.servers}",
                hint="the broker's log may be damaged, or use a compression that this client does not support",
            )
        else:
            self._on_error(error)

    def _reset(self, buffer: PartitionBuffer, error: object) -> None:
        """Seek to the end of the partition given by the reset strategy, if the broker no longer has its offset."""
        strategy = self._options.reset
        if buffer.split.from_earliest and buffer.untouched:
            strategy = KafkaOffsetResetStrategy.EARLIEST
        if strategy is KafkaOffsetResetStrategy.NONE:
            self._failure = self._out_of_range(buffer, error)
            return
        library = self._library
        earliest = strategy is KafkaOffsetResetStrategy.EARLIEST
        _log.warning(
            "the broker no longer has offset %d of %s: continuing at the %s one",
            buffer.fetched,
            buffer.partition,
            strategy.name.lower(),
        )
        self._consumer.incremental_unassign([library.TopicPartition(*_key(buffer.partition))])
        buffer.go_to(0)
        self._assign(buffer, library.OFFSET_BEGINNING if earliest else library.OFFSET_END)

    def _out_of_range(self, buffer: PartitionBuffer, error: Any) -> PenstockError:
        first, end = self._known_range(buffer.partition)
        known = "" if end < 0 else f"; the broker has offsets {first} to {end}"
        return KafkaRefusedError(
            f"the broker does not have offset {buffer.fetched} of topic '{buffer.partition.topic}', "
            f"partition {buffer.partition.partition}",
            detail=f"{error.str()}, at {self._options.servers}{known}",
            hint="records may be lost: the job was down for longer than the topic's retention, or the topic was recreated; "
            "set the property auto.offset.reset to earliest or latest to continue without them",
        )

    def _on_error(self, error: object) -> None:
        found = fatal_error(error, self._options.servers, "the Kafka source")
        if found is not None:
            self._failure = self._failure or found
        else:
            log_client_error(self._name, error)

    # Metrics

    def _lags(self) -> list[int]:
        return [
            max(0, self._known_range(each.partition)[1] - each.next)
            for each in self._buffers.values()
        ]

    def _known_range(self, partition: KafkaTopicPartition) -> tuple[int, int]:
        if self._consumer is None:
            return -1, -1
        asked = self._library.TopicPartition(*_key(partition))
        try:
            found: Sequence[int] | None = self._consumer.get_watermark_offsets(asked, cached=True)
        except self._library.KafkaException:
            found = None
        return (-1, -1) if found is None else (found[0], found[1])

    def _tell_of(self, buffer: PartitionBuffer) -> None:
        topic, number = _key(buffer.partition)
        group = self._metrics.add_group("topic", topic).add_group("partition", str(number))
        group.gauge("currentOffset", lambda: buffer.next - 1)
        group.gauge("committedOffset", lambda: buffer.committed)

    def on_checkpoint(self, split: SourceSplit, position: Position) -> None:
        """Record the position of a durable checkpoint."""
        buffer = self._buffers.get(_key(split.payload.partition))
        if buffer is not None:
            buffer.committed = position

    def close(self) -> None:
        """Disconnect."""
        self._disconnect()

    def _disconnect(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _key(partition: KafkaTopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _is_over(since: float) -> bool:
    return time.monotonic() - since >= _GONE_S
