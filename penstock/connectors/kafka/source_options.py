"""Options of a Kafka source: its own, and the configuration of its consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy
from penstock.connectors.kafka.properties import check_configuration, client_configuration
from penstock.errors import ConfigurationError

DISCOVERY_INTERVAL: Final = "partition.discovery.interval.ms"
COMMIT_ON_CHECKPOINT: Final = "commit.offsets.on.checkpoint"
START_TIMEOUT: Final = "bootstrap.timeout.ms"
CLIENT_ID_PREFIX: Final = "client.id.prefix"
METRICS: Final = "register.consumer.metrics"

# Few and large responses: with librdkafka's defaults a fast consumer often runs out of messages (measured with messages of 100
# bytes: 180,000 records/s; with these 370,000). Prefetching is bounded by queued.max.messages.kbytes, 64 MB per reader.
_FAST: Final = {
    "queued.min.messages": "1000000",
    "fetch.message.max.bytes": "8388608",
    "fetch.queue.backoff.ms": "10",
    "fetch.error.backoff.ms": "100",
    "reconnect.backoff.max.ms": "1000",
    "isolation.level": "read_uncommitted",  # as with Kafka's Java client
}
_FIXED: Final = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
}
# Options that a client other than a consumer accepts.
_SHARED: Final = (
    "bootstrap.servers", "client.", "security.", "sasl.", "ssl.", "enable.ssl.", "socket.", "broker.", "metadata.",
    "reconnect.", "resolve.", "connections.", "api.", "log", "debug", "enable.sasl", "https.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options from the properties of a source."""

    servers: str
    group_id: str | None
    client_id: str
    discovery_ms: int | None = 300_000  # None: never
    commits: bool = True
    start_timeout_s: float = 30.0
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    consumer: dict[str, Any] = field(default_factory=dict, repr=False)  # may contain passwords

    @property
    def committed_only(self) -> bool:
        """Whether records of transactions are read only once they are committed."""
        return str(self.consumer.get("isolation.level")) == "read_committed"

    def admin(self) -> dict[str, Any]:
        """Return the configuration of an admin client."""
        return {name: value for name, value in self.consumer.items() if name.startswith(_SHARED)}


def source_options(properties: Mapping[str, str], needed_by: str = "KafkaSource") -> SourceOptions:
    """Parse and check the properties of a source.

    >>> options = source_options({"bootstrap.servers": "a:9092", "group.id": "g", "isolation.level": "read_committed"})
    >>> options.group_id, options.discovery_ms, options.committed_only
    ('g', 300000, True)
    """
    rest = dict(properties)
    interval = _milliseconds(rest.pop(DISCOVERY_INTERVAL, "300000"), DISCOVERY_INTERVAL)
    commits = _flag(rest.pop(COMMIT_ON_CHECKPOINT, "true"), COMMIT_ON_CHECKPOINT)
    start_timeout = _milliseconds(rest.pop(START_TIMEOUT, "30000"), START_TIMEOUT)
    if start_timeout < 1:
        raise ConfigurationError(f"{START_TIMEOUT} must be at least 1, not {start_timeout}")
    rest.pop(METRICS, None)
    group_id = rest.pop("group.id", None)
    client_id = rest.pop(CLIENT_ID_PREFIX, None) or rest.pop("client.id", None) or group_id
    rest.pop("client.id", None)
    reset = _reset(rest.pop("auto.offset.reset", "none"))
    for fixed in _FIXED:
        rest.pop(fixed, None)
    consumer = {
        **_FAST,
        "topic.metadata.refresh.interval.ms": str(min(interval, 300_000) if interval > 0 else -1),
        **client_configuration(rest, "consumer"),
        **_FIXED,
        # librdkafka requires a group, even if it is not used.
        "group.id": group_id or "penstock",
        "client.id": client_id or "penstock",
    }
    if "max.partition.fetch.bytes" in rest:
        del consumer["fetch.message.max.bytes"]
    check_configuration(consumer, "consumer", needed_by)
    return SourceOptions(
        servers=rest.get("bootstrap.servers", ""),
        group_id=group_id,
        client_id=client_id or "penstock",
        discovery_ms=interval if interval > 0 else None,
        commits=commits and group_id is not None,
        start_timeout_s=start_timeout / 1000,
        reset=reset,
        consumer=consumer,
    )


def _milliseconds(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{name} is not a number of milliseconds: {text!r}") from None


def _flag(text: str, name: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ConfigurationError(f"{name} must be true or false, not {text!r}")
    return text.lower() == "true"


def _reset(text: str) -> KafkaOffsetResetStrategy:
    names = {
        "earliest": KafkaOffsetResetStrategy.EARLIEST,
        "smallest": KafkaOffsetResetStrategy.EARLIEST,
        "beginning": KafkaOffsetResetStrategy.EARLIEST,
        "latest": KafkaOffsetResetStrategy.LATEST,
        "largest": KafkaOffsetResetStrategy.LATEST,
        "end": KafkaOffsetResetStrategy.LATEST,
        "none": KafkaOffsetResetStrategy.NONE,
        "error": KafkaOffsetResetStrategy.NONE,
    }
    if text.lower() not in names:
        raise ConfigurationError(
            f"auto.offset.reset must be earliest, latest or none, not {text!r}",
        )
    return names[text.lower()]
