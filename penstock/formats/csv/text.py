"""CSV values: parsing, formatting, and when text is quoted, like Flink's CSV formats."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import re
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.user_types import Record
from penstock.errors import ArgumentTypeError, RecordError
from penstock.formats.base.decimals import decimal_fitter, shortest_text, to_decimal
from penstock.formats.base.field_types import INTEGER_KINDS, FieldType
from penstock.formats.base.rows import field_values, row_of
from penstock.formats.csv.schema import CsvColumn, CsvSchema
from penstock.records.string_form import java_double, java_float
from penstock.time.durations import Instant
from penstock.time.nanoseconds import moment_of, nanos_of_second

# Flink's writer quotes longer texts without looking for special characters.
_LONGEST_UNQUOTED = 24
_NUMBERS = INTEGER_KINDS | {"FLOAT", "DOUBLE", "DECIMAL"}
_LARGEST_FLOAT = 3.4028235677973366e38  # from here on a number rounds to infinity in 32 bits

Text = Callable[[Any], str | None]


# Reading


def text_reader(
    column: CsvColumn, null_value: str | None, *, lenient: bool = False
) -> Callable[[str], Any]:
    """Return the parser of a column's text. If `lenient`, an invalid value is None, also within arrays and rows."""
    read = _reader(column.type, column.separator, lenient=lenient)
    if null_value is None:
        return read
    return lambda text: None if text == null_value else read(text)


def _reader(kind: FieldType, separator: str, *, lenient: bool) -> Callable[[str], Any]:
    if kind.kind == "ARRAY":
        element = _reader(kind.fields[0][1], "", lenient=lenient)
        return lambda text: [element(part) for part in _parts(text, separator)]
    if kind.kind == "ROW":
        return _row_reader(kind, separator, lenient=lenient)
    read = _simple_reader(kind)
    return _or_none(read) if lenient else read


def _or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def read_or_none(text: str) -> object:
        try:
            return read(text)
        except (ValueError, ArithmeticError):
            return None

    return read_or_none


def _simple_reader(kind: FieldType) -> Callable[[str], Any]:
    if kind.kind in INTEGER_KINDS:
        return int
    if kind.kind == "DECIMAL" and kind.precision is not None:
        return decimal_fitter(kind.precision, kind.scale or 0)
    if kind.kind not in _READERS:
        raise _refused(kind)
    return _READERS[kind.kind]


def _parts(text: str, separator: str) -> list[str]:
    if not text:
        return []
    return text.split(separator) if separator else [text]


def _row_reader(kind: FieldType, separator: str, *, lenient: bool) -> Callable[[str], Any]:
    """Return the parser of a nested row. As in Flink, extra parts are ignored, and too few are an error."""
    readers = [_reader(inner, "", lenient=lenient) for _, inner in kind.fields]
    names = kind.names

    def read(text: str) -> Any:
        if not text:
            return None
        parts = _parts(text, separator)
        missing = max(0, len(readers) - len(parts))
        if missing and not lenient:
            raise ValueError(f"{len(parts)} fields instead of {len(readers)}")
        values = [each(part) for each, part in zip(readers, parts, strict=False)]
        return row_of(names, [*values, *[None] * missing])

    return read


def _boolean(text: str) -> bool:
    value = text.strip().lower()
    if value not in {"true", "false"}:
        raise ValueError(f"not a boolean: {text!r}")
    return value == "true"


def _decimal(text: str) -> decimal.Decimal:
    return to_decimal(text.strip())


_READERS: dict[str, Callable[[str], Any]] = {
    "STRING": str,
    "ANY": str,
    "BOOLEAN": _boolean,
    "FLOAT": float,
    "DOUBLE": float,
    "DECIMAL": _decimal,
    "DATE": dt.date.fromisoformat,
    "TIME": dt.time.fromisoformat,
    "TIMESTAMP": moment_of,
    "TIMESTAMP_LTZ": moment_of,
    "BYTES": base64.b64decode,
}


def _refused(kind: FieldType) -> ArgumentTypeError:
    return ArgumentTypeError(
        "unsupported type of a CSV column",
        detail=f"the type is {kind.kind}",
        hint="use JSON for nested values",
    )


# Writing


class RowFormatter:
    """Formats rows of a schema as lines of text."""

    def __init__(self, schema: CsvSchema) -> None:
        self._names = schema.names
        self._quote = quoting(schema)
        self._cells = [_cell(column, schema, self._quote) for column in schema.columns]
        self._separator = schema.column_separator
        self._end = schema.line_separator

    def header(self) -> str:
        """Return the line with the names of the columns."""
        return self._separator.join(map(self._quote, self._names)) + self._end

    def line(self, record: Record) -> str:
        """Return the line of a record."""
        values = field_values(record, self._names)
        try:
            cells = [write(value) for write, value in zip(self._cells, values, strict=True)]
        except (TypeError, ValueError, ArithmeticError) as error:
            raise RecordError(
                f"a value does not match its column type: {error}",
                detail=f"record: {record!r:.200}",
            ) from error
        if cells == [""]:
            cells = [self._quote("", force=True)]  # an empty line is not a row
        return self._separator.join(cells) + self._end


