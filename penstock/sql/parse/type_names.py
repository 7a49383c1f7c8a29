"""The grammar of types: BIGINT NOT NULL, DECIMAL(10, 2), ARRAY<ROW<a INT>>, TIMESTAMP_LTZ(3)."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.sql import types
from penstock.sql.errors import did_you_mean
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind

MAX_LENGTH = 2**31 - 1

_PLAIN: dict[str, Callable[[], types.DataType]] = {
    "BOOLEAN": types.BooleanType,
    "TINYINT": types.TinyIntType,
    "SMALLINT": types.SmallIntType,
    "INT": types.IntType,
    "INTEGER": types.IntType,
    "BIGINT": types.BigIntType,
    "FLOAT": types.FloatType,
    "DATE": types.DateType,
    "BITMAP": types.BitmapType,
    "NULL": types.NullType,
    "STRING": lambda: types.VarCharType(MAX_LENGTH),
    "BYTES": lambda: types.VarBinaryType(MAX_LENGTH),
}
_WITH_LENGTH: dict[str, Callable[[int], types.DataType]] = {
    "CHAR": types.CharType,
    "CHARACTER": types.CharType,
    "VARCHAR": types.VarCharType,
    "BINARY": types.BinaryType,
    "VARBINARY": types.VarBinaryType,
}
TYPE_WORDS = (
    *_PLAIN,
    *_WITH_LENGTH,
    "DECIMAL",
    "DEC",
    "NUMERIC",
    "DOUBLE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "INTERVAL",
    "ARRAY",
    "MULTISET",
    "MAP",
    "ROW",
)
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


class TypeParser:
    """Reads types."""

    def __init__(self, tokens: TokenStream) -> None:
        self._tokens = tokens

    def data_type(self) -> types.DataType:
        """Take a type with NULL or NOT NULL and the ARRAY or MULTISET behind it."""
        kind = self._nullability(self._type())
        while (word := self._tokens.current.upper) in ("ARRAY", "MULTISET"):
            self._tokens.take()
            outer = types.ArrayType if word == "ARRAY" else types.MultisetType
            kind = self._nullability(outer(kind))
        return kind

    def _nullability(self, kind: types.DataType) -> types.DataType:
        if self._tokens.accept("NOT", "NULL"):
            return kind.not_null()
        if (
            self._tokens.current.upper == "NULL" and self._tokens.ahead().upper != "ON"
        ):  # RETURNING INT NULL ON EMPTY
            self._tokens.take()
        return kind

    def _type(self) -> types.DataType:
        token = self._tokens.current
        word = token.upper
        if token.kind is not TokenKind.WORD or word not in TYPE_WORDS:
            self._tokens.wanted("a type")
            raise self._tokens.failure(
                did_you_mean(token.upper, TYPE_WORDS) if token.kind is TokenKind.WORD else None
            )
        start = self._tokens.index
        self._tokens.take()
        try:
            return self._parametrised(word)
        except PenstockError as error:
            if hasattr(error, "position"):
                raise
            first, last = self._tokens.at(start), self._tokens.previous
            raise self._tokens.source.error(
                error.message, first.start, last.end, error.hint
            ) from None

    def _parametrised(self, word: str) -> types.DataType:
        if word in _PLAIN:
            return _PLAIN[word]()
        if word in _WITH_LENGTH:
            if not word.startswith("VAR") and self._tokens.accept("VARYING"):
                word = "VARBINARY" if word == "BINARY" else "VARCHAR"
            return _WITH_LENGTH[word](self._parameter(MAX_LENGTH if word.startswith("VAR") else 1))
        if word in ("DECIMAL", "DEC", "NUMERIC"):
            return self._decimal()
        if word == "DOUBLE":
            self._tokens.accept("PRECISION")
            return types.DoubleType()
        if word == "TIME":
            kind = types.TimeType(self._parameter(0))
            self._tokens.accept("WITHOUT", "TIME", "ZONE")
            return kind
        if word == "TIMESTAMP":
            return self._timestamp_type()
        if word == "TIMESTAMP_LTZ":
            return types.LocalZonedTimestampType(self._parameter(6))
        if word == "INTERVAL":
            return self._interval_type()
        return self._collection(word)

    def _parameter(self, default: int) -> int:
        if not self._tokens.accept("("):
            return default
        number = self._tokens.number()
        self._tokens.expect(")")
        return number

    def _decimal(self) -> types.DataType:
        precision, scale = 10, 0
        if self._tokens.accept("("):
            precision = self._tokens.number()
            if self._tokens.accept(","):
                scale = self._tokens.number()
            self._tokens.expect(")")
        return types.DecimalType(precision, scale)

    def _timestamp_type(self) -> types.DataType:
        precision = self._parameter(6)
        if self._tokens.accept("WITHOUT", "TIME", "ZONE"):
            return types.TimestampType(precision)
        if self._tokens.accept("WITH", "LOCAL", "TIME", "ZONE"):
            return types.LocalZonedTimestampType(precision)
        if self._tokens.looking_at("WITH"):
            self._tokens.wanted("WITH LOCAL TIME ZONE")
            raise self._tokens.failure("use TIMESTAMP_LTZ: columns do not store a time zone")
        return types.TimestampType(precision)

    def _interval_type(self) -> types.DataType:
        first = self._tokens.expect_any(*_UNITS)
        self._parameter(0)
        last = first
        if self._tokens.accept("TO"):
            last = self._tokens.expect_any(*_UNITS[_UNITS.index(first) :])
            self._parameter(0)
        resolution = first if first == last else f"{first}_TO_{last}"
        if first in ("YEAR", "MONTH"):
            months = types.YearMonthIntervalType.YearMonthResolution
            if resolution not in months.__members__:
                raise self._tokens.error_at(
                    self._tokens.previous, f"an interval cannot go from {first} to {last}"
                )
            return types.YearMonthIntervalType(months[resolution])
        return types.DayTimeIntervalType(types.DayTimeIntervalType.DayTimeResolution[resolution])

    def _collection(self, word: str) -> types.DataType:
        if word == "ROW" and self._tokens.accept("("):
            return self._row_type(")")
        if word == "ROW" and self._tokens.accept("<>"):
            return types.RowType([])
        self._tokens.expect("<")
        if word == "ROW":
            return self._row_type(">")
        inner = self.data_type()
        if word == "MAP":
            self._tokens.expect(",")
            kind: types.DataType = types.MapType(inner, self.data_type())
        else:
            kind = types.ArrayType(inner) if word == "ARRAY" else types.MultisetType(inner)
        self._tokens.expect(">")
        return kind

    def _row_type(self, closing: str) -> types.DataType:
        if self._tokens.current.upper == closing:
            self._tokens.expect(closing)
            return types.RowType([])
        fields = self._tokens.separated(self._field)
        names = [each.name for each in fields]
        for name in names:
            if names.count(name) > 1:
                raise self._tokens.error_at(
                    self._tokens.previous, f"duplicate field '{name}' in ROW"
                )
        self._tokens.expect(closing)
        return types.RowType(fields)

    def _field(self) -> types.RowField:
        name = str(self._tokens.any_identifier("the name of a field").this)
        self._tokens.accept(":")
        kind = self.data_type()
        description = (
            self._tokens.string() if self._tokens.current.kind is TokenKind.STRING else None
        )
        return types.RowField(name, kind, description)
