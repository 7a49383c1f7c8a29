"""The base of all types, and the types of single values.

A type checks and coerces one value (`validate`), has an Arrow form (`to_arrow`), compares by value and pickles.
"""

from __future__ import annotations

import datetime as dt
import enum
import operator
from array import array
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.common.user_types import Record
from penstock.errors import RecordError, UnsupportedOperationError
from penstock.time.durations import Instant

if TYPE_CHECKING:
    import pyarrow as pa


class TypeInformation:
    """Base of all types of records and fields."""

    def validate(self, value: Record) -> Record:
        """Return `value` as this type holds it, or raise a RecordError that names the value and the type."""
        raise NotImplementedError

    def to_arrow(self) -> pa.DataType:
        """Return the Arrow type of a column of such values."""
        raise NotImplementedError

    def _parts(self) -> tuple[Any, ...]:
        """Return what makes two types of one class equal."""
        return ()

    def need_conversion(self) -> bool:
        """Whether `to_internal_type` changes values. Values travel as Python objects: it never does."""
        return False

    def to_internal_type(self, obj: Record) -> Record:
        """Return the value as it travels between operators."""
        return obj

    def from_internal_type(self, obj: Record) -> Record:
        """Return the value as user code sees it."""
        return obj

    def get_java_type_info(self) -> NoReturn:
        """Raise: there is no Java behind a type."""
        raise UnsupportedOperationError(
            "types have no Java counterpart", hint="use to_arrow() for the Arrow type"
        )

    def _rejected(self, value: Any, hint: str | None = None) -> RecordError:
        return RecordError(f"{shorten(value)} is not a value of type {self!r}", hint=hint)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._parts()))

    def __repr__(self) -> str:
        return type(self).__name__


def short_repr(value: object, limit: int = 200) -> str:
    """Return the repr of a value, cut where it is too long for a message."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the user's __repr__ may fail; the first error matters more
        text = f"<{type(value).__name__}, repr failed: {error}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def shorten(value: object, limit: int = 100) -> str:
    """Return a short repr of a value, with its class, for an error message."""
    text = short_repr(value, limit)
    return text if value is None else f"{text} ({type(value).__name__})"


class BasicType(enum.Enum):
    """The kinds of single values; the value is Flink's name for the type."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Character"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_Check = Callable[
    [Any], Any
]  # raises TypeError, ValueError or OverflowError for a value that does not fit


def _check_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError


def _check_char(value: Any) -> str:
    if isinstance(value, str) and len(value) == 1:
        return value
    raise TypeError


def _check_boolean(value: Any) -> bool:
    if value is True or value is False:
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in {"bool", "bool_"}:
        return bool(value)
    return bool(operator.index(value))


def _to_int(value: Any) -> int:
    """Return a whole number; the fraction of a float is cut off, as PyFlink does."""
    if isinstance(value, float):
        return int(value)
    return int(operator.index(value))


def _check_big_int(value: Any) -> int:
    return value if type(value) is int else _to_int(value)


def _integer_of(bits: int) -> _Check:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)

    def check(value: Any) -> int:
        if type(value) is not int:
            value = _to_int(value)
        if low <= value < high:
            return value  # type: ignore[no-any-return]
        raise OverflowError

    return check


def _check_double(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, str | bytes | bytearray):
        raise TypeError
    return float(value)


def _check_float(value: object) -> float:
    return array("f", (_check_double(value),))[0]  # beyond 32 bits: infinity


def _check_big_dec(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, float | str):
        return Decimal(str(value))
    return Decimal(operator.index(value))