class quoting:  # noqa: N801 - called like the function it is
    """Quotes texts like Flink.

    Every character up to the highest of separator, quote and line end requires quotes, and so do backslashes and a length of
    more than 24 characters: Flink's writer checks no further than that. Without a quote character, a text that contains a
    separator is rejected, because it could not be read again.

    >>> quote = quoting(CsvSchema())
    >>> [quote(text) for text in ("a-b", "a b", 'a"b', "a" * 25)]
    ['a-b', '"a b"', '"a""b"', '"aaaaaaaaaaaaaaaaaaaaaaaaa"']
    """

    def __init__(self, schema: CsvSchema) -> None:
        self._char = schema.quote_char
        self._escape = schema.escape_char
        needing = {schema.column_separator, *schema.line_separator, "\r", "\n"}
        highest = max(map(ord, {*needing, self._char or "\0"} - {"\r"}))
        if self._char is None:
            unsafe = needing
        else:
            unsafe = {*map(chr, range(highest + 1)), "\\", *needing, self._char}
            unsafe |= {"#"} if schema.allow_comments else set()
        unsafe |= {self._escape} if self._escape else set()
        self._unsafe = re.compile(f"[{''.join(map(re.escape, sorted(unsafe)))}]")
        self._needs = self._unsafe.search

    def __call__(self, text: str, *, force: bool = False) -> str:
        """Return a text, quoted if necessary."""
        char = self._char
        if char is None:
            return self._unquotable(text) if self._needs(text) else text
        if not (force or len(text) > _LONGEST_UNQUOTED or self._needs(text)):
            return text
        if self._escape is not None and self._escape != char:
            text = text.replace(self._escape, self._escape * 2)
        return f"{char}{text.replace(char, char * 2)}{char}"

    def _unquotable(self, text: str) -> str:
        if self._escape is None:
            raise RecordError(
                "cannot write a value as CSV: it contains a separator, and quotes are disabled",
                detail=f"value: {text!r:.200}",
                hint="enable quotes or set an escape character",
            )
        return self._unsafe.sub(lambda found: f"{self._escape}{found[0]}", text)


def _cell(column: CsvColumn, schema: CsvSchema, quote: quoting) -> Callable[[Any], str]:
    """Return the function that formats a column's value as a CSV cell."""
    null = schema.null_value or ""
    kind = column.type.kind
    text = _text(column.type, column.separator, null)
    bare = (kind in _NUMBERS or kind == "BOOLEAN") and schema.column_separator not in "+-.E"

    def write_bare(value: object) -> str:
        shown = None if value is None else text(value)
        if shown is None:
            return null
        return quote(shown) if isinstance(value, str) else shown

    def write(value: Any) -> str:
        shown = None if value is None else text(value)
        return null if shown is None else quote(shown)

    return write_bare if bare else write


def _text(kind: FieldType, separator: str, null: str) -> Text:
    """Return the function that formats a value as text; it may return None for a number that does not fit."""
    name = kind.kind
    if name == "ARRAY":
        element = _text(kind.fields[0][1], separator, null)
        return lambda values: _joined(values, [element] * len(values), separator, null)
    if name == "ROW":
        names = kind.names
        inner = [_text(field, separator, null) for _, field in kind.fields]
        return lambda record: _joined(field_values(record, names), inner, separator, null)
    if name == "MAP":
        raise _refused(kind)
    if name == "DECIMAL" and kind.precision is not None:
        fit = decimal_fitter(kind.precision, kind.scale or 0)
        return lambda value: None if (found := fit(value)) is None else shortest_text(found)
    if name == "FLOAT":
        return _float_text
    if name == "DOUBLE":
        return lambda value: value if isinstance(value, str) else java_double(float(value))
    return _any_text


def _joined(values: Sequence[Any], writers: Sequence[Text], separator: str, null: str) -> str:
    texts = [
        None if value is None else write(value)
        for write, value in zip(writers, values, strict=True)
    ]
    return separator.join(null if text is None else text for text in texts)


def _float_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    number = float(value)
    if abs(number) >= _LARGEST_FLOAT:
        number = float("inf") if number > 0 else float("-inf")
    return java_float(number)


def _any_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Instant):
        nanos = f"{value.nanos:09d}".rstrip("0") or "0"
        moment = dt.datetime.fromtimestamp(value.seconds, dt.UTC)
        return f"{moment:%Y-%m-%d %H:%M:%S}.{nanos}Z"
    if isinstance(value, dt.datetime):
        return _moment_text(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (list, tuple)):
        return ";".join("" if item is None else _any_text(item) for item in value)
    return str(value)


def _moment_text(value: dt.datetime) -> str:
    zone = ""
    if value.tzinfo is not None:
        value, zone = value.astimezone(dt.UTC), "Z"
    fraction = f"{nanos_of_second(value):09d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}{zone}"
