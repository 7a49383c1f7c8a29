"""Serialization of records to Kafka messages: topic, key, value, partition, headers, timestamp."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.serialization import SerializationSchema
from penstock.common.types import Row
from penstock.common.user_types import Record
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError

Headers = Mapping[str, Any] | Iterable[tuple[str, Any]]
_MOST_TOPIC_CHARACTERS: Final = 249
_TOPIC_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


class KafkaTopicSelector(ABC):
    """Chooses the topic of a record."""

    @abstractmethod
    def apply(self, data: object) -> str:
        """Return the topic of a record."""


class KafkaPartitioner(ABC):
    """Chooses the partition of a record; opened once in every subtask."""

    def open(self, subtask: int, parallelism: int) -> None:
        """Set the writer's subtask and parallelism."""

    @abstractmethod
    def partition(
        self, record: object, key: bytes | None, value: bytes | None, topic: str, partitions: int
    ) -> int:
        """Return a partition, from 0 to `partitions` - 1."""


class FlinkFixedPartitioner(KafkaPartitioner):
    """Makes each subtask write to one partition.

    >>> partitioner = FlinkFixedPartitioner()
    >>> partitioner.open(5, 8)
    >>> partitioner.partition("record", None, b"record", "topic", 3)
    2
    """

    def __init__(self) -> None:
        self._subtask = 0

    def open(self, subtask: int, parallelism: int) -> None:
        """Set the subtask."""
        self._subtask = subtask

    def partition(
        self, record: object, key: bytes | None, value: bytes | None, topic: str, partitions: int
    ) -> int:
        """Return the subtask's partition."""
        return self._subtask % partitions


class _FunctionPartitioner(KafkaPartitioner):
    def __init__(self, function: Callable[[Any, bytes | None, int], int]) -> None:
        self._function = function

    def partition(
        self, record: object, key: bytes | None, value: bytes | None, topic: str, partitions: int
    ) -> int:
        return self._function(record, key, partitions)


@dataclass(slots=True)
class Messages:
    """Messages in columns. A column of None is unset; a single topic applies to all."""

    topic: str | list[str]
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    partitions: list[int] | None = None
    timestamps: list[int] | None = None
    headers: list[Any] | None = None


class KafkaRecordSerializationSchema(SerializationSchema):
    """Turns records into messages. Created by `KafkaRecordSerializationSchema.builder()`."""

    def __init__(
        self,
        *,
        topic: str | Callable[[Any], str],
        value_schema: SerializationSchema,
        key_schema: SerializationSchema | None = None,
        key_of: Callable[[Any], Any] | None = None,
        partitioner: KafkaPartitioner | None = None,
        headers_of: Callable[[Any], Headers] | None = None,
        is_tombstone: Callable[[Any], bool] | None = None,
        writes_timestamps: bool = True,
        timestamp_of: Callable[[Any], int | None] | None = None,
    ) -> None:
        self._topic = topic
        self._value_schema = value_schema
        self._key_schema = key_schema
        self._key_of = key_of
        self._partitioner = partitioner
        self._headers_of = headers_of
        self._is_tombstone = is_tombstone
        self._writes_timestamps = writes_timestamps
        self._timestamp_of = timestamp_of

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Create a builder."""
        return KafkaRecordSerializationSchemaBuilder()

    @property
    def topic(self) -> str | None:
        """The topic of all records; None if it is chosen per record."""
        return self._topic if isinstance(self._topic, str) else None

    def open(self, subtask: int, parallelism: int) -> None:
        """Prepare for one writer."""
        if self._partitioner is not None:
            self._partitioner.open(subtask, parallelism)

    def serialize(self, value: object) -> bytes:
        """Return the bytes of a message's value."""
        return self._value_schema.serialize(value)

    def to_messages(
        self,
        records: list[Any],
        timestamps: Sequence[int | None] | None,
        partitions_of: Callable[[str], int],
    ) -> Messages:
        """Return the messages of records, in order."""
        found = Messages(self._topics(records), self._values(records))
        found.keys = self._keys(records)
        if self._timestamp_of is not None:
            timestamps = [self._timestamp_of(record) for record in records]
        if timestamps is not None and self._writes_timestamps:
            # Timestamps before 1970 are left to the broker's clock, as in Flink.
            found.timestamps = [0 if at is None or at < 0 else at for at in timestamps]
        if self._headers_of is not None:
            found.headers = [_headers(self._headers_of(record)) for record in records]
        if self._partitioner is not None:
            found.partitions = self._partitions(records, found, partitions_of)
        return found

    def _topics(self, records: Sequence[Any]) -> str | list[str]:
        topic = self._topic
        if isinstance(topic, str):
            return topic
        found = [topic(record) for record in records]
        for record, each in zip(records, found, strict=True):
            if not isinstance(each, str) or not each:
                raise RecordError(
                    f"the topic selector returned {each!r}",
                    detail=f"record: {record!r}",
                    hint="return the name of a topic for every record",
                )
        return found

    def _values(self, records: list[Any]) -> list[bytes | None]:
        dead = self._is_tombstone
        if dead is None:
            return self._value_schema.serialize_batch(records)  # type: ignore[return-value]
        serialize = self._value_schema.serialize
        return [None if dead(record) else serialize(record) for record in records]

    def _keys(self, records: list[Any]) -> list[bytes | None] | None:
        schema, key_of = self._key_schema, self._key_of
        if key_of is None:
            return None if schema is None else schema.serialize_batch(records)  # type: ignore[return-value]
        keys = [key_of(record) for record in records]
        if schema is None:
            return [_plain_key(key) for key in keys]
        return [None if key is None else schema.serialize(key) for key in keys]

    def _partitions(
        self, records: Sequence[Any], found: Messages, partitions_of: Callable[[str], int]
    ) -> list[int]:
        assert self._partitioner is not None
        choose, keys, topic = self._partitioner.partition, found.keys, found.topic
        chosen = []
        for index, record in enumerate(records):
            at = topic if isinstance(topic, str) else topic[index]
            count = partitions_of(at)
            key = None if keys is None else keys[index]
            partition = choose(record, key, found.values[index], at, count)
            if not isinstance(partition, int) or not 0 <= partition < count:
                raise RecordError(
                    f"the partitioner returned {partition!r}",
                    detail=f"topic: {at}, which has {count} partitions; record: {record!r}",
                    hint=f"return a number from 0 to {count - 1}",
                )
            chosen.append(partition)
        return chosen