def _check_instant(value: Any) -> Instant:
    if isinstance(value, Instant):
        return value
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        since = value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return Instant(since // dt.timedelta(seconds=1), value.microsecond * 1000)
    raise TypeError


_CHECKS: dict[BasicType, tuple[_Check, str]] = {
    BasicType.STRING: (_check_string, "return a str"),
    BasicType.BYTE: (_integer_of(8), "return an int from -128 to 127"),
    BasicType.BOOLEAN: (_check_boolean, "return True or False"),
    BasicType.SHORT: (_integer_of(16), "return an int from -32768 to 32767"),
    BasicType.INT: (_integer_of(32), "return an int of 32 bits, or declare Types.LONG()"),
    BasicType.LONG: (_integer_of(64), "return an int of 64 bits, or declare Types.BIG_INT()"),
    BasicType.FLOAT: (_check_float, "return a float, or declare Types.DOUBLE()"),
    BasicType.DOUBLE: (_check_double, "return a float"),
    BasicType.CHAR: (_check_char, "return a str of one character"),
    BasicType.BIG_INT: (_check_big_int, "return an int"),
    BasicType.BIG_DEC: (_check_big_dec, "return a decimal.Decimal"),
    BasicType.INSTANT: (_check_instant, "return an Instant or a datetime with a time zone"),
}


class BasicTypeInfo(TypeInformation):
    """Type of a single value: text, a number, a boolean, an instant."""

    def __init__(self, basic_type: BasicType) -> None:
        self.basic_type = basic_type
        self._check, self._hint = _CHECKS[basic_type]

    def validate(self, value: Record) -> Record:
        """Return the value as this type holds it: numbers are widened, FLOAT is rounded to 32 bits."""
        try:
            return self._check(value)
        except (TypeError, ValueError, ArithmeticError):
            raise self._rejected(value, self._hint) from None

    def to_arrow(self) -> pa.DataType:
        """Return the Arrow type; numbers without bound become decimals of 38 digits."""
        import pyarrow as pa

        kinds: dict[BasicType, Callable[[], pa.DataType]] = {
            BasicType.STRING: pa.string,
            BasicType.BYTE: pa.int8,
            BasicType.BOOLEAN: pa.bool_,
            BasicType.SHORT: pa.int16,
            BasicType.INT: pa.int32,
            BasicType.LONG: pa.int64,
            BasicType.FLOAT: pa.float32,
            BasicType.DOUBLE: pa.float64,
            BasicType.CHAR: pa.string,
            BasicType.BIG_INT: lambda: pa.decimal128(38, 0),
            BasicType.BIG_DEC: lambda: pa.decimal128(38, 18),
            BasicType.INSTANT: lambda: pa.timestamp("ns", tz="UTC"),
        }
        return kinds[self.basic_type]()

    def _parts(self) -> tuple[Any, ...]:
        return (self.basic_type,)

    def __reduce__(self) -> tuple[Any, ...]:
        return BasicTypeInfo, (self.basic_type,)

    def __repr__(self) -> str:
        return self.basic_type.value


class PickledBytesTypeInfo(TypeInformation):
    """Type of any Python object. This is what a stream has that declares no type."""

    def validate(self, value: Record) -> Record:
        """Return the value as it is."""
        return value

    def to_arrow(self) -> pa.DataType:
        """Return Arrow's binary: the object's pickle."""
        import pyarrow as pa

        return pa.binary()

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class DateTypeInfo(TypeInformation):
    """Type of a datetime.date."""

    def validate(self, value: Record) -> dt.date:
        """Return the date; of a datetime, its date."""
        if isinstance(value, dt.datetime):
            return value.date()
        if isinstance(value, dt.date):
            return value
        raise self._rejected(value, "return a datetime.date")

    def to_arrow(self) -> pa.DataType:
        """Return Arrow's date of days."""
        import pyarrow as pa

        return pa.date32()


class TimeTypeInfo(TypeInformation):
    """Type of a datetime.time."""

    def validate(self, value: Record) -> dt.time:
        """Return the time of day."""
        if isinstance(value, dt.time):
            return value
        raise self._rejected(value, "return a datetime.time")

    def to_arrow(self) -> pa.DataType:
        """Return Arrow's time of microseconds."""
        import pyarrow as pa

        return pa.time64("us")


class TimestampTypeInfo(TypeInformation):
    """Type of a datetime.datetime."""

    def validate(self, value: Record) -> dt.datetime:
        """Return the date and time."""
        if isinstance(value, dt.datetime):
            return value
        raise self._rejected(value, "return a datetime.datetime")

    def to_arrow(self) -> pa.DataType:
        """Return Arrow's timestamp of microseconds, without a time zone."""
        import pyarrow as pa

        return pa.timestamp("us")


class SqlTimeTypeInfo:
    """The three types of SQL for dates and times."""

    @staticmethod
    def DATE() -> DateTypeInfo:  # noqa: N802
        """Return the type of dates."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:  # noqa: N802
        """Return the type of times of day."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:  # noqa: N802
        """Return the type of dates with times."""
        return TimestampTypeInfo()
