"""Schemas: records to bytes and back, for connectors."""

from __future__ import annotations

import codecs
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from penstock.common.types import Row
from penstock.common.user_types import Record
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError, RecordError
from penstock.errors.not_implemented import not_implemented


def _check_charset(charset: str) -> str:
    try:
        codecs.lookup(charset)
    except (LookupError, TypeError):
        raise ArgumentError(
            f"unknown charset {charset!r}", hint="use a name that Python knows, such as 'UTF-8'"
        ) from None
    return charset


class SerializationSchema(ABC):
    """Turns a record into bytes.

    Sinks hand over many records at once, to `serialize_batch`. A subclass that overrides `serialize` alone is called record by record.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "serialize" in cls.__dict__ and "serialize_batch" not in cls.__dict__:
            # An inherited fast path would bypass the method that is overridden here.
            cls.serialize_batch = SerializationSchema.serialize_batch  # type: ignore[method-assign]

    @abstractmethod
    def serialize(self, value: Record) -> bytes:
        """Return the bytes of a record."""

    def serialize_batch(self, values: Sequence[Any]) -> list[bytes]:
        """Return the bytes of each record, in order; raise what `serialize` raises for the first that cannot be written.

        A sink whose messages may be without a value (Kafka's tombstones) takes a None among them as such.
        """
        return [self.serialize(value) for value in values]


@dataclass(slots=True)
class Deserialized:
    """What became of a batch of messages.

    `records` are in the order of the messages. `indexes` has for each record the number of its message within the batch, ascending; None says that
    record i is that of message i, for all of them. `failures` are the numbers of malformed messages, ascending, with what was raised.
    A message that is in neither had no record to give: a tombstone, or one that the schema leaves out.
    """

    records: list[Any]
    indexes: Sequence[int] | None = None
    failures: Sequence[tuple[int, Exception]] = ()

    def of_each(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return for each record what its message has in `values`: a timestamp, an offset.

        >>> Deserialized(["a", "b", "c"], [0, 2, 2]).of_each([10, 11, 12])
        [10, 12, 12]
        """
        return values if self.indexes is None else [values[index] for index in self.indexes]


class DeserializationSchema(ABC):
    r"""Turns bytes into a record.

    A subclass has `deserialize`, which returns one record, or None to skip a message. `deserialize_many` is for messages that may hold several
    records, such as changes of a table. An exception means that the message is malformed, except for errors of Penstock that are not about a value
    (a missing library, an unavailable schema registry), which fail the job.

    Sources hand over many messages at once, to `deserialize_batch`: one that is malformed costs the others nothing. A subclass that
    overrides one of the others alone is called message by message. A reader makes a batch of what it returns like this:

    >>> from penstock.connectors import MalformedRecord, SourceBatch
    >>> messages, offsets, times = [b"a", b"\xff", None, b"b"], [7, 8, 9, 10], [70, 80, 90, 100]
    >>> found = SimpleStringSchema().deserialize_batch(messages)
    >>> batch = SourceBatch(
    ...     found.records,
    ...     position=offsets[-1] + 1,
    ...     timestamps=list(found.of_each(times)),
    ...     malformed=[
    ...         MalformedRecord.of(
    ...             messages[i], error, {"offset": offsets[i]}, timestamp=times[i], position=offsets[i] + 1
    ...         )
    ...         for i, error in found.failures
    ...     ],
    ... )
    >>> batch.records, batch.timestamps, [bad.origin for bad in batch.malformed]
    (['a', 'b'], [70, 100], [{'offset': 8}])
    """

    #: How many messages were left out because they cannot be parsed, where the schema ignores such errors; sources report it
    skipped: int = 0
    #: What leaves out messages that cannot be parsed, as errors tell it; a table names its option here
    skip_hint: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__dict__
        if ("deserialize" in own or "deserialize_many" in own) and "deserialize_batch" not in own:
            # An inherited fast path would bypass the method that is overridden here.
            cls.deserialize_batch = DeserializationSchema.deserialize_batch  # type: ignore[method-assign]

    @abstractmethod
    def deserialize(self, message: bytes) -> Record:
        """Return the record that the bytes hold; None drops the message."""

    def deserialize_many(self, message: bytes) -> Iterable[Any]:
        """Return all records that the bytes hold, in order."""
        record = self.deserialize(message)
        return () if record is None else (record,)

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the records of many messages, and which of them are malformed. A message that is None (a tombstone) has no record."""
        if type(self).deserialize_many is DeserializationSchema.deserialize_many:
            return deserialize_each(self.deserialize, messages)
        return deserialize_all(self.deserialize_many, messages)

    def use_metrics(self, group: Any) -> None:
        """Take the metrics of the source, before the first message: for what a schema notices about messages that it can read."""

    def is_end_of_stream(self, next_element: Record) -> bool:
        """Whether the stream ends before this record."""
        return False

    def get_produced_type(self) -> Any:
        """Return the type of the records, None if it is not known."""
        return None


def deserialize_each(
    deserialize: Callable[[bytes], Any],
    messages: Sequence[bytes | None],
    careful: Callable[[bytes], Any] | None = None,
) -> Deserialized:
    """Deserialise messages of one record each, or none, at the speed of `map` as long as nothing is wrong.

    A message that `deserialize` raises for is given to `careful`, which has the last word.

    >>> found = deserialize_each(int, [b"1", b"x", None, b"2"])
    >>> found.records, found.indexes, [(i, str(error)) for i, error in found.failures]
    ([1, 2], [0, 3], [(1, "invalid literal for int() with base 10: b'x'")])
    """
    present: Sequence[Any] = messages
    indexes: list[int] | None = None
    if None in messages:
        indexes = [index for index, message in enumerate(messages) if message is not None]
        present = [messages[index] for index in indexes]
    records: list[Any] = []
    failures: list[tuple[int, Exception]] = []
    remaining = iter(present)
    while len(records) < len(present):
        raised: Exception = RuntimeError("the schema raised StopIteration")  # ends a `map` silently
        try:
            # Records that were appended before an error stay in the list, so that none is read twice.
            records.extend(map(deserialize, remaining))
        except Exception as error:  # noqa: BLE001 - the user's schema may raise anything
            raised = error
        at = len(records)
        if at < len(present):
            record, failure = _look_again(careful, present[at], raised)
            records.append(record)
            if failure is not None:
                failures.append((at if indexes is None else indexes[at], failure))
    if None in records:
        kept = [at for at, record in enumerate(records) if record is not None]
        records = [records[at] for at in kept]
        indexes = kept if indexes is None else [indexes[at] for at in kept]
    return Deserialized(records, indexes, failures)


def _look_again(
    careful: Callable[[bytes], Any] | None, message: bytes, raised: Exception
) -> tuple[Any, Exception | None]:
    """Return the record of a message that something was raised for, or what is wrong with it."""
    if careful is not None:
        try:
            return careful(message), None
        except Exception as error:  # noqa: BLE001 - the user's schema may raise anything
            raised = error
    _check_of_the_message(raised)
    return None, raised


def deserialize_all(
    deserialize_many: Callable[[bytes], Iterable[Any]], messages: Sequence[bytes | None]
) -> Deserialized:
    """Deserialise messages that may hold several records each.

    >>> found = deserialize_all(bytes.split, [b"a b", b"", b"c"])
    >>> found.records, found.indexes
    ([b'a', b'b', b'c'], [0, 0, 2])
    """
    records: list[Any] = []
    indexes: list[int] = []
    failures: list[tuple[int, Exception]] = []
    for index, message in enumerate(messages):
        if message is None:
            continue
        try:
            found = list(deserialize_many(message))
        except Exception as error:  # noqa: BLE001 - the user's schema may raise anything
            _check_of_the_message(error)
            failures.append((index, error))
            continue
        records += found
        indexes += [index] * len(found)
    return Deserialized(records, indexes, failures)


def _check_of_the_message(error: Exception) -> None:
    """Raise an error of the schema, as opposed to one of a malformed message."""
    of_values = (
        RecordError,
        ValueError,
        TypeError,
    )  # an ArgumentError is one, too: code that was given bad data
    if isinstance(error, PenstockError) and not isinstance(error, of_values):
        raise error


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text to bytes and back.

    >>> SimpleStringSchema().deserialize(SimpleStringSchema().serialize("héllo"))
    'héllo'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _check_charset(charset)

    def serialize(self, value: Record) -> bytes:
        """Return the text's bytes."""
        if not isinstance(value, str):
            raise RecordError(
                f"{value!r} is not a str", hint="map the records to str before this schema"
            )
        try:
            return value.encode(self.charset)
        except UnicodeEncodeError as error:
            raise RecordError(
                f"{value!r} cannot be written in {self.charset}", detail=str(error)
            ) from None

    def deserialize(self, message: bytes) -> str:
        """Return the bytes as text."""
        try:
            return message.decode(self.charset)
        except UnicodeDecodeError as error:
            raise RecordError(
                f"{message!r} is not text in {self.charset}", detail=str(error)
            ) from None

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the texts of many messages."""
        return deserialize_each(self._decoder(), messages, self.deserialize)

    def _decoder(self) -> Callable[[bytes], str]:
        """Return the function that decodes bytes, without words for what goes wrong."""
        if codecs.lookup(self.charset).name == "utf-8":
            return bytes.decode
        return operator.methodcaller("decode", self.charset)

    def get_produced_type(self) -> Any:
        """Return the type of text."""
        from penstock.common.typeinfo import Types

        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, value: Record) -> bytes:
        """Return the bytes themselves."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise RecordError(
                f"{value!r} is not bytes", hint="map the records to bytes before this schema"
            )
        return bytes(value)

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes themselves."""
        return message

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the messages themselves."""
        if None in messages:
            return deserialize_each(self.deserialize, messages)
        return Deserialized(list(messages))


