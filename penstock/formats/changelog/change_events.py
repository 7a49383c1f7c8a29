"""Change events as JSON: common parts of the Debezium, Canal and Maxwell formats.

A message is a change of a table. It becomes rows with a RowKind: an insert one (+I), an update two (-U and +U), a delete one
(-D). Requested metadata fields of the envelope are appended to each of the rows.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind, make_row
from penstock.errors import ArgumentError, RecordError, UnsupportedOperationError
from penstock.formats.base.field_types import FieldType, row_type
from penstock.formats.json.fast import loads, row_converter
from penstock.formats.json.fields import FieldNameCheck
from penstock.formats.json.rows import (
    decode_exactly,
    has_decimals,
    row_reader,
    value_reader,
)
from penstock.formats.json.text import json_writer
from penstock.time.durations import Instant

Document = dict[str, Any]
Metadata = tuple[
    Any, Callable[[Document], Any]
]  # the type, and the function that extracts it from the envelope
Change = tuple[RowKind, Document]


class ChangeEventSchema(DeserializationSchema):
    """Base of the schemas that deserialize change events. A subclass extracts the changes from an envelope."""

    skip_hint = "ignore_parse_errors=True skips such messages"
    name = ""
    keys: Mapping[str, Metadata] = {}

    def __init__(
        self,
        type_info: Any,
        *,
        metadata: Sequence[str] | Mapping[str, str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        self._type_info = type_info
        self._row = row_type(type_info)
        self._ignore = ignore_parse_errors
        self._metadata = _check_metadata(metadata, self.keys, self._row.names)
        self._names = (*self._row.names, *self._metadata)
        self._functions: tuple[Callable[[str], Any], Callable[[Any], Row]] | None = None
        self._fields: FieldNameCheck | None = None

    def use_metrics(self, group: object) -> None:
        """Register metrics about the table's column names."""
        self._fields = FieldNameCheck(self._row, group)

    @abstractmethod
    def changes(self, envelope: Document) -> Iterable[Change]:
        """Return the kinds of changes with the table's row before or after, as JSON values."""

    def deserialize(self, message: bytes) -> object:
        """Return the row of a message with one row, None if it has none. An update has two: see `deserialize_many`."""
        rows = self.deserialize_many(message)
        if len(rows) > 1:
            raise UnsupportedOperationError(
                f"a message of {self.name} may contain several rows",
                hint="call deserialize_many or deserialize_batch",
            )
        return rows[0] if rows else None

    def deserialize_many(self, message: bytes) -> list[Row]:
        """Return the rows of a change; none for a tombstone, and for a malformed message if parse errors are ignored."""
        if not message:
            return []
        try:
            return self._rows(message)
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            if self._ignore:
                self.skipped += 1
                return []
            raise RecordError(
                f"a message is not a {self.name} change event: {error}",
                detail=f"message: {message[:300]!r}",
                hint=self.skip_hint,
            ) from error

    def get_produced_type(self) -> object:
        """Return the type of the rows, if the types of all fields are known."""
        types = getattr(self._type_info, "get_field_types", None)
        if types is None:
            return None
        more = [self.keys[key][0] for key in self._metadata.values()]
        return Types.ROW_NAMED(list(self._names), [*types(), *more])

    def _rows(self, message: bytes) -> list[Row]:
        if self._functions is None:
            exact: Callable[[str], Any] = decode_exactly if has_decimals(self._row) else loads
            self._functions = exact, _reader(self._row)
        decode, read = self._functions
        envelope = decode(message.decode("utf-8-sig"))
        if not isinstance(envelope, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 - the data is wrong, not the call
        changes = list(self.changes(envelope))
        if not changes:
            return []
        if self._fields is not None:
            self._fields.look_at(changes[-1][1])
        more = [self.keys[key][1](envelope) for key in self._metadata.values()]
        return [make_row(self._names, [*read(table), *more], kind) for kind, table in changes]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_functions": None, "_fields": None}


class ChangeEventWriter(SerializationSchema):
    """Base of the schemas that serialize change events. As in Flink an update is written as a delete and an insert."""

    before = ""  # template of the envelope, with %s for the table's row
    after = ""

    def __init__(self, type_info: Any) -> None:
        self._type_info = type_info
        self._write = json_writer(row_type(type_info))

    def serialize(self, value: object) -> bytes:
        """Return the envelope of a row; records other than Rows are inserts."""
        kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
        gone = kind in {RowKind.DELETE, RowKind.UPDATE_BEFORE}
        try:
            return ((self.before if gone else self.after) % self._write(value)).encode("utf-8")
        except (TypeError, ValueError, ArithmeticError) as error:
            raise RecordError(
                f"cannot write a row as JSON: {error}", detail=f"row: {value!r:.200}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info,)


def _reader(row: FieldType) -> Callable[[Any], Row]:
    """Return the converter from a table's row to a Row: fast if all values have the expected types, else field by field."""
    quick, careful = row_converter(row, value_reader), row_reader(row)

    def read(table: Document) -> Row:
        try:
            return quick(table)  # type: ignore[no-any-return]
        except (ValueError, TypeError, ArithmeticError, msgspec.MsgspecError):
            return careful(table)

    return read


def table_row(value: object, what: str) -> Document:
    """Return a table's row in an envelope after checking its type."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a JSON object: {value!r:.100}")  # noqa: TRY004 - the data is wrong
    return value


def replaced(after: Document, old: object) -> Document:
    """Return the row before an update; the envelope only has the changed fields."""
    return {**after, **table_row(old, "old")}


def check_pattern(pattern: str | None, what: str) -> re.Pattern[str] | None:
    """Return a compiled regular expression that is matched with whole names."""
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ArgumentError(
            f"{what} is not a valid regular expression", detail=f"{pattern!r}: {error}"
        ) from None


def text_at(*path: str) -> Metadata:
    """Metadata: a str of the envelope."""
    return Types.STRING(), lambda envelope: _at(envelope, path)


def texts_at(*path: str) -> Metadata:
    """Metadata: a list of str of the envelope."""
    return Types.LIST(Types.STRING()), lambda envelope: _at(envelope, path)


def moment_at(*path: str, millis: int = 1) -> Metadata:
    """Metadata: a timestamp, from a number of the envelope in units of `millis` milliseconds."""

    def find(envelope: Document) -> Instant | None:
        found = _at(envelope, path)
        return None if found is None else Instant.of_epoch_milli(int(found) * millis)

    return Types.INSTANT(), find


def _at(envelope: object, path: Sequence[str]) -> Any:
    for name in path:
        envelope = envelope.get(name) if isinstance(envelope, dict) else None
    return envelope


def _check_metadata(
    given: Sequence[str] | Mapping[str, str], keys: Mapping[str, Metadata], names: Sequence[str]
) -> dict[str, str]:
    """Return the requested metadata: field names to keys."""
    if isinstance(given, str):
        raise ArgumentError("metadata must be a list of keys or a dict of names to keys, not a str")
    wanted = dict(given) if isinstance(given, Mapping) else {key: key for key in given}
    for name, key in wanted.items():
        if key not in keys:
            raise ArgumentError(
                "unknown metadata key",
                detail=f"key {key!r}",
                hint=f"use one of {', '.join(keys)}",
            )
        if name in names:
            raise ArgumentError(
                f"the table already has a field {name!r}, which is also a metadata field"
            )
    return wanted