class KafkaRecordSerializationSchemaBuilder:
    """Builds a `KafkaRecordSerializationSchema`: a topic or a selector, and a value schema, are required.

    >>> from penstock.common.serialization import SimpleStringSchema
    >>> schema = (
    ...     KafkaRecordSerializationSchema.builder()
    ...     .set_topic("orders")
    ...     .set_value_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> schema.to_messages(["a"], None, lambda topic: 1).values
    [b'a']
    """

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] | None = None
        self._value_schema: SerializationSchema | None = None
        self._key_schema: SerializationSchema | None = None
        self._key_of: Callable[[Any], Any] | None = None
        self._partitioner: KafkaPartitioner | None = None
        self._headers_of: Callable[[Any], Headers] | None = None
        self._is_tombstone: Callable[[Any], bool] | None = None
        self._writes_timestamps = True
        self._timestamp_of: Callable[[Any], int | None] | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records to one topic."""
        self._check_no_topic()
        self._topic = check_topic(topic)
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of each record: a `KafkaTopicSelector`, or a function of the record."""
        self._check_no_topic()
        if isinstance(topic_selector, KafkaTopicSelector):
            self._topic = topic_selector.apply
        elif callable(topic_selector) and not isinstance(topic_selector, type):
            self._topic = topic_selector
        else:
            raise ArgumentTypeError(
                f"the topic selector is not a KafkaTopicSelector: {topic_selector!r}"
            )
        return self

    def _check_no_topic(self) -> None:
        if self._topic is not None:
            raise ArgumentError(
                "the topic is already set", hint="set either a topic or a selector, once"
            )

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of keys; with `set_key_field`, it serializes this field."""
        self._key_schema = _check_schema(key_serialization_schema, "key_serialization_schema")
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of values; if it returns None for a record, a tombstone is written."""
        self._value_schema = _check_schema(value_serialization_schema, "value_serialization_schema")
        return self

    def set_key_field(self, field: str | int) -> KafkaRecordSerializationSchemaBuilder:
        """Use a field of the record as key: a name (Row, dict, object) or an index (Row, tuple, list).

        Without a key schema, str, bytes and numbers are written as text; None means no key.
        """
        if isinstance(field, bool) or not isinstance(field, str | int):
            raise ArgumentTypeError(f"the key field must be a name or an index, not {field!r}")
        self._key_of = _Field(field)
        return self

    def set_partitioner(
        self, partitioner: KafkaPartitioner | Callable[[Any, bytes | None, int], int]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the partitioner: a `KafkaPartitioner`, or a function of the record, its key and the number of partitions.

        The default is Kafka's own: by the key, like Java's producers, or batch by batch without one.
        """
        if isinstance(partitioner, KafkaPartitioner):
            self._partitioner = partitioner
        elif callable(partitioner) and not isinstance(partitioner, type):
            self._partitioner = _FunctionPartitioner(partitioner)
        else:
            raise ArgumentTypeError(f"the partitioner is not a KafkaPartitioner: {partitioner!r}")
        return self

    def set_headers(
        self, headers: Callable[[Any], Headers]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Add headers: a function of the record that returns a dict, or pairs of names and values (str, bytes or None)."""
        self._headers_of = _check_function(headers, "the headers")
        return self

    def set_tombstones(
        self, is_tombstone: Callable[[Any], bool]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set a function that says for which records to write a tombstone, which deletes their key in a compacted topic."""
        self._is_tombstone = _check_function(is_tombstone, "is_tombstone")
        return self

    def set_write_timestamps(self, write_timestamps: bool) -> KafkaRecordSerializationSchemaBuilder:
        """Set whether the timestamps of records are written to messages (default yes)."""
        if not isinstance(write_timestamps, bool):
            raise ArgumentTypeError(f"write_timestamps is not a bool: {write_timestamps!r}")
        self._writes_timestamps = write_timestamps
        return self

    def set_timestamps(
        self, timestamp: Callable[[Any], int | None]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the timestamps of messages: a function of the record to epoch milliseconds, or None for the broker's clock."""
        self._timestamp_of = _check_function(timestamp, "the timestamp")
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Create the schema."""
        if self._topic is None:
            raise ArgumentError(
                "no topic is set", hint="call set_topic(...) or set_topic_selector(...)"
            )
        if self._value_schema is None:
            raise ArgumentError(
                "no value serialization schema is set",
                hint="call for example set_value_serialization_schema(SimpleStringSchema())",
            )
        if self._is_tombstone is not None and self._key_schema is None and self._key_of is None:
            raise ArgumentError("tombstones need keys", hint="call set_key_field(...)")
        return KafkaRecordSerializationSchema(
            topic=self._topic,
            value_schema=self._value_schema,
            key_schema=self._key_schema,
            key_of=self._key_of,
            partitioner=self._partitioner,
            headers_of=self._headers_of,
            is_tombstone=self._is_tombstone,
            writes_timestamps=self._writes_timestamps,
            timestamp_of=self._timestamp_of,
        )


class _Field:
    """Reads one field of a record."""

    def __init__(self, field: str | int) -> None:
        self._field = field

    def __call__(self, record: Record) -> object:
        field = self._field
        try:
            if isinstance(field, int) or isinstance(record, Row | Mapping):
                return record[field]
            return getattr(record, field)
        except (LookupError, AttributeError, TypeError, ValueError):
            raise RecordError(f"{record!r} has no key field {field!r}") from None


def check_topic(topic: object) -> str:
    """Return a topic name after checking that it is valid."""
    if not isinstance(topic, str):
        raise ArgumentTypeError(f"the topic is not a str: {topic!r}")
    wrong = set(topic) - _TOPIC_CHARACTERS
    if not topic or topic in {".", ".."} or wrong or len(topic) > _MOST_TOPIC_CHARACTERS:
        raise ArgumentError(
            f"invalid topic name {topic!r}",
            hint="use at most 249 letters, digits, '.', '_' and '-'",
        )
    return topic


def _check_schema(schema: object, what: str) -> SerializationSchema:
    if not isinstance(schema, SerializationSchema):
        raise ArgumentTypeError(
            f"{what} is not a SerializationSchema: {schema!r}",
            hint="use SimpleStringSchema() for text, ByteArraySchema() for bytes",
        )
    return schema


def _check_function(function: object, what: str) -> Any:
    if not callable(function) or isinstance(function, type):
        raise ArgumentTypeError(f"{what} is not a function of the record: {function!r}")
    return function


def _plain_key(key: object) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, int | float):
        return str(key).encode()
    raise RecordError(
        f"the key {key!r} is not a str, bytes or a number",
        hint="call set_key_serialization_schema(...)",
    )


def _headers(headers: Headers | None) -> list[tuple[str, Any]] | None:
    if not headers:
        return None
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found = [(name, value) for name, value in pairs]
    for name, value in found:
        if not isinstance(name, str) or not (value is None or isinstance(value, str | bytes)):
            raise RecordError(
                f"a header must be a name with a str, bytes or None, not {name!r}: {value!r}"
            )
    return found
