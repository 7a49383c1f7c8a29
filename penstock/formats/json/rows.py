"""JSON: files of JSON lines, and rows as messages."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import functools
import json
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
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.formats.base.decimals import decimal_fitter, to_decimal
from penstock.formats.base.field_types import INTEGER_KINDS, FieldType, row_type
from penstock.formats.base.file_formats import ChunkLocation, Faults, LineFormat
from penstock.formats.base.rows import row_of
from penstock.formats.json.fast import (
    batch_encoder,
    decode_value,
    loads,
    row_decoder,
    row_encoder,
)
from penstock.formats.json.fields import FieldNameCheck
from penstock.formats.json.text import json_writer
from penstock.time.nanoseconds import moment_of

# Numbers with a decimal point keep all their digits.
decode_exactly = json.JSONDecoder(parse_float=decimal.Decimal).decode


class JsonLinesFormat(LineFormat):
    """Reads files with one JSON value per line: as plain Python values or, with a row type, as Rows.

    Empty lines are skipped. With a row type a missing field is None, and undeclared fields are dropped.
    """

    def __init__(
        self, type_info: Any = None, *, charset_name: str = "UTF-8", on_error: str = "fail"
    ) -> None:
        super().__init__(charset_name, on_error)
        self._row = None if type_info is None else row_type(type_info)
        self._read: Callable[[Any], Any] | None = None
        self._fields: FieldNameCheck | None = None

    def use_metrics(self, group: object) -> None:
        """Check the names of fields, if there is a row type."""
        if self._row is not None:
            self._fields = FieldNameCheck(self._row, group)

    def decode(self, line: str) -> Any:
        """Parse one value."""
        if self._row is None:
            return loads(line)
        if self._read is None:
            self._read = text_reader(self._row)
        return self._read(line)

    def decode_lines(self, lines: list[str], place: ChunkLocation, faults: Faults) -> list[Any]:
        """Parse the values of lines."""
        if "" in lines:
            lines = [line for line in lines if line]
        if self._fields is not None and not self._fields.done:
            self._fields.look(lines)
        if self._row is None:
            try:
                return list(map(decode_value, lines))
            except (ValueError, msgspec.MsgspecError, RecursionError):
                pass  # retry line by line
        return super().decode_lines(lines, place, faults)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_read": None, "_fields": None}


class JsonRowDeserializationSchema(DeserializationSchema):
    """Deserializes a JSON object to a Row."""

    skip_hint = "ignore_parse_errors() of the builder skips such messages"

    def __init__(
        self,
        type_info: Any,
        *,
        fail_on_missing_field: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self.type_info = type_info
        self._row = row_type(type_info)
        self._strict = fail_on_missing_field
        self._ignore = ignore_parse_errors
        self._read: Callable[[Any], Any] | None = None
        self._quick: Callable[[Any], Any] | None = None
        self._fields: FieldNameCheck | None = None

    def use_metrics(self, group: object) -> None:
        """Check the names of fields."""
        self._fields = FieldNameCheck(self._row, group)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> object:
        """Return the row; None if the message is malformed and parse errors are ignored."""
        if self._fields is not None and not self._fields.done:
            self._fields.look((message,))
        return self._careful(message)

    def _careful(self, message: bytes) -> object:
        if self._read is None:
            self._read = text_reader(self._row, strict=self._strict)
        try:
            return self._read(message.decode("utf-8-sig"))
        except (ValueError, ArithmeticError, RecordError, RecursionError) as error:
            if self._ignore:
                self.skipped += 1
                return None
            reason = error.message if isinstance(error, RecordError) else error
            raise RecordError(
                f"invalid JSON record: {reason}",
                detail=f"message: {message[:200]!r}",
                hint=self.skip_hint,
            ) from error

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> Deserialized:
        """Return the rows of many messages."""
        if self._fields is not None and not self._fields.done:
            self._fields.look(messages)
        if self._quick is None:
            careful = functools.partial(value_reader, strict=self._strict)
            self._quick = row_decoder(self._row, careful, strict=self._strict)
        return deserialize_each(self._quick, messages, self._careful)

    def get_produced_type(self) -> object:
        """Return the type of the rows."""
        return self.type_info

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_read": None, "_quick": None, "_fields": None}

    class Builder:
        """Builds a JsonRowDeserializationSchema."""

        def __init__(self) -> None:
            self._type_info: Any = None
            self._strict = False
            self._ignore = False

        def type_info(self, type_info: object) -> JsonRowDeserializationSchema.Builder:
            """Set the row type."""
            row_type(type_info)
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Derive the row type from a JSON schema: an object with simple properties."""
            if not json_schema:
                raise ArgumentError("the JSON schema is empty")
            self._type_info = _from_json_schema(json.loads(json_schema))
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Treat a missing field as an error instead of None."""
            self._strict = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Return None for malformed messages instead of failing."""
            self._ignore = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Create the schema."""
            if self._type_info is None:
                raise ArgumentError("a JSON row schema needs a type", hint="call type_info(...)")
            if self._strict and self._ignore:
                raise ArgumentError(
                    "fail_on_missing_field and ignore_parse_errors are mutually exclusive",
                    hint="remove fail_on_missing_field or ignore_parse_errors",
                )
            return JsonRowDeserializationSchema(
                self._type_info,
                fail_on_missing_field=self._strict,
                ignore_parse_errors=self._ignore,
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Serializes a Row as a JSON object."""

    def __init__(self, type_info: Any) -> None:
        self.type_info = type_info
        row = row_type(type_info)
        self._write = row_encoder(row, json_writer(row))
        self._write_all = batch_encoder(row)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: object) -> bytes:
        """Return the JSON text of a row."""
        try:
            return self._write(value)
        except (TypeError, ValueError, ArithmeticError, msgspec.MsgspecError) as error:
            raise RecordError(
                f"cannot write a row as JSON: {error}", detail=f"row: {value!r:.200}"
            ) from error

    def serialize_batch(self, values: Sequence[Any]) -> list[bytes]:
        """Return the JSON text of each row."""
        found = None if self._write_all is None else self._write_all(values)
        return super().serialize_batch(values) if found is None else found

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonRowSerializationSchema, (self.type_info,)

    class Builder:
        """Builds a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: Any = None

        def with_type_info(self, type_info: object) -> JsonRowSerializationSchema.Builder:
            """Set the row type."""
            row_type(type_info)
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Create the schema."""
            if self._type_info is None:
                raise ArgumentError(
                    "a JSON row schema needs a type", hint="call with_type_info(...)"
                )
            return JsonRowSerializationSchema(self._type_info)


