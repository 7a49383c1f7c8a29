"""The options of Kafka tables, and the offsets that they define."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from penstock.errors import ConfigurationError
from penstock.options.option_checks import log_once
from penstock.sql.connector.options import (
    Option,
    duration,
    flag,
    number,
    text,
)

LOSSES: Final = "sink.ignore-lost-transactions"
COMMON: Final = (
    text("properties.bootstrap.servers", required=True),
    number("scan.parallelism"),
    number("sink.parallelism"),
    text(
        "sink.delivery-guarantee",
        "at-least-once",
        choices=("exactly-once", "at-least-once", "none"),
    ),
    text("sink.transactional-id-prefix"),
    flag(LOSSES),
    text("key.fields-prefix", ""),
    text("value.fields-include", "all", choices=("all", "except_key")),
)
_RESET: Final = "properties.auto.offset.reset"
STARTUP: Final = (
    "earliest-offset",
    "latest-offset",
    "group-offsets",
    "timestamp",
    "specific-offsets",
)
BOUNDED: Final = (
    "unbounded",
    "latest-offset",
    "group-offsets",
    "timestamp",
    "specific-offsets",
)
_BOUNDS: Final = (
    text("scan.bounded.mode", "unbounded", choices=BOUNDED),
    text("scan.bounded.specific-offsets"),
    number("scan.bounded.timestamp-millis"),
)
KAFKA: Final[tuple[Option, ...]] = (
    *COMMON,
    *_BOUNDS,
    text("topic"),
    text("topic-pattern"),
    text("format"),
    text("key.format"),
    text("key.fields"),
    text("value.format"),
    text("scan.startup.mode", "group-offsets", choices=STARTUP),
    text("scan.startup.specific-offsets"),
    number("scan.startup.timestamp-millis"),
    duration("scan.topic-partition-discovery.interval", 300_000),
    text("sink.partitioner", "default", choices=("default", "fixed", "round-robin")),
)
_UNBUFFERED: Final = "every change is written; the query already folds changes within a batch"
UPSERT_KAFKA: Final[tuple[Option, ...]] = (
    *COMMON,
    *_BOUNDS,
    text("topic", required=True),
    text("key.format", required=True),
    text("value.format", required=True),
    number("sink.buffer-flush.max-rows", 0, no_effect=_UNBUFFERED),
    duration("sink.buffer-flush.interval", 0, no_effect=_UNBUFFERED),
)


def warn_of_unused_offsets(
    options: Mapping[str, Any], given: Mapping[str, str], table: str
) -> None:
    """Name times and offsets to begin or end at that another mode leaves out."""
    for prefix in ("scan.startup", "scan.bounded"):
        for name, needed in (
            ("timestamp-millis", "timestamp"),
            ("specific-offsets", "specific-offsets"),
        ):
            key, mode = f"{prefix}.{name}", options.get(f"{prefix}.mode")
            if key in given and mode != needed:
                log_once(
                    f"table {table}: option '{key}' has no effect: '{prefix}.mode' is '{mode}'"
                )


def properties_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the client."""
    return {
        key.removeprefix("properties."): value
        for key, value in options.items()
        if key.startswith("properties.")
    }


def start_of(
    options: Mapping[str, Any], topic: str | None, table: str, properties: Mapping[str, str]
) -> KafkaOffsetsInitializer:
    """Return where reading begins. As in Flink, a property of the client says where, if the group has no offset."""
    reset = properties.get(_RESET.removeprefix("properties."), "none")
    match options.get("scan.startup.mode", "earliest-offset"):
        case "earliest-offset":
            return KafkaOffsetsInitializer.earliest()
        case "latest-offset":
            return KafkaOffsetsInitializer.latest()
        case "group-offsets":
            return _at_groups(reset, table)
        case "timestamp":
            return _at_time(options, "scan.startup", table)
    return _at_offsets(options, "scan.startup", topic, table)


def _at_groups(reset: str, table: str) -> KafkaOffsetsInitializer:
    try:
        strategy = KafkaOffsetResetStrategy[reset.upper()]
    except KeyError as error:
        raise ConfigurationError(
            f"table {table}: invalid value '{reset}' for option '{_RESET}'",
            hint="valid values are earliest, latest and none",
        ) from error
    found = KafkaOffsetsInitializer.committed_offsets(strategy)
    found.reset_hint = (
        f"set '{_RESET}' to 'earliest' or 'latest', or 'scan.startup.mode' to 'earliest-offset'"
    )
    return found


def end_of(
    options: Mapping[str, Any], topic: str | None, table: str
) -> KafkaOffsetsInitializer | None:
    """Return where reading ends; None: nowhere."""
    match options["scan.bounded.mode"]:
        case "unbounded":
            return None
        case "latest-offset":
            return KafkaOffsetsInitializer.latest()
        case "group-offsets":
            return KafkaOffsetsInitializer.committed_offsets()
        case "timestamp":
            return _at_time(options, "scan.bounded", table)
    return _at_offsets(options, "scan.bounded", topic, table)


def _at_time(options: Mapping[str, Any], prefix: str, table: str) -> KafkaOffsetsInitializer:
    moment = options[f"{prefix}.timestamp-millis"]
    if moment is None:
        raise _missing_option(table, f"{prefix}.timestamp-millis", f"{prefix}.mode", "timestamp")
    return KafkaOffsetsInitializer.timestamp(moment)


def _at_offsets(
    options: Mapping[str, Any], prefix: str, topic: str | None, table: str
) -> KafkaOffsetsInitializer:
    written = options[f"{prefix}.specific-offsets"]
    if written is None or topic is None:
        raise _missing_option(
            table, f"{prefix}.specific-offsets", f"{prefix}.mode", "specific-offsets"
        )
    offsets = {}
    for part in written.split(";"):
        try:
            pairs = dict(each.split(":") for each in part.split(","))
            offsets[KafkaTopicPartition(topic, int(pairs["partition"]))] = int(pairs["offset"])
        except (ValueError, KeyError) as error:
            raise ConfigurationError(
                f"table {table}: invalid value '{written}' for option '{prefix}.specific-offsets'",
                hint="write 'partition:0,offset:42;partition:1,offset:300'",
            ) from error
    return KafkaOffsetsInitializer.offsets(offsets)


def _missing_option(table: str, option: str, because: str, value: str) -> ConfigurationError:
    return ConfigurationError(
        f"table {table} is missing option '{option}'", detail=f"'{because}' is '{value}'"
    )
