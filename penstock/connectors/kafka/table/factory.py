"""The factories of `kafka` and `upsert-kafka`, and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.catalogs.tables import MetadataColumn, PhysicalColumn
from penstock.connectors.base.delivery import DeliveryGuarantee
from penstock.connectors.kafka.serialization import (
    FlinkFixedPartitioner,
    KafkaRecordSerializationSchema,
)
from penstock.connectors.kafka.sink import KafkaSink
from penstock.connectors.kafka.source import KafkaSource
from penstock.connectors.kafka.source_options import DISCOVERY_INTERVAL
from penstock.connectors.kafka.table.options import (
    KAFKA,
    LOSSES,
    OPTION_GROUPS,
    UPSERT_KAFKA,
    end_of,
    properties_of,
    start_of,
    warn_of_unused_offsets,
)
from penstock.connectors.kafka.table.records import (
    METADATA,
    WRITABLE,
    ChangeRows,
    ColumnSource,
    HeadersOf,
    PartWriter,
    RecordRows,
    TimestampOf,
    is_tombstone,
)
from penstock.errors import ConfigurationError
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.formats import (
    MessageFormat,
    find_message_format,
    message_format,
    message_format_names,
)
from penstock.sql.connector.options import checked
from penstock.sql.connector.providers import (
    ScanProvider,
    SinkProvider,
    TableContext,
    TableFactory,
)
from penstock.sql.types import DataType

_VALUE = "value."  # prefix of metadata keys of the value format
_GUARANTEES = {
    "exactly-once": DeliveryGuarantee.EXACTLY_ONCE,
    "at-least-once": DeliveryGuarantee.AT_LEAST_ONCE,
    "none": DeliveryGuarantee.NONE,
}


def _free(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return how options begin that others check: the client, and the formats that the table has."""
    value = given.get("format") or given.get("value.format")
    return "properties.", f"{value}.", f"value.{value}.", f"key.{given.get('key.format')}."


class KafkaFactory(TableFactory):
    """Messages of topics, read and written."""

    identifier = "kafka"
    options = KAFKA
    option_groups = OPTION_GROUPS
    upserts = False

    def source(self, context: TableContext) -> KafkaTable:
        """Return the table to read."""
        return KafkaTable(context, upserts=self.upserts)

    def sink(self, context: TableContext) -> KafkaTable:
        """Return the table to write."""
        return KafkaTable(context, upserts=self.upserts)


class UpsertKafkaFactory(KafkaFactory):
    """The latest message of each key: a message without a value deletes its key."""

    identifier = "upsert-kafka"
    options = UPSERT_KAFKA
    upserts = True


