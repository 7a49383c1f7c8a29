"""Raw messages: one value without any envelope, like Flink's raw format."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.serialization import (
    DeserializationSchema,
    Deserialized,
    SerializationSchema,
    deserialize_each,
)
from penstock.common.types import RowKind, make_row
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.formats.base.field_types import FieldType, field_type
from penstock.formats.base.lines import check_charset
from penstock.formats.base.rows import field_values

_NUMBERS = {"BOOLEAN": "?", "TINYINT": "b", "SMALLINT": "h", "INT": "i", "BIGINT": "q", "FLOAT": "f", "DOUBLE": "d"}  # fmt: skip
_ORDERS = {"big-endian": ">", "little-endian": "<"}


class _Raw:
    """Settings of both directions: the type, the charset of text, the byte order of numbers."""

    def __init__(self, type_info: Any, charset: str, endianness: str) -> None:
        found = field_type(type_info)
        self.names: tuple[str, ...] = ()
        if found.kind == "ROW":
            if len(found.fields) != 1:
                raise ArgumentTypeError(
                    "a raw message contains one value",
                    detail=f"the row type has the fields {found.names}",
                )
            self.names = found.names
            found = found.fields[0][1]
        if endianness not in _ORDERS:
            raise ArgumentError(
                "unknown byte order",
                detail=f"endianness={endianness!r}",
                hint="use 'big-endian' or 'little-endian'",
            )
        self.kind: FieldType = found
        self.charset = check_charset(charset)
        self.packed: struct.Struct | None = None
        if found.kind in _NUMBERS:
            self.packed = struct.Struct(_ORDERS[endianness] + _NUMBERS[found.kind])
        elif found.kind not in {"STRING", "BYTES"}:
            raise ArgumentTypeError(
                f"type {found.kind} is not supported by the raw format",
                hint="use a string, bytes, a boolean or a number of fixed size",
            )


class RawDeserializationSchema(DeserializationSchema):
    r"""Deserializes the whole message to one value: a string, bytes, a boolean or a number of fixed size.

    With a row type of one field the records are Rows.

    >>> from penstock.common.typeinfo import Types
    >>> RawDeserializationSchema(Types.INT(), endianness="little-endian").deserialize(b"\x01\x00\x00\x00")
    1
    """

    def __init__(
        self, type_info: Any, *, charset: str = "UTF-8", endianness: str = "big-endian"
    ) -> None:
        self._given = (type_info, charset, endianness)
        self._raw = _Raw(type_info, charset, endianness)
        self._quick = _in_row(_reader(self._raw), self._raw.names)

    def deserialize(self, message: bytes) -> object:
        """Return the value."""
        try:
            return self._quick(message)
        except (struct.error, UnicodeDecodeError) as error:
            raw = self._raw
            what = f"text in {raw.charset}" if raw.packed is None else f"a {raw.kind.kind}"
            why = (
                error
                if raw.packed is None
                else f"it has {len(message)} bytes, not {raw.packed.size}"
            )
            raise RecordError(
                f"a raw message is not {what}: {why}", detail=f"message: {message!r:.200}"
            ) from None

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the values of many messages."""
        return deserialize_each(self._quick, messages, self.deserialize)

    def get_produced_type(self) -> object:
        """Return the type of the values."""
        return self._given[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return _reading, self._given


class RawSerializationSchema(SerializationSchema):
    r"""Serializes one value as the whole message; with a row type of one field, that field of the Row.

    >>> from penstock.common.typeinfo import Types
    >>> RawSerializationSchema(Types.SHORT()).serialize(258)
    b'\x01\x02'
    """

    def __init__(
        self, type_info: Any, *, charset: str = "UTF-8", endianness: str = "big-endian"
    ) -> None:
        self._given = (type_info, charset, endianness)
        self._raw = _Raw(type_info, charset, endianness)
        self._write = _writer(self._raw)

    def serialize(self, value: object) -> bytes:
        """Return the bytes of a value."""
        names = self._raw.names
        try:
            return self._write(field_values(value, names)[0] if names else value)
        except (struct.error, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise RecordError(
                f"cannot write a record as raw {self._raw.kind.kind}: {error}",
                detail=f"record: {value!r:.200}",
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _writing, self._given


def _reading(type_info: object, charset: str, endianness: str) -> RawDeserializationSchema:
    return RawDeserializationSchema(type_info, charset=charset, endianness=endianness)


def _writing(type_info: object, charset: str, endianness: str) -> RawSerializationSchema:
    return RawSerializationSchema(type_info, charset=charset, endianness=endianness)


def _reader(raw: _Raw) -> Callable[[bytes], Any]:
    if raw.kind.kind == "STRING":
        return (
            bytes.decode if raw.charset == "utf-8" else operator.methodcaller("decode", raw.charset)
        )
    if raw.packed is None:
        return bytes
    unpack = raw.packed.unpack
    return lambda message: unpack(message)[0]


def _writer(raw: _Raw) -> Callable[[Any], bytes]:
    if raw.kind.kind == "STRING":
        return lambda value: _of_class(value, str).encode(raw.charset)
    if raw.packed is None:
        return lambda value: bytes(_of_class(value, (bytes, bytearray, memoryview)))
    pack = raw.packed.pack
    if raw.kind.kind == "BOOLEAN":
        return lambda value: pack(_of_class(value, bool))
    return pack


def _in_row(read: Callable[[bytes], Any], names: tuple[str, ...]) -> Callable[[bytes], Any]:
    if not names:
        return read
    return lambda message: make_row(names, [read(message)], RowKind.INSERT)


def _of_class(value: object, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"its type is {type(value).__qualname__}")
    return value
