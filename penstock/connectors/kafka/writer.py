"""The writers of KafkaSink: at most or at least once, and transactional."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.connectors.base.sink import CheckpointContext, SinkWriter, WriterContext
from penstock.connectors.kafka.committable import KafkaCommittable, operator_prefix
from penstock.connectors.kafka.errors import KafkaSinkError
from penstock.connectors.kafka.pool import PooledProducer, ProducerPool
from penstock.connectors.kafka.producer import KafkaProducer
from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.transactions import Transactions, TransactionState


class _Sending:
    """Turns records into messages and sends them with a producer; counts them."""

    def __init__(self, schema: KafkaRecordSerializationSchema, context: WriterContext) -> None:
        schema.open(context.subtask, context.parallelism)
        self._schema = schema
        self._checked: set[str] = set()
        self._send_ms = 0.0  # as measured by librdkafka: from `send` to the broker's response
        self._bytes: Any = None
        if context.metrics is not None:
            self._bytes = context.metrics.counter("numBytesSend")
            context.metrics.gauge("currentSendTime", lambda: round(self._send_ms, 3))

    def send(
        self, producer: KafkaProducer, values: list[Any], timestamps: list[int | None] | None
    ) -> None:
        messages = self._schema.to_messages(values, timestamps, producer.partitions_of)
        topics = messages.topic
        for topic in {topics} if isinstance(topics, str) else set(topics):
            if topic not in self._checked:
                producer.partitions_of(topic)  # fails at once for a missing topic
                self._checked.add(topic)
        producer.send(
            topics,
            messages.values,
            messages.keys,
            messages.partitions,
            messages.timestamps,
            messages.headers,
        )
        if self._bytes is not None:
            self._bytes.inc(sum(map(len, filter(None, messages.values))))

    def on_statistics(self, text: str) -> None:
        """Update metrics from librdkafka's statistics."""
        brokers = json.loads(text)["brokers"].values()
        times = [each["rtt"]["avg"] + each["outbuf_latency"]["avg"] for each in brokers]
        self._send_ms = max(times, default=0) / 1000


class KafkaWriter(SinkWriter):
    """Sends records immediately. With `flushes`, a checkpoint waits until the brokers have acknowledged all earlier records."""

    def __init__(
        self,
        properties: Mapping[str, str],
        schema: KafkaRecordSerializationSchema,
        context: WriterContext,
        *,
        flushes: bool,
    ) -> None:
        self._sending = _Sending(schema, context)
        statistics = None if context.metrics is None else self._sending.on_statistics
        self._producer = KafkaProducer(properties, None, statistics)
        self._flushes = flushes
        self._in_checkpoint_interval = False

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the next checkpoint."""
        self._in_checkpoint_interval = True

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Send records."""
        self._sending.send(self._producer, values, timestamps)

    def prepare_commit(self) -> list[Any]:
        """Flush, if `flushes` is set."""
        if self._flushes:
            self._producer.flush()
        self._producer.poll()
        self._in_checkpoint_interval = False
        return []

    def close(self) -> None:
        """Send the remaining records, unless the task has failed."""
        producer = self._producer
        if producer.producer is None:
            return
        try:
            if not self._in_checkpoint_interval:
                producer.flush()
        finally:
            producer.let_go()


class TransactionalWriter(SinkWriter):
    """Writes the records of each checkpoint in one transaction, which the committer ends."""

    def __init__(
        self,
        properties: Mapping[str, str],
        schema: KafkaRecordSerializationSchema,
        context: WriterContext,
        transactions: Transactions,
        prefix: str | None,
        timeout_ms: int,
    ) -> None:
        self._sending = _Sending(schema, context)
        self._transactions = transactions
        self._timeout_ms = timeout_ms
        self._pool = ProducerPool(
            properties,
            transactions,
            operator_prefix(prefix, context.job_id, context.operator_id),
            context.subtask,
            timeout_ms,
            None if context.metrics is None else self._sending.on_statistics,
        )
        self._checkpoint_id = 0
        self._current: PooledProducer | None = None  # between `begin` and `prepare_commit`

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Begin a transaction."""
        self._checkpoint_id = checkpoint.checkpoint_id
        current = self._pool.take(checkpoint.attempt.rpartition("-")[0])
        self._current = current
        current.producer.begin()

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Send records."""
        assert self._current is not None
        self._sending.send(self._current.producer, values, timestamps)

    def prepare_commit(self) -> list[Any]:
        """Flush, and return the transaction as a committable."""
        current = self._current
        assert current is not None
        current.producer.flush()
        name = current.transactional_id
        found = self._transactions.describe([name]).get(name)
        if found is None or not current.is_in(found) or found.state is not TransactionState.ONGOING:
            raise KafkaSinkError(
                f"the transaction '{name}' ended before its checkpoint",
                detail=f"brokers: {current.producer.bootstrap}; state at the coordinator: {found}",
                hint=f"checkpoints must complete within transaction.timeout.ms ({self._timeout_ms} ms), "
                "and each sink needs its own transactional id prefix",
            )
        committable = KafkaCommittable(
            name,
            found.producer_id,
            found.producer_epoch,
            found.started_ms,
            found.timeout_ms,
            current.producer.bootstrap,
        )
        self._current = None
        self._pool.hand_over(current, committable, self._checkpoint_id)
        return [committable]

    def on_committed(self, checkpoint_id: int) -> None:
        """Reuse the producers whose transactions are committed."""
        self._pool.settle(checkpoint_id)

    def close(self) -> None:
        """Abort the current transaction; those that were handed over stay open."""
        current, self._current = self._current, None
        if current is not None:
            current.producer.give_up()
        self._pool.close()
