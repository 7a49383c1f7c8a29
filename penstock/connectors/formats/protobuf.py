"""Protobuf messages as Rows, dicts or messages. Needs protobuf (`pip install penstock[protobuf]`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.connectors.formats.field_types import FieldType, row_type
from penstock.connectors.formats.protobuf_types import ProtobufType, check_row_type, protobuf
from penstock.connectors.formats.protobuf_values import MessageReader, as_dict, as_row, fill
from penstock.errors import ArgumentError, RecordError

_TARGETS = ("row", "dict", "message")


class ProtobufDeserializationSchema(DeserializationSchema):
    """Reads Protobuf messages of a type: as Rows, with `target="dict"` as dicts, with `target="message"` as they are.

    `message` is a class that protoc has generated; `for_descriptor_set` needs none. A `type_info` chooses fields, and may declare an enum as a
    number; else it is the name. A field that is not set is None if Protobuf can tell that, else its default; `read_default_values` gives
    defaults in both cases, as Flink's option does.

    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> ProtobufDeserializationSchema(Timestamp).deserialize(Timestamp(seconds=5).SerializeToString())
    Row(seconds=5, nanos=0)
    """

    skip_hint = "ignore_parse_errors=True leaves such messages out"

    def __init__(
        self,
        message: Any,
        *,
        type_info: Any = None,
        target: str = "row",
        read_default_values: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        if target not in _TARGETS:
            raise ArgumentError(
                "the target is not known", detail=f"it is {target!r}", hint=f"use one of {_TARGETS}"
            )
        self._type = message if isinstance(message, ProtobufType) else ProtobufType(message)
        self._type_info = type_info
        self._row = _checked_row(type_info, self._type)
        self._target = target
        self._defaults = read_default_values
        self._ignore = ignore_parse_errors
        self._convert: Callable[[Any], Any] | None = None

    @classmethod
    def for_descriptor_set(cls, descriptors: bytes | str | Path, name: str, **options: Any) -> Self:
        """Read messages of a type in a descriptor set (bytes, or the file that protoc has written), by its full name."""
        return cls(ProtobufType.in_descriptor_set(descriptors, name), **options)

    def deserialize(self, message: bytes) -> Any:
        """Return the record; None if the message is bad and parse errors are ignored."""
        convert = self._convert
        if convert is None:
            convert = self._convert = self._converter()
        try:
            return convert(self._type.message_class.FromString(bytes(message)))
        except (protobuf("message").DecodeError, UnicodeDecodeError) as error:
            if self._ignore:
                self.skipped += 1
                return None
            raise RecordError(
                f"a message is no {self._type.descriptor.full_name} of Protobuf: {error}",
                detail=f"the message is {message!r:.200}",
                hint=self.skip_hint,
            ) from error

    def get_produced_type(self) -> Any:
        """Return the type of the rows that was given."""
        return self._type_info if self._target == "row" else None

    def _converter(self) -> Callable[[Any], Any]:
        if self._target == "message":
            return lambda message: message
        make = as_row if self._target == "row" else as_dict
        reader = MessageReader(make, defaults=self._defaults)
        return reader.of(self._type.descriptor, self._row)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_convert": None}


class ProtobufSerializationSchema(SerializationSchema):
    r"""Writes Rows, dicts, tuples, objects or messages as Protobuf messages of a type.

    None leaves a field unset; within lists and maps there can be none. Maps are written in the order of their keys, so that equal records
    have equal bytes.

    >>> from google.protobuf.timestamp_pb2 import Timestamp
    >>> ProtobufSerializationSchema(Timestamp).serialize({"seconds": 5})
    b'\x08\x05'
    """

    def __init__(self, message: Any, *, type_info: Any = None) -> None:
        self._type = message if isinstance(message, ProtobufType) else ProtobufType(message)
        self._row = _checked_row(type_info, self._type)

    @classmethod
    def for_descriptor_set(cls, descriptors: bytes | str | Path, name: str, **options: Any) -> Self:
        """Write messages of a type in a descriptor set (bytes, or the file that protoc has written), by its full name."""
        return cls(ProtobufType.in_descriptor_set(descriptors, name), **options)

    @property
    def message_type(self) -> ProtobufType:
        """The type of the messages."""
        return self._type

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a record."""
        kind = self._type.message_class
        try:
            if isinstance(value, protobuf("message").Message):
                _check_same(value, kind)
                message = value
            else:
                message = fill(kind(), value, self._row)
            return bytes(message.SerializeToString(deterministic=True))
        except (TypeError, ValueError, AttributeError, protobuf("message").EncodeError) as error:
            raise RecordError(
                f"a record does not fit the message {kind.DESCRIPTOR.full_name}: {error}",
                detail=f"the record is {value!r:.200}",
            ) from error


def _check_same(message: Any, kind: Any) -> None:
    if message.DESCRIPTOR.full_name != kind.DESCRIPTOR.full_name:
        raise ValueError(f"it is a {message.DESCRIPTOR.full_name}")


def _checked_row(type_info: Any, kind: ProtobufType) -> FieldType | None:
    if type_info is None:
        return None
    row = row_type(type_info)
    check_row_type(row, kind.descriptor)
    return row
