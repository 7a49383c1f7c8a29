"""Errors of Kafka, which name brokers, topic and what to check."""

from __future__ import annotations

from typing import Final

from penstock.errors import PenstockError, SuppressRestartsError


class KafkaSinkError(PenstockError, RuntimeError):
    """Kafka did not accept records of a sink."""


class KafkaConnectionError(KafkaSinkError):
    """The brokers did not answer in time."""


class KafkaRefusedError(SuppressRestartsError, RuntimeError):
    """The brokers reject a request of the job, or no longer have the data: retrying does not help."""


class KafkaSinkRefusedError(KafkaSinkError, KafkaRefusedError):
    """The brokers reject records of a sink."""


class KafkaDataLossError(KafkaSinkError, SuppressRestartsError):
    """A transaction that a checkpoint refers to was aborted: its records are lost."""


_TAKEN_OVER: Final = "a newer attempt at the job, or another job with the same transactional id prefix, has taken over"
# By librdkafka's error name.
_HINTS: Final = {
    "MSG_SIZE_TOO_LARGE": "raise max.request.size of the sink and max.message.bytes of the topic, or write smaller records",
    "INVALID_RECORD": "the topic's cleanup.policy is 'compact': every record needs a key",
    "UNKNOWN_TOPIC_OR_PART": "create the topic, or check its name; a partition that a partitioner chose must exist",
    "_UNKNOWN_TOPIC": "create the topic, or check its name",
    "_UNKNOWN_PARTITION": "the partitioner returned a partition that the topic does not have",
    "TOPIC_AUTHORIZATION_FAILED": "the principal needs Write and Describe on the topic",
    "CLUSTER_AUTHORIZATION_FAILED": "the principal needs IdempotentWrite on the cluster, or set enable.idempotence to false",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the principal needs Write and Describe on the transactional ids with the sink's prefix",
    "SASL_AUTHENTICATION_FAILED": "check security.protocol, sasl.mechanism and sasl.jaas.config",
    "_AUTHENTICATION": "check security.protocol, sasl.mechanism and sasl.jaas.config",
    "_SSL": "check security.protocol and the ssl properties",
    "INVALID_TRANSACTION_TIMEOUT": "set transaction.timeout.ms to at most the brokers' transaction.max.timeout.ms (15 minutes by default)",
    "_MSG_TIMED_OUT": "check that the brokers are up and reachable; delivery.timeout.ms sets how long to wait for them",
    "_ALL_BROKERS_DOWN": "check that the brokers are up and that bootstrap.servers is right",
    "_TRANSPORT": "check that the brokers are up and that bootstrap.servers is right",
    "_TIMED_OUT": "check that the brokers are up and that bootstrap.servers and the security properties are right",
    "_FENCED": _TAKEN_OVER,
    "INVALID_PRODUCER_EPOCH": _TAKEN_OVER,
    "PRODUCER_FENCED": _TAKEN_OVER,
    "_QUEUE_FULL": "the brokers do not keep up; raise buffer.memory or max.block.ms",
}
# A restart would write the same records with the same credentials.
_REFUSED: Final = {
    "MSG_SIZE_TOO_LARGE",
    "INVALID_RECORD",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "SASL_AUTHENTICATION_FAILED",
    "_AUTHENTICATION",
    "INVALID_TRANSACTION_TIMEOUT",
}
_UNREACHABLE: Final = {"_MSG_TIMED_OUT", "_ALL_BROKERS_DOWN", "_TRANSPORT", "_TIMED_OUT"}


def sink_error(
    error: object, what: str, bootstrap: str, topic: str | None = None
) -> KafkaSinkError:
    """Translate an error of librdkafka (a KafkaException or a KafkaError)."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    name = inner.name() if hasattr(inner, "name") else type(inner).__name__
    text = inner.str() if hasattr(inner, "str") else str(inner)
    where = f"brokers: {bootstrap}" if topic is None else f"brokers: {bootstrap}; topic: {topic}"
    kind: type[KafkaSinkError] = KafkaSinkError
    if name in _UNREACHABLE:
        kind = KafkaConnectionError
    elif name in _REFUSED:
        kind = KafkaSinkRefusedError
    return kind(what, detail=f"{where}; {name}: {text}", hint=_HINTS.get(name))
