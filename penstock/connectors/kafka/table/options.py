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
from penstock.sql.connector.formats import message_format_names
from penstock.sql.connector.options import (
    Option,
    OptionGroup,
    duration,
    flag,
    number,
    text,
)

LOSSES: Final = "sink.ignore-lost-transactions"
COMMON: Final = (
    text(
        "properties.bootstrap.servers", "Addresses of brokers, separated by commas.", required=True
    ),
    number("scan.parallelism", "Parallelism of the source."),
    number("sink.parallelism", "Parallelism of the sink."),
    text(
        "sink.delivery-guarantee",
        "Delivery guarantee of the sink.",
        default="at-least-once",
        choices=("exactly-once", "at-least-once", "none"),
    ),
    text("sink.transactional-id-prefix", "Prefix of the transactional ids of exactly-once sinks."),
    flag(
        LOSSES, "Continue if a transaction of a completed checkpoint is lost, instead of failing."
    ),
    text(
        "key.fields-prefix",
        "Prefix of the key columns' names, which is not in messages.",
        default="",
    ),
    text(
        "value.fields-include",
        "Whether key columns are in the value, too.",
        default="all",
        choices=("all", "except_key"),
    ),
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
    text("scan.bounded.mode", "Where reading ends.", default="unbounded", choices=BOUNDED),
    text(
        "scan.bounded.specific-offsets",
        "Offsets of that mode: 'partition:0,offset:42;partition:1,offset:300'.",
    ),
    number("scan.bounded.timestamp-millis", "Time of that mode, in milliseconds since 1970."),
)
KAFKA: Final[tuple[Option, ...]] = (
    *COMMON,
    *_BOUNDS,
    text("topic", "Topics that are read, separated by semicolons; or the topic that is written."),
    text("topic-pattern", "Regular expression of the topics that are read."),
    text("format", "Format of the value.", suggestions=message_format_names),
    text("key.format", "Format of the key.", suggestions=message_format_names),
    text("key.fields", "Columns of the key, separated by semicolons."),
    text(
        "value.format",
        "Format of the value: another name of 'format'.",
        suggestions=message_format_names,
    ),
    text("scan.startup.mode", "Where reading starts.", default="group-offsets", choices=STARTUP),
    text(
        "scan.startup.specific-offsets",
        "Offsets of that mode: 'partition:0,offset:42;partition:1,offset:300'.",
    ),
    number("scan.startup.timestamp-millis", "Time of that mode, in milliseconds since 1970."),
    duration(
        "scan.topic-partition-discovery.interval",
        "How often new topics and partitions are looked for; 0: never.",
        default_ms=300_000,
    ),
    text(
        "sink.partitioner",
        "How the partition of a message is chosen.",
        default="default",
        choices=("default", "fixed", "round-robin"),
    ),
)
_UNBUFFERED: Final = "every change is written; the query already folds changes within a batch"
UPSERT_KAFKA: Final[tuple[Option, ...]] = (
    *COMMON,
    *_BOUNDS,
    text(
        "topic",
        "Topics that are read, separated by semicolons; or the topic that is written.",
        required=True,
    ),
    text("key.format", "Format of the key.", required=True, suggestions=message_format_names),
    text("value.format", "Format of the value.", required=True, suggestions=message_format_names),
    number(
        "sink.buffer-flush.max-rows", "Most buffered changes.", default=0, no_effect=_UNBUFFERED
    ),
    duration(
        "sink.buffer-flush.interval",
        "Longest time that changes are buffered.",
        default_ms=0,
        no_effect=_UNBUFFERED,
    ),
)
OPTION_GROUPS: Final = (
    OptionGroup("properties.", "Properties of the Kafka client."),
    OptionGroup("<format>.", "Options of the value's format, also as 'value.<format>.'."),
    OptionGroup("key.<format>.", "Options of the key's format."),
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
