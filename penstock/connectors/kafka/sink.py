"""KafkaSink: writes a stream to topics, with the delivery guarantee that is asked for."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.connectors.delivery import DeliveryGuarantee
from penstock.connectors.kafka.committer import LOSS_HINT, KafkaCommitter
from penstock.connectors.kafka.pool import transactional_settings
from penstock.connectors.kafka.producer import DELIVERY_TIMEOUT_MS, producer_configuration
from penstock.connectors.kafka.properties import check_configuration, check_properties
from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.transactions import Transactions
from penstock.connectors.kafka.writer import KafkaWriter, TransactionalWriter
from penstock.connectors.sink import Committer, Sink, SinkWriter, WriterContext
from penstock.errors import ArgumentError, ArgumentTypeError

# Flink's default of an hour is more than brokers allow unless they are told to: this is the most that they do.
DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 15 * 60 * 1000
_PREFIX: Final = re.compile(r"[A-Za-z0-9._\-]{1,180}")
_SERVER: Final = re.compile(r"\S+:\d{1,5}")


class KafkaSink(Sink):
    """Writes records to Kafka. Made by `KafkaSink.builder()`."""

    #: What lets a job start without transactions that were lost, as errors tell it; a table names its option here
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
        """Return nothing: records are taken as they come."""

    def create_writer(self, context: WriterContext, restored: Any = None) -> SinkWriter:
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
        """Create what commits transactions, if there are any."""
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
        patience_ms = int(self._properties.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS))
        return Transactions(self._properties, patience_ms / 1000)

    @property
    def _timeout_ms(self) -> int:
        return int(self._properties.get("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS))


class KafkaSinkBuilder:
    """Builds a `KafkaSink`: bootstrap servers and a record serializer are needed.

    Records are delivered at least once unless `set_delivery_guarantee` says otherwise.
    """

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._prefix: str | None = None
        self._ignores_losses = False

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Say where the cluster is: `host:port`, several with commas between them."""
        if not isinstance(bootstrap_servers, str):
            raise ArgumentTypeError(f"bootstrap_servers is not a str: {bootstrap_servers!r}")
        servers = [each.strip() for each in bootstrap_servers.split(",") if each.strip()]
        wrong = [each for each in servers if not _SERVER.fullmatch(each)]
        if wrong or not servers:
            raise ArgumentError(
                f"bootstrap_servers is not a list of servers: {bootstrap_servers!r}",
                hint="'host:9092', or several with commas between them",
            )
        self._properties["bootstrap.servers"] = ",".join(servers)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Say how often a record may reach the topic after failures."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ArgumentTypeError(
                f"delivery_guarantee is not a DeliveryGuarantee: {delivery_guarantee!r}"
            )
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Name the transactions of this sink, of all its runs: no other sink of the cluster may have the same prefix.

        By default the prefix is made of the job's id, so a job that is started under another id does not find what a killed one left open;
        that is aborted when it times out.
        """
        if not isinstance(transactional_id_prefix, str):
            raise ArgumentTypeError(
                f"transactional_id_prefix is not a str: {transactional_id_prefix!r}"
            )
        if not _PREFIX.fullmatch(transactional_id_prefix):
            raise ArgumentError(
                f"{transactional_id_prefix!r} is no prefix of transactional ids",
                hint="letters, digits, '.', '_' and '-', at most 180 of them",
            )
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(
        self, record_serializer: KafkaRecordSerializationSchema
    ) -> KafkaSinkBuilder:
        """Say how records become messages."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise ArgumentTypeError(
                f"record_serializer is not a KafkaRecordSerializationSchema: {record_serializer!r}",
                hint="make one with KafkaRecordSerializationSchema.builder()",
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
        """Start although transactions that a checkpoint counts on have timed out: their records are lost, and the log says so."""
        if not isinstance(ignore, bool):
            raise ArgumentTypeError(f"ignore is not a bool: {ignore!r}")
        self._ignores_losses = ignore
        return self

    def build(self) -> KafkaSink:
        """Create the sink. Properties that librdkafka does not know are refused here."""
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
                "transactional.id cannot be set: every writer has several of its own",
                hint="call set_transactional_id_prefix(...)",
            )
        if exactly_once and properties.get("acks", "all") not in {"all", "-1"}:
            raise ArgumentError(
                f"exactly-once delivery needs acks=all, not {properties['acks']}",
                hint="leave acks out",
            )
        configuration = producer_configuration(properties)
        if exactly_once:
            timeout = int(properties.get("transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS))
            configuration.update(transactional_settings("check", properties, timeout))
        check_configuration(configuration, "producer", "KafkaSink")
