"""Types of columns, by PyFlink's names: of tables, and of the fields of CSV, Parquet and ORC files."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Self, TypeVar, overload

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.not_implemented import not_implemented

LONGEST = 2**31 - 1  # the length of STRING and BYTES

_E = TypeVar("_E", bound=Enum)
_NO_PLANNER = "values need no conversion to SQL"


class DataType:
    """Base of all types of columns. Types are equal if their classes and all their parts are.

    >>> IntType() == IntType(), IntType() == IntType(nullable=False)
    (True, False)
    """

    bridged_to = not_implemented("there is no JVM class behind a type")
    need_conversion = not_implemented(_NO_PLANNER)
    to_sql_type = not_implemented(_NO_PLANNER)
    from_sql_type = not_implemented(_NO_PLANNER)

    def __init__(self, nullable: bool = True) -> None:
        self._nullable = nullable

    @classmethod
    def type_name(cls) -> str:
        """Return the name of the type in upper case.

        >>> VarCharType.type_name()
        'VARCHAR'
        """
        return cls.__name__.removesuffix("Type").upper()

    @property
    def is_nullable(self) -> bool:
        """Whether a column of this type may hold None."""
        return self._nullable

    def not_null(self) -> Self:
        """Return this type, for columns without None."""
        return self._with_nullable(False)

    def nullable(self) -> Self:
        """Return this type, for columns that may hold None."""
        return self._with_nullable(True)

    def _with_nullable(self, nullable: bool) -> Self:
        changed = copy.copy(self)
        changed._nullable = nullable  # noqa: SLF001 - a copy of this object
        return changed

    def _parts(self) -> tuple[Any, ...]:
        """Return the parameters of this type, without its nullability."""
        return ()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DataType)
            and type(other) is type(self)
            and other._nullable == self._nullable
            and other._parts() == self._parts()
        )

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._nullable, *self._parts()))

    def _sql(self) -> str:
        """Return the type as SQL writes it, without whether it holds None."""
        return self.type_name()

    def as_sql(self) -> str:
        """Return the type as SQL writes it.

        >>> DecimalType(10, 2, nullable=False).as_sql()
        'DECIMAL(10, 2) NOT NULL'
        """
        return self._sql() if self._nullable else f"{self._sql()} NOT NULL"

    def __str__(self) -> str:
        return self.as_sql()

    def __repr__(self) -> str:
        parts = [*map(repr, self._parts()), str(self._nullable).lower()]
        return f"{type(self).__name__}({', '.join(parts)})"


class AtomicType(DataType):
    """Base of the types without types inside."""


class NumericType(AtomicType):
    """Base of the types of numbers."""


class IntegralType(NumericType):
    """Base of the types of whole numbers."""


class FractionalType(NumericType):
    """Base of the types of numbers with fractions."""


class NullType(AtomicType):
    """Type of None."""

    def __init__(self) -> None:
        super().__init__(True)


class BooleanType(AtomicType):
    """Type of True and False."""


class TinyIntType(IntegralType):
    """Type of integers of 8 bits."""


class SmallIntType(IntegralType):
    """Type of integers of 16 bits."""


class IntType(IntegralType):
    """Type of integers of 32 bits."""


class BigIntType(IntegralType):
    """Type of integers of 64 bits."""


class FloatType(FractionalType):
    """Type of floating-point numbers of 32 bits."""


class DoubleType(FractionalType):
    """Type of floating-point numbers of 64 bits."""


class DecimalType(FractionalType):
    """Type of decimal numbers with `precision` digits, `scale` of them behind the point.

    >>> DecimalType(10, 2)
    DecimalType(10, 2, true)
    """

    def __init__(self, precision: int = 10, scale: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = _in_range(precision, "precision", 1, 38)
        self.scale = _in_range(scale, "scale", 0, precision)

    def _sql(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"

    def _parts(self) -> tuple[Any, ...]:
        return self.precision, self.scale


class _WithLength(AtomicType):
    """Base of the types of text and bytes with a length."""

    def __init__(self, length: int = 1, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.length = _in_range(length, "length", 1, LONGEST)

    def _sql(self) -> str:
        return f"{self.type_name()}({self.length})"

    def _parts(self) -> tuple[Any, ...]:
        return (self.length,)


class CharType(_WithLength):
    """Type of text of one length."""


class VarCharType(_WithLength):
    """Type of text up to a length."""

    def _sql(self) -> str:
        return "STRING" if self.length == LONGEST else super()._sql()


class BinaryType(_WithLength):
    """Type of bytes of one length."""


class VarBinaryType(_WithLength):
    """Type of bytes up to a length."""

    def _sql(self) -> str:
        return "BYTES" if self.length == LONGEST else super()._sql()


class BitmapType(AtomicType):
    """Type of sets of integers of 32 bits; values are bytes in the portable format of RoaringBitmap."""


class DateType(AtomicType):
    """Type of datetime.date."""


class _WithPrecision(AtomicType):
    """Base of the types of times; the precision is the number of digits of a second's fraction."""

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = _in_range(precision, "precision", 0, 9)

    def _sql(self) -> str:
        return f"{self.type_name()}({self.precision})"

    def _parts(self) -> tuple[Any, ...]:
        return (self.precision,)


