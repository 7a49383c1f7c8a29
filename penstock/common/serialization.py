"""Schemas: records to bytes and back, for connectors."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, BinaryIO

from penstock.common.not_implemented import not_implemented
from penstock.common.types import Row
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError


def _check_charset(charset: str) -> str:
    try:
        codecs.lookup(charset)
    except (LookupError, TypeError):
        raise ArgumentError(
            f"{charset!r} is not a charset", hint="use a name that Python knows, such as 'UTF-8'"
        ) from None
    return charset


class SerializationSchema(ABC):
    """Turns a record into bytes."""

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a record."""


class DeserializationSchema(ABC):
    """Turns bytes into a record."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the record that the bytes hold; None drops the message."""

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Whether this record says that the stream ends before it."""
        return False


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text to bytes and back.

    >>> SimpleStringSchema().deserialize(SimpleStringSchema().serialize("héllo"))
    'héllo'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _check_charset(charset)

    def serialize(self, value: Any) -> bytes:
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


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, value: Any) -> bytes:
        """Return the bytes themselves."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise RecordError(
                f"{value!r} is not bytes", hint="map the records to bytes before this schema"
            )
        return bytes(value)

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes themselves."""
        return message


class RowFieldExtractorSchema(SerializationSchema):
    """Writes one field of a row, which holds bytes; nothing for a field that is None."""

    def __init__(self, field_index: int) -> None:
        if isinstance(field_index, bool) or not isinstance(field_index, int):
            raise ArgumentTypeError(f"field_index is not an int: {field_index!r}")
        if field_index < 0:
            raise ArgumentError(f"field_index must be at least 0, not {field_index}")
        self.field_index = field_index

    def serialize(self, value: Any) -> bytes:
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
    def encode(self, value: Any) -> bytes:
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

    def encode(self, value: Any) -> bytes:
        return f"{value}\n".encode(self.charset_name)


class _FunctionEncoder(Encoder):
    def __init__(self, function: Callable[[Any], str | bytes]) -> None:
        self.function = function

    def encode(self, value: Any) -> bytes:
        encoded = self.function(value)
        if isinstance(encoded, str):
            return (encoded if encoded.endswith("\n") else f"{encoded}\n").encode()
        if isinstance(encoded, bytes | bytearray):
            return bytes(encoded)
        raise RecordError(
            f"the encoder returned {encoded!r}", hint="it returns a str or bytes for every record"
        )


class BulkWriter(ABC):
    """Writes many records to one file, in a format that has a beginning and an end."""

    @abstractmethod
    def add_element(self, element: Any) -> None:
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
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]
