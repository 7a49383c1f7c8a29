"""Conversion between Kafka messages (key, value, metadata) and rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.types import Row, RowKind
from penstock.connectors.kafka.record import KafkaRecord, KafkaRecordDeserializationSchema
from penstock.errors import RecordError
from penstock.sql import types as t

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

# Readable metadata: key -> type and accessor.
METADATA: Final[dict[str, tuple[t.DataType, Callable[[KafkaRecord], Any]]]] = {
    "topic": (t.VarCharType(2**31 - 1, nullable=False), lambda record: record.topic),
    "partition": (t.IntType(nullable=False), lambda record: record.partition),
    "offset": (t.BigIntType(nullable=False), lambda record: record.offset),
    "timestamp": (
        t.LocalZonedTimestampType(3, nullable=False),
        lambda record: _EPOCH + dt.timedelta(milliseconds=record.timestamp),
    ),
    "headers": (
        t.MapType(t.VarCharType(2**31 - 1), t.VarBinaryType(2**31 - 1), nullable=False),
        lambda record: dict(record.headers),
    ),
}


WRITABLE: Final = ("timestamp", "headers")  # metadata that can be written


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a column of the table comes from: the key's or the value's field by position, or metadata by name."""

    part: str  # key, value, metadata
    at: Any


class RecordRows(KafkaRecordDeserializationSchema):
    """Makes rows of messages: fields of the value, of the key, and metadata.

    `upserts`: a message without value deletes the row of its key, any other is an upsert.
    """

    def __init__(
        self,
        value: DeserializationSchema,
        key: DeserializationSchema | None,
        places: Sequence[ColumnSource],
        *,
        upserts: bool = False,
    ) -> None:
        self._value = value
        self._key = key
        self._places = list(places)
        self._upserts = upserts

    @property
    def skipped(self) -> int:
        """How many messages were left out because their value cannot be parsed."""
        return self._value.skipped

    def use_metrics(self, group: object) -> None:
        """Let the formats of values and keys use them."""
        self._value.use_metrics(group)
        if self._key is not None:
            self._key.use_metrics(group)

    def deserialize(self, record: KafkaRecord) -> object:
        """Return the row of a message that has one; None for one that is not read."""
        if record.value is None:
            return self._row(record, None, RowKind.DELETE) if self._upserts else None
        value = self._value.deserialize(record.value)
        return None if value is None else self._row(record, value, self._kind(value))

    def _kind(self, value: object) -> RowKind:
        if self._upserts:
            return RowKind.UPDATE_AFTER
        return value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT

    def _row(self, record: KafkaRecord, value: object, kind: RowKind) -> Row:
        key = self._key_of(record)
        row = Row(*(self._take(place, record, value, key) for place in self._places))
        row.set_row_kind(kind)
        return row

    def _key_of(self, record: KafkaRecord) -> object:
        if self._key is None:
            return None
        if record.key is None:
            if self._upserts:
                raise RecordError(
                    "Kafka message has no key",
                    detail=f"{record.topic}-{record.partition} at {record.offset}",
                    hint="upsert-kafka identifies rows by the message key",
                )
            return None
        return self._key.deserialize(record.key)

    @staticmethod
    def _take(place: ColumnSource, record: KafkaRecord, value: Any, key: Any) -> object:
        if place.part == "metadata":
            return METADATA[place.at][1](record)
        row = key if place.part == "key" else value
        return None if row is None else row[place.at]


class ChangeRows(RecordRows):
    """Makes rows of messages that are changes of a table: of an update, the row before and the row after."""

    def deserialize_many(self, record: KafkaRecord) -> Iterable[Any]:
        """Return the rows of a message; a tombstone has none."""
        if record.value is None:
            return ()
        found = self._value.deserialize_many(record.value)
        return [self._row(record, value, self._kind(value)) for value in found]


class PartWriter(SerializationSchema):
    """Writes some fields of rows, known by position: those of the key, or those of the value.

    `plain`: the format does not encode the row kind.
    """

    def __init__(
        self,
        inner: SerializationSchema,
        names: Sequence[str],
        at: Sequence[int],
        *,
        plain: bool = False,
    ) -> None:
        self._inner = inner
        self._names = tuple(names)
        self._at = tuple(at)
        self._plain = plain

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of the fields."""
        part = Row(*(value[at] for at in self._at))
        part.set_field_names(list(self._names))
        if not self._plain:
            part.set_row_kind(value.get_row_kind())
        return self._inner.serialize(part)


class HeadersOf:
    """Takes the headers of a message from a column of its row."""

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self, row: Any) -> dict[str, bytes | None]:
        """Return the column; NULL means no headers."""
        return row[self._at] or {}


class TimestampOf:
    """Takes the timestamp of a message from a column of its row."""

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self, row: Any) -> int | None:
        """Return epoch milliseconds; a time without a zone is in UTC."""
        moment = row[self._at]
        if moment is None:
            return None
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        return int((aware - _EPOCH) // dt.timedelta(milliseconds=1))


def is_tombstone(row: Any) -> bool:
    """Whether a row deletes another: in an upsert table such a message has no value."""
    return row.get_row_kind() in {RowKind.DELETE, RowKind.UPDATE_BEFORE}