class TimeType(_WithPrecision):
    """Type of datetime.time."""

    def __init__(self, precision: int = 0, nullable: bool = True) -> None:
        super().__init__(precision, nullable)


class TimestampType(_WithPrecision):
    """Type of datetime.datetime without a time zone."""


class LocalZonedTimestampType(_WithPrecision):
    """Type of points in time."""

    def _sql(self) -> str:
        return f"TIMESTAMP_LTZ({self.precision})"


class YearMonthIntervalType(AtomicType):
    """Type of spans of years and months; `precision` is the number of digits of the years.

    >>> str(YearMonthIntervalType(YearMonthIntervalType.YearMonthResolution.YEAR_TO_MONTH))
    'INTERVAL YEAR(2) TO MONTH'
    """

    class YearMonthResolution(Enum):
        """The parts that an interval has."""

        YEAR = 1
        MONTH = 2
        YEAR_TO_MONTH = 3

    DEFAULT_PRECISION = 2

    def __init__(
        self,
        resolution: YearMonthResolution = YearMonthResolution.YEAR_TO_MONTH,
        precision: int = DEFAULT_PRECISION,
        nullable: bool = True,
    ) -> None:
        super().__init__(nullable)
        self.resolution = _one_of(resolution, self.YearMonthResolution)
        self.precision = _in_range(precision, "precision", 1, 4)

    @classmethod
    def type_name(cls) -> str:
        """Return the name that SQL has for it."""
        return "INTERVAL YEAR TO MONTH"

    def _sql(self) -> str:
        first, *more = self.resolution.name.split("_TO_")
        digits = f"({self.precision})" if first == "YEAR" else ""
        return " TO ".join([f"INTERVAL {first}{digits}", *more])

    def _parts(self) -> tuple[Any, ...]:
        return self.resolution.name, self.precision


class DayTimeIntervalType(AtomicType):
    """Type of spans of days, hours, minutes and seconds; `day_precision` is the number of digits of the days, `fractional_precision` that of a second's fraction.

    >>> str(DayTimeIntervalType())
    'INTERVAL DAY(2) TO SECOND(6)'
    """

    class DayTimeResolution(Enum):
        """The parts that an interval has."""

        DAY = 1
        DAY_TO_HOUR = 2
        DAY_TO_MINUTE = 3
        DAY_TO_SECOND = 4
        HOUR = 5
        HOUR_TO_MINUTE = 6
        HOUR_TO_SECOND = 7
        MINUTE = 8
        MINUTE_TO_SECOND = 9
        SECOND = 10

    DEFAULT_DAY_PRECISION = 2
    DEFAULT_FRACTIONAL_PRECISION = 6

    def __init__(
        self,
        resolution: DayTimeResolution = DayTimeResolution.DAY_TO_SECOND,
        day_precision: int = DEFAULT_DAY_PRECISION,
        fractional_precision: int = DEFAULT_FRACTIONAL_PRECISION,
        nullable: bool = True,
    ) -> None:
        super().__init__(nullable)
        self.resolution = _one_of(resolution, self.DayTimeResolution)
        self.day_precision = _in_range(day_precision, "day_precision", 1, 6)
        self.fractional_precision = _in_range(fractional_precision, "fractional_precision", 0, 9)

    @classmethod
    def type_name(cls) -> str:
        """Return the name that SQL has for it."""
        return "INTERVAL DAY TO SECOND"

    def _sql(self) -> str:
        digits = {"DAY": f"({self.day_precision})", "SECOND": f"({self.fractional_precision})"}
        parts = self.resolution.name.split("_TO_")
        return "INTERVAL " + " TO ".join(part + digits.get(part, "") for part in parts)

    def _parts(self) -> tuple[Any, ...]:
        return self.resolution.name, self.day_precision, self.fractional_precision


