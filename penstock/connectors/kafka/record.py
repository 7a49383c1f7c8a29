"""Kafka messages with all metadata, and schemas that turn them into records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from penstock.errors import ArgumentTypeError


class KafkaRecord(NamedTuple):
    """A Kafka message. `timestamp` is in epoch milliseconds; a `value` of None is a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    topic: str
    partition: int
    offset: int
    timestamp: int


class KafkaRecordDeserializationSchema(ABC):
    """Turns a message into a record, given its key, headers, topic, partition, offset and timestamp.

    Override `deserialize_many` for messages with several records, such as changes of a table. An exception means that the message
    is malformed.
    """

    @property
    def skipped(self) -> int:
        """How many messages were skipped because they cannot be parsed, if the schema ignores such errors."""
        return 0

    def use_metrics(self, group: object) -> None:
        """Set the metric group of the source, before the first message, for schemas that count things about valid messages."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> object:
        """Return the record; None skips the message."""

    def deserialize_many(self, record: KafkaRecord) -> Iterable[Any]:
        """Return all records of the message, in order."""
        found = self.deserialize(record)
        return () if found is None else (found,)

    def get_produced_type(self) -> object:
        """Return the type of the records, None if it is unknown."""
        return None

    @staticmethod
    def of(function: Callable[[KafkaRecord], Any]) -> KafkaRecordDeserializationSchema:
        """Create a schema from a function.

        >>> schema = KafkaRecordDeserializationSchema.of(lambda record: (record.key, record.value))
        >>> schema.deserialize(KafkaRecord(b"k", b"v", [], "orders", 0, 17, 1000))
        (b'k', b'v')
        """
        if not callable(function):
            raise ArgumentTypeError(f"the deserializer is not a function: {function!r}")
        return _FunctionSchema(function)


class _FunctionSchema(KafkaRecordDeserializationSchema):
    def __init__(self, function: Callable[[KafkaRecord], Any]) -> None:
        self.function = function

    def deserialize(self, record: KafkaRecord) -> object:
        return self.function(record)
