"""What Kafka's errors mean for a job, and what to check."""

from __future__ import annotations

from typing import Any

from penstock.connectors.kafka.errors import KafkaRefusedError
from penstock.connectors.kafka.properties import confluent_kafka
from penstock.errors import PenstockError

_CREDENTIALS = {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"}
_RIGHTS = {
    "TOPIC_AUTHORIZATION_FAILED": "allow READ and DESCRIBE on the topic to the user of the job",
    "GROUP_AUTHORIZATION_FAILED": "allow READ on the group to the user of the job",
    "CLUSTER_AUTHORIZATION_FAILED": "allow DESCRIBE on the cluster to the user of the job",
}


def error_of(error: Any) -> Any:
    """Return the KafkaError of an exception, or of an error itself."""
    args = getattr(error, "args", None)
    return args[0] if args and hasattr(args[0], "code") else error


def is_kind(error: Any, *names: str) -> bool:
    """Whether an error is one of these, by the names of librdkafka's codes."""
    kinds = confluent_kafka("Kafka").KafkaError
    return error.code() in {getattr(kinds, name) for name in names}


def hopeless(error: Any, servers: str, what: str) -> PenstockError | None:
    """Return what to raise for an error that waiting does not mend; None for others."""
    if is_kind(error, *_CREDENTIALS):
        return KafkaRefusedError(
            f"the broker refuses the credentials: {error.str()}",
            detail=f"{what} at {servers}",
            hint="check security.protocol, sasl.mechanism, user and password (sasl.jaas.config, or sasl.username and sasl.password)",
        )
    if is_kind(error, "_SSL"):
        return PenstockError(
            f"there is no TLS connection with the broker: {error.str()}",
            detail=f"{what} at {servers}",
            hint="check security.protocol, the broker's port and certificate, and ssl.ca.location (ssl.truststore.location)",
        )
    for name, hint in _RIGHTS.items():
        if is_kind(error, name):
            return KafkaRefusedError(
                f"the broker does not allow it: {error.str()}",
                detail=f"{what} at {servers}",
                hint=hint,
            )
    if error.fatal():
        return PenstockError(
            f"the Kafka client has failed for good: {error.str()}", detail=f"{what} at {servers}"
        )
    return None