class _OfElements(DataType):
    """Base of the types of many elements of one type."""

    def __init__(self, element_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.element_type = _checked(element_type, "element_type")

    def _sql(self) -> str:
        return f"{self.type_name()}<{self.element_type}>"

    def _parts(self) -> tuple[Any, ...]:
        return (self.element_type,)


class ArrayType(_OfElements):
    """Type of lists."""


class MultisetType(_OfElements):
    """Type of bags: each element with the number of times that it is there."""


class MapType(DataType):
    """Type of dictionaries."""

    def __init__(self, key_type: DataType, value_type: DataType, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.key_type = _checked(key_type, "key_type")
        self.value_type = _checked(value_type, "value_type")

    def _sql(self) -> str:
        return f"MAP<{self.key_type}, {self.value_type}>"

    def _parts(self) -> tuple[Any, ...]:
        return self.key_type, self.value_type


class ListViewType(DataType):
    """Type of a ListView in the accumulator of an aggregate function; no column has it."""

    def __init__(self, element_type: DataType) -> None:
        super().__init__(True)
        self.element_type = _checked(element_type, "element_type")

    def _parts(self) -> tuple[Any, ...]:
        return (self.element_type,)


class MapViewType(DataType):
    """Type of a MapView in the accumulator of an aggregate function; no column has it."""

    def __init__(self, key_type: DataType, value_type: DataType) -> None:
        super().__init__(True)
        self.key_type = _checked(key_type, "key_type")
        self.value_type = _checked(value_type, "value_type")

    def _parts(self) -> tuple[Any, ...]:
        return self.key_type, self.value_type


class RowField:
    """A name, a type and a description: one field of a row."""

    def __init__(self, name: str, data_type: DataType, description: str | None = None) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"the name of a field must be a str, got {name!r}")
        self.name = name
        self.data_type = _checked(data_type, f"the type of field '{name}'")
        self.description = "..." if description is None else description

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowField) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.name, self.data_type, self.description))

    def __str__(self) -> str:
        return f"RowField({self.name}, {self.data_type.type_name()})"

    def __repr__(self) -> str:
        return f"RowField({self.name}, {self.data_type!r}, {self.description})"


class RowType(DataType):
    """Type of rows with named fields.

    >>> row = RowType([RowField("id", IntType())]).add("name", VarCharType(20))
    >>> row.field_names(), str(row["name"])
    (['id', 'name'], 'RowField(name, VARCHAR)')
    """

    def __init__(self, fields: Iterable[RowField] | None = None, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.fields: list[RowField] = []
        for field in () if fields is None else fields:
            self.add(field)

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return [field.name for field in self.fields]

    def add(self, field: RowField | str, data_type: DataType | None = None) -> RowType:
        """Append a field, given as such or by its name and type; return the row type itself."""
        if isinstance(field, str) and data_type is not None:
            field = RowField(field, data_type)
        if not isinstance(field, RowField):
            raise ArgumentTypeError(
                f"{field!r} is not a field of a row",
                hint='write DataTypes.FIELD("name", DataTypes.STRING())',
            )
        self.fields.append(field)
        return self

    def field_names(self) -> list[str]:
        """Return the names of the fields."""
        return self.names

    def field_types(self) -> list[DataType]:
        """Return the types of the fields."""
        return [field.data_type for field in self.fields]

    def _sql(self) -> str:
        fields = (f"{_quoted(field.name)} {field.data_type}" for field in self.fields)
        return f"ROW<{', '.join(fields)}>"

    def _with_nullable(self, nullable: bool) -> Self:
        changed = super()._with_nullable(nullable)
        changed.fields = list(self.fields)  # `add` must not change both
        return changed

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self.fields)

    def __iter__(self) -> Iterator[RowField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @overload
    def __getitem__(self, key: str | int) -> RowField: ...

    @overload
    def __getitem__(self, key: slice) -> RowType: ...

    def __getitem__(self, key: str | int | slice) -> RowField | RowType:
        if isinstance(key, slice):
            return RowType(self.fields[key])
        if isinstance(key, str):
            for field in self.fields:
                if field.name == key:
                    return field
            raise KeyError(f"the row type has no field named {key}")
        if isinstance(key, int):
            return self.fields[key]
        raise TypeError(f"field key must be a str, an int or a slice, got {key!r}")

    def __repr__(self) -> str:
        return f"RowType({','.join(map(repr, self.fields))})"


def _checked(given: Any, what: str) -> DataType:
    if isinstance(given, DataType):
        return given
    raise ArgumentTypeError(
        f"{what} is not a DataType: {given!r}", hint="use a type such as DataTypes.STRING()"
    )


def _one_of(given: _E, kind: type[_E]) -> _E:
    if isinstance(given, kind):
        return given
    raise ArgumentTypeError(f"resolution must be a {kind.__name__}, got {given!r}")


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _in_range(value: object, what: str, lowest: int, highest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{what} must be an int, got {value!r}")
    if not lowest <= value <= highest:
        raise ArgumentError(f"{what} must be from {lowest} to {highest}, got {value}")
    return value


__all__ = [
    "ArrayType",
    "AtomicType",
    "BigIntType",
    "BinaryType",
    "BitmapType",
    "BooleanType",
    "CharType",
    "DataType",
    "DateType",
    "DayTimeIntervalType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "FractionalType",
    "IntType",
    "IntegralType",
    "LocalZonedTimestampType",
    "MapType",
    "MultisetType",
    "NullType",
    "NumericType",
    "RowField",
    "RowType",
    "SmallIntType",
    "TimeType",
    "TimestampType",
    "TinyIntType",
    "VarBinaryType",
    "VarCharType",
    "YearMonthIntervalType",
]