class KafkaTable:
    """A topic, to be read or written."""

    def __init__(self, context: TableContext, *, upserts: bool) -> None:
        table = context.table
        self._name = str(table.path)
        self._upserts = upserts
        self._given = context.options
        self._batch = context.batch
        known = UPSERT_KAFKA if upserts else KAFKA
        self._options = checked(context.options, known, self._name, free=_free(context.options))
        self._columns = {
            each.name: each.type for each in table.columns if isinstance(each, PhysicalColumn)
        }
        self._metadata = {
            each.name: each.key for each in table.columns if isinstance(each, MetadataColumn)
        }
        # The columns that a sink gets, in this order.
        self._written = [
            each.name
            for each in table.columns
            if isinstance(each, PhysicalColumn)
            or (isinstance(each, MetadataColumn) and not each.virtual)
        ]
        self._metadata_types = {
            each.name: each.type for each in table.columns if isinstance(each, MetadataColumn)
        }
        self._check_metadata()
        self._key_names = self._keys(table.primary_key)
        self._key = self._key_format()
        self._value = self._value_format()
        self._names: Sequence[str] = [*self._columns, *self._metadata]

    # Formats

    def _check_metadata(self) -> None:
        known = [*METADATA, *(f"{_VALUE}{key}" for key in self._value_metadata())]
        unknown = [key for key in self._metadata.values() if key not in known]
        if unknown:
            raise ConfigurationError(
                f"table {self._name}: unknown metadata key '{unknown[0]}'",
                hint=f"available metadata: {', '.join(known)}",
            )

    def _value_metadata(self) -> tuple[str, ...]:
        return find_message_format(self._value_kind(), self._name).metadata_keys

    def _keys(self, primary_key: tuple[str, ...] | None) -> list[str]:
        if self._upserts:
            if not primary_key:
                raise ConfigurationError(
                    f"table {self._name} of connector 'upsert-kafka' has no primary key",
                    detail="the message key identifies the row",
                    hint="add PRIMARY KEY (column) NOT ENFORCED",
                )
            return list(primary_key)
        written = self._options["key.fields"]
        names = [] if not written else [each.strip() for each in written.split(";")]
        missing = [each for each in names if each not in self._columns]
        if missing:
            raise ConfigurationError(
                f"table {self._name}: 'key.fields' names '{missing[0]}', which is not a column",
                hint=f"the columns are {', '.join(self._columns)}",
            )
        return names

    def _key_format(self) -> MessageFormat | None:
        kind, prefix = self._options["key.format"], self._options["key.fields-prefix"]
        if not self._upserts:
            self._check_key_options()
        if kind is None:
            return None
        columns = {name.removeprefix(prefix): self._columns[name] for name in self._key_names}
        return message_format(kind, self._given, [f"key.{kind}."], columns, self._name)

    def _check_key_options(self) -> None:
        """Reject options of keys that mean nothing without others."""
        for given, needed in (("key.fields", "key.format"), ("key.format", "key.fields")):
            if self._options[given] and not self._options[needed]:
                raise ConfigurationError(
                    f"table {self._name}: '{given}' needs '{needed}'",
                    hint=f"add '{needed}' to WITH (...), or remove '{given}'",
                )
        if self._key_names and self._options["sink.partitioner"] == "round-robin":
            raise ConfigurationError(
                f"table {self._name}: 'sink.partitioner' cannot be 'round-robin' with 'key.fields'",
                detail="all messages of a key must go to the same partition",
                hint="remove 'sink.partitioner' or 'key.fields'",
            )
        prefix = self._options["key.fields-prefix"]
        without = [name for name in self._key_names if not name.startswith(prefix)]
        if without:
            raise ConfigurationError(
                f"table {self._name}: key column '{without[0]}' does not start with '{prefix}'",
                detail="the names of all key columns must start with 'key.fields-prefix'",
            )
        if prefix and self._options["value.fields-include"] != "except_key":
            raise ConfigurationError(
                f"table {self._name}: 'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY'",
                detail="otherwise the key columns would also be in the value",
            )

    def _value_kind(self) -> str:
        kind = self._options.get("format") or self._options["value.format"]
        if kind is None:
            raise ConfigurationError(
                f"table {self._name} is missing option 'format'",
                hint=f"valid values are {', '.join(message_format_names())}",
            )
        return str(kind)

    def _value_format(self) -> MessageFormat:
        kind = self._value_kind()
        prefixes = [f"{kind}.", f"value.{kind}."]
        if not self._options.get("format"):
            prefixes.reverse()  # the first one is the one that messages name
        keys = [key for key in self._metadata.values() if key.startswith(_VALUE)]
        return message_format(
            kind,
            self._given,
            prefixes,
            self._value_columns(),
            self._name,
            [key.removeprefix(_VALUE) for key in dict.fromkeys(keys)],
        )

    def _value_columns(self) -> dict[str, DataType]:
        without = self._options["value.fields-include"] == "except_key"
        left_out = set(self._key_names) if without else set()
        return {name: kind for name, kind in self._columns.items() if name not in left_out}

    # Reading

    def changelog_mode(self, requested: ChangelogMode | None = None) -> ChangelogMode:
        """Return the kinds of rows that messages stand for."""
        if self._upserts:
            return ChangelogMode.upsert()
        return self._value.changelog_mode()

    def bounded(self) -> bool:
        """Whether reading ends."""
        return bool(self._options["scan.bounded.mode"] != "unbounded")

    def apply_projection(self, names: Sequence[str]) -> None:
        """Give these columns only."""
        self._names = list(names)

    def scan(self) -> ScanProvider:
        """Return a source of rows."""
        options = self._options
        warn_of_unused_offsets(options, self._given, self._name)
        topic = options["topic"]
        # As in Flink: without a group of its own, a table is one.
        group = {"group.id": f"KafkaSource-{self._name.replace('`', '')}"}
        properties = {**group, **self._discovery(), **properties_of(self._given)}
        builder = KafkaSource.builder().set_properties(properties)
        if topic and options.get("topic-pattern"):
            raise ConfigurationError(
                f"table {self._name} has both 'topic' and 'topic-pattern'",
                hint="remove one of them",
            )
        if topic:
            builder = builder.set_topics(*(each.strip() for each in topic.split(";")))
        elif options.get("topic-pattern"):
            builder = builder.set_topic_pattern(options["topic-pattern"])
        else:
            raise ConfigurationError(f"table {self._name} is missing option 'topic'")
        start = start_of(options, topic, self._name, properties_of(self._given))
        builder = builder.set_starting_offsets(start)
        end = end_of(options, topic, self._name)
        if end is not None:
            builder = builder.set_bounded(end)
        source = builder.set_deserializer(self._rows()).build()
        known = {**self._columns, **self._metadata_types}
        types = tuple(known[name] for name in self._names)
        return ScanProvider(
            source, tuple(self._names), types, parallelism=options["scan.parallelism"]
        )

    def _discovery(self) -> dict[str, str]:
        interval = self._options.get("scan.topic-partition-discovery.interval")
        return {} if interval is None else {DISCOVERY_INTERVAL: str(interval)}

    def _rows(self) -> RecordRows:
        reader = None if self._key is None else self._key.reader()
        places = [self._place(name) for name in self._names]
        if self._value.factory.is_changelog and not self._upserts:
            return ChangeRows(self._value.reader(), reader, places)
        return RecordRows(self._value.reader(), reader, places, upserts=self._upserts)

    def _place(self, name: str) -> ColumnSource:
        values = list(self._value_columns())
        key = self._metadata.get(name)
        if key is not None and key.startswith(_VALUE):
            at = self._value.context.metadata.index(key.removeprefix(_VALUE))
            return ColumnSource("value", len(values) + at)
        if key is not None:
            return ColumnSource("metadata", key)
        if self._key is not None and name in self._key_names:
            return ColumnSource("key", self._key_names.index(name))
        return ColumnSource("value", values.index(name))

    # Writing

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> SinkProvider:
        """Return a sink of rows."""
        options = self._options
        topic = options["topic"]
        if not topic or ";" in topic:
            raise ConfigurationError(f"table {self._name} needs exactly one topic to be written")
        at = {name: index for index, name in enumerate(self._written)}
        values = self._value_columns()
        value_writer = PartWriter(
            self._value.writer(),
            list(values),
            [at[name] for name in values],
            plain=self._upserts,
        )
        schema = (
            KafkaRecordSerializationSchema.builder()
            .set_topic(topic)
            .set_value_serialization_schema(value_writer)
        )
        if self._key is not None:
            key_writer = PartWriter(
                self._key.writer(),
                list(self._key.context.columns),
                [at[name] for name in self._key_names],
                plain=True,
            )
            schema = schema.set_key_serialization_schema(key_writer)
        for name, key in self._metadata.items():
            if name not in at:
                continue
            if key not in WRITABLE:
                raise ConfigurationError(
                    f"table {self._name}: metadata '{key}' cannot be written",
                    detail=f"column '{name}' would be written; writable metadata: {', '.join(WRITABLE)}",
                    hint=f"declare it as read-only: {name} ... METADATA FROM '{key}' VIRTUAL",
                )
            if key == "headers":
                schema = schema.set_headers(HeadersOf(at[name]))
            else:
                schema = schema.set_timestamps(TimestampOf(at[name]))
        if self._options.get("sink.partitioner") == "fixed":
            schema = schema.set_partitioner(FlinkFixedPartitioner())
        if self._upserts:
            schema = schema.set_tombstones(is_tombstone)
        sink = (
            KafkaSink.builder()
            .set_properties(properties_of(self._given))
            .set_bootstrap_servers(options["properties.bootstrap.servers"])
            .set_record_serializer(schema.build())
            .set_delivery_guarantee(_GUARANTEES[options["sink.delivery-guarantee"]])
        )
        if options["sink.transactional-id-prefix"]:
            sink = sink.set_transactional_id_prefix(options["sink.transactional-id-prefix"])
        built = sink.set_ignore_lost_transactions(options[LOSSES]).build()
        built.loss_hint = f"'{LOSSES}' = 'true'"
        return SinkProvider(built, parallelism=options["sink.parallelism"])