def text_reader(row: FieldType, *, strict: bool = False) -> Callable[[str], Row]:
    """Return the function that parses JSON text to a Row; decimals keep all digits of the text."""
    read = row_reader(row, strict=strict)
    decode = decode_exactly if has_decimals(row) else loads
    return lambda text: read(decode(text))


def has_decimals(kind: FieldType) -> bool:
    """Whether a type contains a decimal, at any depth."""
    return kind.kind == "DECIMAL" or any(has_decimals(inner) for _, inner in kind.fields)


def row_reader(row: FieldType, *, strict: bool = False) -> Callable[[Any], Row]:
    """Return the function that converts a JSON object to a Row."""
    fields = [(name, kind, value_reader(kind, strict=strict)) for name, kind in row.fields]
    names = row.names

    def read(document: Any) -> Row:
        if not isinstance(document, dict):
            raise ValueError(  # noqa: TRY004 - the data is wrong, not the call
                f"expected a JSON object, got {type(document).__name__}"
            )
        values: list[Any] = []
        for name, kind, convert in fields:
            value = document.get(name)
            if value is None:
                if strict and name not in document:
                    raise ValueError(f"field {name!r} is missing")
                values.append(None)
                continue
            try:
                values.append(convert(value))
            except (TypeError, ValueError, ArithmeticError) as error:
                why = error if kind.fields else f"cannot read {value!r:.80} as {kind.kind}"
                raise ValueError(f"field {name!r}: {why}") from None
        return row_of(names, values)

    return read


def value_reader(kind: FieldType, *, strict: bool = False) -> Callable[[Any], Any]:
    """Return the function that converts a JSON value to a value of a type."""
    name = kind.kind
    if name == "ROW":
        return row_reader(kind, strict=strict)
    if name == "ARRAY":
        element = value_reader(kind.fields[0][1], strict=strict)
        return lambda values: [None if value is None else element(value) for value in values]
    if name == "MAP":
        inner = value_reader(kind.fields[1][1], strict=strict)
        return lambda values: {k: None if v is None else inner(v) for k, v in values.items()}
    if name in INTEGER_KINDS:
        return _integer
    if name == "DECIMAL" and kind.precision is not None:
        return decimal_fitter(kind.precision, kind.scale or 0)
    simple: dict[str, Callable[[Any], Any]] = {
        "STRING": lambda value: value if isinstance(value, str) else json.dumps(value),
        "BOOLEAN": _boolean,
        "FLOAT": float,
        "DOUBLE": float,
        "DECIMAL": to_decimal,
        "DATE": dt.date.fromisoformat,
        "TIME": lambda value: dt.time.fromisoformat(value).replace(tzinfo=None),
        "TIMESTAMP": _local,
        "TIMESTAMP_LTZ": moment_of,
        "BYTES": base64.b64decode,
    }
    return simple.get(name, lambda value: value)


def _local(text: str) -> dt.datetime:
    """Parse a datetime without a time zone; one with a time zone is converted to UTC."""
    value = moment_of(text)
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"not an integer: {value!r}")
    return int(value)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise ValueError(f"not a boolean: {value!r}")


def _from_json_schema(schema: Any) -> FieldType:
    kinds = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "object":
        fields = schema.get("properties", {}).items()
        return FieldType("ROW", tuple((name, _from_json_schema(inner)) for name, inner in fields))
    if kind == "array":
        return FieldType("ARRAY", (("element", _from_json_schema(schema.get("items", {}))),))
    if kind in kinds:
        return FieldType(kinds[kind])
    raise ArgumentTypeError("unknown type in the JSON schema", detail=f"type: {kind!r}")
