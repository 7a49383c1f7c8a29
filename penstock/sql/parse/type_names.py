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


class TypeParser(TokenStream):
    """Reads types."""

    def data_type(self) -> types.DataType:
        """Take a type with NULL or NOT NULL and the ARRAY or MULTISET behind it."""
        kind = self._nullability(self._type())
        while (word := self.current.upper) in ("ARRAY", "MULTISET"):
            self.take()
            outer = types.ArrayType if word == "ARRAY" else types.MultisetType
            kind = self._nullability(outer(kind))
        return kind

    def _nullability(self, kind: types.DataType) -> types.DataType:
        if self.accept("NOT", "NULL"):
            return kind.not_null()
        if (
            self.current.upper == "NULL" and self.ahead().upper != "ON"
        ):  # RETURNING INT NULL ON EMPTY
            self.take()
        return kind

    def _type(self) -> types.DataType:
        token = self.current
        word = token.upper
        if token.kind is not TokenKind.WORD or word not in TYPE_WORDS:
            self.wanted("a type")
            raise self.failure(
                did_you_mean(token.upper, TYPE_WORDS) if token.kind is TokenKind.WORD else None
            )
        start = self.index
        self.take()
        try:
            return self._parametrised(word)
        except PenstockError as error:
            if hasattr(error, "position"):
                raise
            first, last = self.tokens[start], self.previous
            raise self.source.error(error.message, first.start, last.end, error.hint) from None

    def _parametrised(self, word: str) -> types.DataType:
        if word in _PLAIN:
            return _PLAIN[word]()
        if word in _WITH_LENGTH:
            if not word.startswith("VAR") and self.accept("VARYING"):
                word = "VARBINARY" if word == "BINARY" else "VARCHAR"
            return _WITH_LENGTH[word](self._parameter(MAX_LENGTH if word.startswith("VAR") else 1))
        if word in ("DECIMAL", "DEC", "NUMERIC"):
            return self._decimal()
        if word == "DOUBLE":
            self.accept("PRECISION")
            return types.DoubleType()
        if word == "TIME":
            kind = types.TimeType(self._parameter(0))
            self.accept("WITHOUT", "TIME", "ZONE")
            return kind
        if word == "TIMESTAMP":
            return self._timestamp_type()
        if word == "TIMESTAMP_LTZ":
            return types.LocalZonedTimestampType(self._parameter(6))
        if word == "INTERVAL":
            return self._interval_type()
        return self._collection(word)

    def _parameter(self, default: int) -> int:
        if not self.accept("("):
            return default
        number = self.number()
        self.expect(")")
        return number

    def _decimal(self) -> types.DataType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self.number()
            if self.accept(","):
                scale = self.number()
            self.expect(")")
        return types.DecimalType(precision, scale)

    def _timestamp_type(self) -> types.DataType:
        precision = self._parameter(6)
        if self.accept("WITHOUT", "TIME", "ZONE"):
            return types.TimestampType(precision)
        if self.accept("WITH", "LOCAL", "TIME", "ZONE"):
            return types.LocalZonedTimestampType(precision)
        if self.looking_at("WITH"):
            self.wanted("WITH LOCAL TIME ZONE")
            raise self.failure("use TIMESTAMP_LTZ: columns do not store a time zone")
        return types.TimestampType(precision)

    def _interval_type(self) -> types.DataType:
        first = self.expect_any(*_UNITS)
        self._parameter(0)
        last = first
        if self.accept("TO"):
            last = self.expect_any(*_UNITS[_UNITS.index(first) :])
            self._parameter(0)
        resolution = first if first == last else f"{first}_TO_{last}"
        if first in ("YEAR", "MONTH"):
            months = types.YearMonthIntervalType.YearMonthResolution
            if resolution not in months.__members__:
                raise self.error_at(self.previous, f"an interval cannot go from {first} to {last}")
            return types.YearMonthIntervalType(months[resolution])
        return types.DayTimeIntervalType(types.DayTimeIntervalType.DayTimeResolution[resolution])

    def _collection(self, word: str) -> types.DataType:
        if word == "ROW" and self.accept("("):
            return self._row_type(")")
        if word == "ROW" and self.accept("<>"):
            return types.RowType([])
        self.expect("<")
        if word == "ROW":
            return self._row_type(">")
        inner = self.data_type()
        if word == "MAP":
            self.expect(",")
            kind: types.DataType = types.MapType(inner, self.data_type())
        else:
            kind = types.ArrayType(inner) if word == "ARRAY" else types.MultisetType(inner)
        self.expect(">")
        return kind

    def _row_type(self, closing: str) -> types.DataType:
        if self.current.upper == closing:
            self.expect(closing)
            return types.RowType([])
        fields = self.separated(self._field)
        names = [each.name for each in fields]
        for name in names:
            if names.count(name) > 1:
                raise self.error_at(self.previous, f"duplicate field '{name}' in ROW")
        self.expect(closing)
        return types.RowType(fields)

    def _field(self) -> types.RowField:
        name = str(self.any_identifier("the name of a field").this)
        self.accept(":")
        kind = self.data_type()
        description = self.string() if self.current.kind is TokenKind.STRING else None
        return types.RowField(name, kind, description)
