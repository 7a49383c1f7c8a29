"""Rows of tables as JSON, as Flink SQL writes them: times in the form of SQL or of ISO 8601, maps as objects."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.types import RowKind
from penstock.errors import RecordError, UnsupportedOperationError
from penstock.formats.base.field_types import FieldType, field_type
from penstock.formats.base.rows import row_of
from penstock.formats.changelog.change_events import ChangeEventWriter
from penstock.formats.json.fields import FieldNameCheck
from penstock.formats.json.rows import decode_exactly, value_reader
from penstock.sql import types as t
from penstock.time.nanoseconds import nanos_of_second

Write = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """The options of the JSON format."""

    iso: bool = False
    plain_decimals: bool = False
    without_nulls: bool = False
    null_keys: str = "fail"  # or drop, literal
    null_key: str = "null"


class RowJsonSerializationSchema(SerializationSchema):
    """Writes the rows of a table as JSON objects.

    >>> from penstock.common.types import Row
    >>> kind = t.RowType([t.RowField("at", t.TimestampType(3)), t.RowField("n", t.DecimalType(5, 2))])
    >>> RowJsonSerializationSchema(kind).serialize(Row(dt.datetime(2024, 5, 1, 9, 30), Decimal("1.50")))
    b'{"at":"2024-05-01 09:30:00","n":1.50}'
    """

    def __init__(self, row_type: t.RowType, style: JsonStyle | None = None) -> None:
        self._type = row_type
        self.style = style or JsonStyle()
        self._write: Write | None = None

    def serialize(self, value: object) -> bytes:
        """Return the object of a row."""
        if self._write is None:
            self._write = _Writers(self.style).of(self._type)
        try:
            return self._write(value).encode("utf-8")
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise RecordError(
                f"cannot write row as JSON: {error}", detail=f"the row is {value!r:.200}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type, self.style)


class ChangeJsonSerializationSchema(SerializationSchema):
    """Writes the rows of a table in the envelopes of a change format, with the values that its options ask for.

    >>> from penstock.common.types import Row
    >>> from penstock.formats.changelog.debezium import DebeziumJsonSerializationSchema
    >>> rows = RowJsonSerializationSchema(t.RowType([t.RowField("at", t.TimestampType(3))]))
    >>> ChangeJsonSerializationSchema(DebeziumJsonSerializationSchema, rows).serialize(Row(dt.datetime(2024, 5, 1)))
    b'{"before":null,"after":{"at":"2024-05-01 00:00:00"},"op":"c"}'
    """

    def __init__(
        self, envelopes: type[ChangeEventWriter], rows: RowJsonSerializationSchema
    ) -> None:
        self._envelopes = envelopes
        self._rows = rows
        ends = [envelopes.before, envelopes.after]
        if rows.style.without_nulls:
            ends = [re.sub(r'"\w+":null,', "", each) for each in ends]
        self._before, self._after = (each.encode() for each in ends)

    def serialize(self, value: Any) -> bytes:
        """Return the envelope of a row."""
        gone = value.get_row_kind() in {RowKind.DELETE, RowKind.UPDATE_BEFORE}
        return (self._before if gone else self._after) % self._rows.serialize(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._envelopes, self._rows)


class LenientJsonDeserializationSchema(DeserializationSchema):
    """Reads the rows of a table from JSON, where `ignore-parse-errors` is set: a field that cannot be read is NULL, a text that is not an object is skipped.

    >>> kind = t.RowType([t.RowField("a", t.IntType()), t.RowField("b", t.VarCharType(9))])
    >>> read = LenientJsonDeserializationSchema(kind).deserialize
    >>> read(b'{"a": "x", "b": "y"}'), read(b'{"a":')
    (Row(a=None, b='y'), None)
    """

    def __init__(self, row_type: t.RowType) -> None:
        self._type = row_type
        self._read: Callable[[Any], Any] | None = None
        self._fields: FieldNameCheck | None = None

    def use_metrics(self, group: object) -> None:
        """Look at the names of fields."""
        self._fields = FieldNameCheck(field_type(self._type), group)

    def deserialize(self, message: bytes) -> object:
        """Return the row, or None."""
        if self._read is None:
            self._read = _lenient(field_type(self._type))
        try:
            document = decode_exactly(message.decode("utf-8-sig"))
            if self._fields is not None:
                self._fields.look_at(document)
            found = self._read(document)
        except (ValueError, RecursionError):
            found = None
        self.skipped += found is None
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type,)


def _lenient(kind: FieldType) -> Callable[[Any], Any]:
    """Return a reader for values of a type, which returns None for invalid ones."""
    if kind.kind == "ROW":
        fields = [(name, _lenient(inner)) for name, inner in kind.fields]
        names = kind.names
        return lambda value: (
            row_of(names, [read(value.get(name)) for name, read in fields])
            if isinstance(value, dict)
            else None
        )
    read, bits = value_reader(kind), _BITS.get(kind.kind)

    def one(value: Any) -> Any:
        try:
            found = None if value is None else read(value)
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            return None
        if bits is not None and found is not None and not -(1 << bits) <= found < 1 << bits:
            return None
        return found

    return one


_BITS: Final = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def has_times(kind: t.DataType) -> bool:
    """Whether values of a type hold times, which have a form of their own here."""
    match kind:
        case t.TimeType() | t.TimestampType() | t.LocalZonedTimestampType():
            return True
        case t.ArrayType() | t.MultisetType():
            return has_times(kind.element_type)
        case t.MapType():
            return has_times(kind.key_type) or has_times(kind.value_type)
        case t.RowType():
            return any(has_times(field.data_type) for field in kind.fields)
    return False


class _Writers:
    """Makes functions that write values of a type."""

    def __init__(self, style: JsonStyle) -> None:
        self._style = style

    def of(self, kind: t.DataType) -> Write:
        """Return a writer for values of this type and NULL."""
        write = self._of(kind)
        return lambda value: "null" if value is None else write(value)

    def _of(self, kind: t.DataType) -> Write:
        match kind:
            case t.BooleanType():
                return lambda value: "true" if value else "false"
            case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
                return lambda value: str(int(value))
            case t.FloatType() | t.DoubleType():
                return _number
            case t.DecimalType():
                return self._decimal
            case t.CharType() | t.VarCharType():
                return _text
            case t.BinaryType() | t.VarBinaryType():
                return lambda value: f'"{base64.b64encode(bytes(value)).decode("ascii")}"'
            case t.DateType():
                return lambda value: f'"{value.isoformat()}"'
            case t.TimeType():
                return lambda value: f'"{_clock(value)}"'
            case t.TimestampType():
                return self._timestamp
            case t.LocalZonedTimestampType():
                return self._instant
            case t.ArrayType():
                element = self.of(kind.element_type)
                return lambda value: f"[{','.join(map(element, value))}]"
            case t.MapType():
                return self._map(kind.key_type, kind.value_type)
            case t.MultisetType():
                return self._map(kind.element_type, t.IntType())
            case t.RowType():
                return self._row(kind)
        raise UnsupportedOperationError(f"JSON cannot represent type {kind}")

    def _decimal(self, value: object) -> str:
        exact = value if isinstance(value, Decimal) else Decimal(str(value))
        return format(exact, "f") if self._style.plain_decimals else str(exact)

    def _timestamp(self, value: dt.datetime) -> str:
        between = "T" if self._style.iso else " "
        return f'"{value.date().isoformat()}{between}{_clock(value)}"'

    def _instant(self, value: dt.datetime) -> str:
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC)
        return f'{self._timestamp(moment)[:-1]}Z"'

    def _row(self, kind: t.RowType) -> Write:
        fields = [(_text(field.name), self.of(field.data_type)) for field in kind.fields]
        without = self._style.without_nulls

        def write(row: Any) -> str:
            pairs = zip(fields, row, strict=True)
            return (
                "{"
                + ",".join(
                    f"{name}:{put(value)}"
                    for (name, put), value in pairs
                    if not (without and value is None)
                )
                + "}"
            )

        return write

    def _map(self, key: t.DataType, value: t.DataType) -> Write:
        if not isinstance(key, t.CharType | t.VarCharType):
            raise UnsupportedOperationError(
                f"JSON cannot represent maps with keys of type {key}",
                hint="convert the keys to STRING",
            )
        put, style = self.of(value), self._style

        def write(entries: dict[Any, Any]) -> str:
            if None in entries:
                entries = _named(entries, style)
            return "{" + ",".join(f"{_text(each)}:{put(of)}" for each, of in entries.items()) + "}"

        return write


def _named(entries: dict[Any, Any], style: JsonStyle) -> dict[Any, Any]:
    """Return entries without the key NULL: left out, or by a name."""
    if style.null_keys == "fail":
        raise ValueError("NULL key in a map; see option 'map-null-key.mode'")
    rest = {key: value for key, value in entries.items() if key is not None}
    return rest if style.null_keys == "drop" else {**rest, style.null_key: entries[None]}


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str:
    shown = json.dumps(float(value))
    return f'"{shown}"' if shown in {"NaN", "Infinity", "-Infinity"} else shown


def _clock(value: dt.time | dt.datetime) -> str:
    """Return hours, minutes and seconds, with as many digits of the fraction as there are."""
    whole = f"{value:%H:%M:%S}"
    nanos = nanos_of_second(value)
    return f"{whole}.{nanos:09d}".rstrip("0") if nanos else whole
