"""Translates permanent errors of Kafka to errors of the job, with hints."""

from __future__ import annotations

from typing import Any

from penstock.connectors.kafka.errors import KafkaRefusedError
from penstock.connectors.kafka.properties import confluent_kafka
from penstock.errors import PenstockError

_CREDENTIALS = {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"}
_RIGHTS = {
    "TOPIC_AUTHORIZATION_FAILED": "grant the user of the job READ and DESCRIBE on the topic",
    "GROUP_AUTHORIZATION_FAILED": "grant the user of the job READ on the group",
    "CLUSTER_AUTHORIZATION_FAILED": "grant the user of the job DESCRIBE on the cluster",
}


def error_of(error: object) -> Any:
    """Return the KafkaError of an exception, or of an error itself."""
    args = getattr(error, "args", None)
    return args[0] if args and hasattr(args[0], "code") else error


def is_kind(error: Any, *names: str) -> bool:
    """Whether an error has one of these librdkafka error names."""
    kinds = confluent_kafka("Kafka").KafkaError
    return error.code() in {getattr(kinds, name) for name in names}


def fatal_error(error: Any, servers: str, what: str) -> PenstockError | None:
    """Return the error to raise for a permanent error; None for others."""
    if is_kind(error, *_CREDENTIALS):
        return KafkaRefusedError(
            f"the broker rejected the credentials: {error.str()}",
            detail=f"{what} at {servers}",
            hint="check security.protocol, sasl.mechanism, user and password (sasl.jaas.config, or sasl.username and sasl.password)",
        )
    if is_kind(error, "_SSL"):
        return PenstockError(
            f"the TLS connection with the broker failed: {error.str()}",
            detail=f"{what} at {servers}",
            hint="check security.protocol, the broker's port and certificate, and ssl.ca.location (ssl.truststore.location)",
        )
    for name, hint in _RIGHTS.items():
        if is_kind(error, name):
            return KafkaRefusedError(
                f"the broker denied access: {error.str()}",
                detail=f"{what} at {servers}",
                hint=hint,
            )
    if error.fatal():
        return PenstockError(
            f"fatal error of the Kafka client: {error.str()}", detail=f"{what} at {servers}"
        )
    return None
