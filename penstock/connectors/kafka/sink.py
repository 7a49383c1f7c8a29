"""KafkaSink: writes a stream to topics, with a delivery guarantee."""

from __future__ import annotations

import re
from typing import Final

from penstock.common.user_types import StateValue
from penstock.connectors.base.delivery import DeliveryGuarantee
from penstock.connectors.base.sink import (
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.kafka.committer import LOSS_HINT, KafkaCommitter
from penstock.connectors.kafka.pool import transactional_settings
from penstock.connectors.kafka.producer import DELIVERY_TIMEOUT_MS, producer_configuration
from penstock.connectors.kafka.properties import check_configuration, check_properties
from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.transactions import Transactions
from penstock.connectors.kafka.writer import KafkaWriter, TransactionalWriter
from penstock.errors import ArgumentError, ArgumentTypeError

# Flink's default of an hour is more than brokers allow by default: this is their default maximum.
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1000
_PREFIX: Final = re.compile(r"[A-Za-z0-9._\-]{1,180}")
_SERVER: Final = re.compile(r"\S+:\d{1,5}")


class KafkaSink(Sink):
    """Writes records to Kafka. Created by `KafkaSink.builder()`."""

    #: How to start a job without its lost transactions, for error messages; a table names its option here
    loss_hint = LOSS_HINT

    def __init__(
        self,
        properties: dict[str, str],
        serializer: KafkaRecordSerializationSchema,
        guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        transactional_id_prefix: str | None = None,
        *,
        ignores_losses: bool = False,
    ) -> None:
        self._properties = properties
        self._serializer = serializer
        self._guarantee = guarantee
        self._prefix = transactional_id_prefix
        self._ignores_losses = ignores_losses

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Create a builder."""
        return KafkaSinkBuilder()

    def get_transformer(self) -> None:
        """Return None: records reach the sink unchanged."""

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Open the writer of a subtask."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            flushes = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
            return KafkaWriter(self._properties, self._serializer, context, flushes=flushes)
        return TransactionalWriter(
            self._properties,
            self._serializer,
            context,
            self._transactions(),
            self._prefix,
            self._timeout_ms,
        )

    def create_committer(self) -> Committer | None:
        """Create the committer of transactions, for exactly-once delivery."""
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        return KafkaCommitter(
            self._transactions(),
            self._prefix,
            self._timeout_ms,
            ignores_losses=self._ignores_losses,
            loss_hint=self.loss_hint,
        )

    def _transactions(self) -> Transactions:
        timeout_ms = int(self._properties.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS))
        return Transactions(self._properties, timeout_ms / 1000)

    @property
    def _timeout_ms(self) -> int:
        return int(self._properties.get("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS))


class KafkaSinkBuilder:
    """Builds a `KafkaSink`: bootstrap servers and a record serializer are required.

    The default delivery guarantee is at least once.
    """

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._prefix: str | None = None
        self._ignores_losses = False

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the bootstrap servers: `host:port`, separated by commas."""
        if not isinstance(bootstrap_servers, str):
            raise ArgumentTypeError(f"bootstrap_servers is not a str: {bootstrap_servers!r}")
        servers = [each.strip() for each in bootstrap_servers.split(",") if each.strip()]
        wrong = [each for each in servers if not _SERVER.fullmatch(each)]
        if wrong or not servers:
            raise ArgumentError(
                f"bootstrap_servers is not a list of servers: {bootstrap_servers!r}",
                hint="use 'host:9092', or several separated by commas",
            )
        self._properties["bootstrap.servers"] = ",".join(servers)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the delivery guarantee."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ArgumentTypeError(
                f"delivery_guarantee is not a DeliveryGuarantee: {delivery_guarantee!r}"
            )
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of transactional ids, for all runs of this sink: no other sink of the cluster may have the same prefix.

        The default contains the job's id, so a job that is started with another id does not find open transactions of a
        killed one; these are aborted when they time out.
        """
        if not isinstance(transactional_id_prefix, str):
            raise ArgumentTypeError(
                f"transactional_id_prefix is not a str: {transactional_id_prefix!r}"
            )
        if not _PREFIX.fullmatch(transactional_id_prefix):
            raise ArgumentError(
                f"invalid transactional id prefix {transactional_id_prefix!r}",
                hint="use at most 180 letters, digits, '.', '_' and '-'",
            )
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(
        self, record_serializer: KafkaRecordSerializationSchema
    ) -> KafkaSinkBuilder:
        """Set the serialization schema of records."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise ArgumentTypeError(
                f"record_serializer is not a KafkaRecordSerializationSchema: {record_serializer!r}",
                hint="create one with KafkaRecordSerializationSchema.builder()",
            )
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the producer, by its name in Kafka's Java client or in librdkafka."""
        self._properties.update(check_properties({key: value}, "set_property"))
        return self

    def set_properties(self, props: dict[str, str]) -> KafkaSinkBuilder:
        """Set several properties of the producer."""
        self._properties.update(check_properties(props, "set_properties"))
        return self

    def set_ignore_lost_transactions(self, ignore: bool) -> KafkaSinkBuilder:
        """Start although transactions of a checkpoint have timed out: their records are lost, which is logged."""
        if not isinstance(ignore, bool):
            raise ArgumentTypeError(f"ignore is not a bool: {ignore!r}")
        self._ignores_losses = ignore
        return self

    def build(self) -> KafkaSink:
        """Create the sink. Unknown properties are rejected here."""
        if not self._properties.get("bootstrap.servers"):
            raise ArgumentError(
                "no bootstrap servers are set", hint="call set_bootstrap_servers('host:9092')"
            )
        if self._serializer is None:
            raise ArgumentError(
                "no record serializer is set", hint="call set_record_serializer(...)"
            )
        self._check()
        return KafkaSink(
            dict(self._properties),
            self._serializer,
            self._guarantee,
            self._prefix,
            ignores_losses=self._ignores_losses,
        )

    def _check(self) -> None:
        properties = self._properties
        exactly_once = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        for name in ("transaction.timeout.ms", "delivery.timeout.ms"):
            value = properties.get(name)
            if value is not None and not (value.isdecimal() and int(value) > 0):
                raise ArgumentError(f"{name} is not a number of milliseconds: {value!r}")
        if "transactional.id" in properties:
            raise ArgumentError(
                "transactional.id cannot be set: every writer has several ids",
                hint="call set_transactional_id_prefix(...)",
            )
        if exactly_once and properties.get("acks", "all") not in {"all", "-1"}:
            raise ArgumentError(
                f"exactly-once delivery needs acks=all, not {properties['acks']}",
                hint="remove the property acks",
            )
        configuration = producer_configuration(properties)
        if exactly_once:
            timeout = int(properties.get("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS))
            configuration.update(transactional_settings("check", properties, timeout))
        check_configuration(configuration, "producer", "KafkaSink")