class RowFieldExtractorSchema(SerializationSchema):
    """Writes one field of a row, which holds bytes; nothing for a field that is None."""

    def __init__(self, field_index: int) -> None:
        if isinstance(field_index, bool) or not isinstance(field_index, int):
            raise ArgumentTypeError(f"field_index is not an int: {field_index!r}")
        if field_index < 0:
            raise ArgumentError(f"field_index must be at least 0, not {field_index}")
        self.field_index = field_index

    def serialize(self, value: Record) -> bytes:
        """Return the bytes in the row's field; none for None, be it the row or the field."""
        if value is None:
            return b""
        if not isinstance(value, Row | tuple | list) or len(value) <= self.field_index:
            raise RecordError(f"{value!r} is not a row with a field {self.field_index}")
        field = value[self.field_index]
        if field is None:
            return b""
        if not isinstance(field, bytes | bytearray | memoryview):
            raise RecordError(
                f"field {self.field_index} of {value!r} is not bytes",
                hint="declare it as Types.PRIMITIVE_ARRAY(Types.BYTE())",
            )
        return bytes(field)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowFieldExtractorSchema) and other.field_index == self.field_index

    def __hash__(self) -> int:
        return hash(self.field_index)


class Encoder(ABC):
    """Turns one record into its bytes in a file, the end of its line included."""

    @abstractmethod
    def encode(self, value: Record) -> bytes:
        """Return the bytes of one record."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        r"""Create an encoder that writes `str(record)` and a newline.

        >>> Encoder.simple_string_encoder().encode((1, "a"))
        b"(1, 'a')\n"
        """
        return _StringEncoder(charset_name)

    @staticmethod
    def of(function: Callable[[Any], str | bytes]) -> Encoder:
        """Create an encoder from a function: a text it returns is a line, bytes are written as they are."""
        if not callable(function):
            raise ArgumentTypeError(f"the encoder is not a function: {function!r}")
        return _FunctionEncoder(function)


class _StringEncoder(Encoder):
    def __init__(self, charset_name: str) -> None:
        self.charset_name = _check_charset(charset_name)

    def encode(self, value: Record) -> bytes:
        return f"{value}\n".encode(self.charset_name)


class _FunctionEncoder(Encoder):
    def __init__(self, function: Callable[[Any], str | bytes]) -> None:
        self.function = function

    def encode(self, value: Record) -> bytes:
        encoded = self.function(value)
        if isinstance(encoded, str):
            return (encoded if encoded.endswith("\n") else f"{encoded}\n").encode()
        if isinstance(encoded, bytes | bytearray):
            return bytes(encoded)
        raise RecordError(
            f"the encoder returned {encoded!r}", hint="return a str or bytes for every record"
        )


class BulkWriter(ABC):
    """Writes many records to one file, in a format that has a beginning and an end."""

    @abstractmethod
    def add_element(self, element: Record) -> None:
        """Take a record."""

    def flush(self) -> None:
        """Write out what is buffered, where the format allows it."""

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file. The stream is left open."""


class BulkWriterFactory(ABC):
    """Creates the writer of a file."""

    get_java_object = not_implemented("there is no JVM object behind a factory")

    @abstractmethod
    def create(self, stream: BinaryIO) -> BulkWriter:
        """Create a writer onto an open stream."""


__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Deserialized",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
    "deserialize_all",
    "deserialize_each",
]
