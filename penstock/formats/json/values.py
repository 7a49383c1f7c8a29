"""JSON messages with any value: dicts, lists, or objects of a class."""

from __future__ import annotations

import base64
import decimal
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.common.serialization import (
    DeserializationSchema,
    Deserialized,
    SerializationSchema,
    deserialize_each,
)
from penstock.common.types import Row
from penstock.errors import ArgumentTypeError, RecordError
from penstock.formats.json.fast import all_finite, decode_value, loads
from penstock.formats.json.text import json_text
from penstock.time.durations import Instant

_KEPT = (decimal.Decimal,)  # written as numbers


class JsonDeserializationSchema(DeserializationSchema):
    """Deserializes any JSON value: to dicts, lists, str and numbers; or to objects of a class (a dataclass, a TypedDict, ...).

    `null` is skipped. With `decimals`, numbers with a decimal point or an exponent are Decimals with all their digits.

    >>> JsonDeserializationSchema().deserialize(b'{"id": 7, "tags": ["a"]}')
    {'id': 7, 'tags': ['a']}
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Order:
    ...     id: int
    ...     amount: float = 0.0
    >>> JsonDeserializationSchema(Order).deserialize(b'{"id": 7}')
    Order(id=7, amount=0.0)
    """

    skip_hint = "ignore_parse_errors=True skips such messages"

    def __init__(
        self, target: Any = None, *, decimals: bool = False, ignore_parse_errors: bool = False
    ) -> None:
        if target is not None and decimals:
            raise ArgumentTypeError(
                "decimals cannot be combined with a class",
                hint="declare Decimal fields in the class instead",
            )
        self._target = target
        self._decimals = decimals
        self._ignore = ignore_parse_errors
        self._made: tuple[Callable[[bytes], Any], Callable[[bytes], Any]] | None = None
        self._functions()  # fails now if the class is not supported

    def deserialize(self, message: bytes) -> object:
        """Return the value; None if the message is malformed and parse errors are ignored."""
        try:
            return self._functions()[1](message)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            if self._ignore:
                self.skipped += 1
                return None
            raise RecordError(
                f"cannot read a message as JSON: {error}",
                detail=f"message: {message[:200]!r}",
                hint=self.skip_hint,
            ) from error

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the values of many messages."""
        return deserialize_each(self._functions()[0], messages, self.deserialize)

    def _functions(self) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
        """Return the fast function and the fallback that decides."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
        if self._decimals:
            read = _exact_numbers
            return read, read
        if self._target is None:
            return decode_value, loads
        try:
            typed: Callable[[bytes], Any] = msgspec.json.Decoder(self._target).decode
        except (TypeError, NameError) as error:
            raise ArgumentTypeError(
                "unsupported class for JSON",
                detail=f"{self._target!r}: {error}",
                hint="pass a dataclass, a TypedDict, a NamedTuple or a type such as list[int]",
            ) from error
        return typed, typed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}


def _exact_numbers(message: bytes) -> object:
    return json.loads(message, parse_float=decimal.Decimal)


class JsonSerializationSchema(SerializationSchema):
    """Serializes any value as JSON: dicts, lists, Rows, dataclasses, dates and times in ISO format, bytes in base64.

    Decimals are numbers with all their digits; NaN and infinities are strings, as in Flink.

    >>> JsonSerializationSchema().serialize({"id": 7, "tags": ("a", None)})
    b'{"id":7,"tags":["a",null]}'
    """

    def __init__(self) -> None:
        self._encode = _encoder()

    def serialize(self, value: object) -> bytes:
        """Return the JSON text of a value."""
        try:
            text = self._encode(value)
            if (
                b"null" in text
            ):  # msgspec writes null for NaN: it could not be distinguished from None
                plain = msgspec.to_builtins(value, builtin_types=_KEPT, enc_hook=_builtin)
                if not all_finite(plain):
                    return self._encode(_with_names_of_numbers(plain))
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise RecordError(
                f"cannot write a record as JSON: {error}",
                detail=f"record: {value!r:.200}",
                hint="map the records to dicts, lists, str and numbers before this schema",
            ) from error
        return text

    def serialize_batch(self, values: Sequence[Any]) -> list[bytes]:
        """Return the JSON texts of many values."""
        try:
            texts = list(map(self._encode, values))
        except Exception:  # noqa: BLE001 - raised again below, with its record
            return [self.serialize(value) for value in values]
        if any(b"null" in text for text in texts):
            return [self.serialize(value) for value in values]
        return texts

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


def _encoder() -> Callable[[Any], bytes]:
    return msgspec.json.Encoder(decimal_format="number", enc_hook=_builtin).encode


def _with_names_of_numbers(value: object) -> object:
    """Return a value with strings instead of NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return json.loads(json_text(value))
    if isinstance(value, dict):
        return {key: _with_names_of_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_with_names_of_numbers, value))
    return value


def _builtin(value: object) -> object:
    """Convert a value to built-in types."""
    if isinstance(value, Row):
        return value.as_dict() if value.get_field_names() is not None else list(value)
    if isinstance(value, Instant):
        return json.loads(json_text(value))
    if isinstance(value, memoryview):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "item"):  # a scalar of numpy
        return value.item()
    raise TypeError(f"{type(value).__qualname__} cannot be written as JSON")
