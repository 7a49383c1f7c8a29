"""Types of columns, and DataTypes, where programs find them, by the names of PyFlink's module."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.common.types import Row, RowKind
from penstock.errors import ArgumentError
from penstock.sql import types
from penstock.sql.types import *  # noqa: F403 - all of them


@dataclass(frozen=True, slots=True)
class Resolution:
    """One end of an interval's type: a unit, and the number of its digits if it has any."""

    unit: str
    precision: int | None = None


class DataTypes:
    """All types of columns, by PyFlink's names.

    >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())]).names
    ['id', 'name']
    """

    @staticmethod
    def NULL() -> types.NullType:  # noqa: N802
        """Return the type of None."""
        return types.NullType()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> types.CharType:  # noqa: N802
        """Return the type of text of one length."""
        return types.CharType(length, nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> types.VarCharType:  # noqa: N802
        """Return the type of text up to a length."""
        return types.VarCharType(length, nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> types.VarCharType:  # noqa: N802
        """Return the type of text."""
        return types.VarCharType(types.LONGEST, nullable)

    @staticmethod
    def BITMAP(nullable: bool = True) -> types.BitmapType:  # noqa: N802
        """Return the type of sets of integers, which are bytes in RoaringBitmap's portable format."""
        return types.BitmapType(nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> types.BooleanType:  # noqa: N802
        """Return the type of True and False."""
        return types.BooleanType(nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> types.BinaryType:  # noqa: N802
        """Return the type of bytes of one length."""
        return types.BinaryType(length, nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> types.VarBinaryType:  # noqa: N802
        """Return the type of bytes up to a length."""
        return types.VarBinaryType(length, nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> types.VarBinaryType:  # noqa: N802
        """Return the type of bytes."""
        return types.VarBinaryType(types.LONGEST, nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> types.DecimalType:  # noqa: N802
        """Return the type of decimal numbers."""
        return types.DecimalType(precision, scale, nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> types.TinyIntType:  # noqa: N802
        """Return the type of integers of 8 bits."""
        return types.TinyIntType(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> types.SmallIntType:  # noqa: N802
        """Return the type of integers of 16 bits."""
        return types.SmallIntType(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> types.IntType:  # noqa: N802
        """Return the type of integers of 32 bits."""
        return types.IntType(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> types.BigIntType:  # noqa: N802
        """Return the type of integers of 64 bits."""
        return types.BigIntType(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> types.FloatType:  # noqa: N802
        """Return the type of floating-point numbers of 32 bits."""
        return types.FloatType(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> types.DoubleType:  # noqa: N802
        """Return the type of floating-point numbers of 64 bits."""
        return types.DoubleType(nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> types.DateType:  # noqa: N802
        """Return the type of datetime.date."""
        return types.DateType(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> types.TimeType:  # noqa: N802
        """Return the type of datetime.time."""
        return types.TimeType(precision, nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> types.TimestampType:  # noqa: N802
        """Return the type of datetime.datetime without a time zone."""
        return types.TimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> types.LocalZonedTimestampType:  # noqa: N802
        """Return the type of points in time."""
        return types.LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(  # noqa: N802
        precision: int = 6, nullable: bool = True
    ) -> types.LocalZonedTimestampType:
        """Return the type of points in time, by its long name."""
        return types.LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def SECOND(precision: int = 6) -> Resolution:  # noqa: N802
        """Return seconds with `precision` digits of their fraction, for INTERVAL."""
        return Resolution("SECOND", precision)

    @staticmethod
    def MINUTE() -> Resolution:  # noqa: N802
        """Return minutes, for INTERVAL."""
        return Resolution("MINUTE")

    @staticmethod
    def HOUR() -> Resolution:  # noqa: N802
        """Return hours, for INTERVAL."""
        return Resolution("HOUR")

    @staticmethod
    def DAY(precision: int = 2) -> Resolution:  # noqa: N802
        """Return days with `precision` digits, for INTERVAL."""
        return Resolution("DAY", precision)

    @staticmethod
    def MONTH() -> Resolution:  # noqa: N802
        """Return months, for INTERVAL."""
        return Resolution("MONTH")

    @staticmethod
    def YEAR(precision: int = 2) -> Resolution:  # noqa: N802
        """Return years with `precision` digits, for INTERVAL."""
        return Resolution("YEAR", precision)

    @staticmethod
    def INTERVAL(  # noqa: N802
        upper_resolution: Resolution, lower_resolution: Resolution | None = None
    ) -> types.YearMonthIntervalType | types.DayTimeIntervalType:
        """Return the type of spans of time from one unit down to another.

        >>> str(DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3)))
        'INTERVAL DAY(2) TO SECOND(3)'
        """
        ends = (
            [upper_resolution] if lower_resolution is None else [upper_resolution, lower_resolution]
        )
        units = "_TO_".join(end.unit for end in ends)
        digits = {end.unit: end.precision for end in ends if end.precision is not None}
        if units in types.YearMonthIntervalType.YearMonthResolution.__members__:
            months = types.YearMonthIntervalType.YearMonthResolution[units]
            return types.YearMonthIntervalType(months, digits.get("YEAR", 2))
        if units in types.DayTimeIntervalType.DayTimeResolution.__members__:
            days = types.DayTimeIntervalType.DayTimeResolution[units]
            return types.DayTimeIntervalType(days, digits.get("DAY", 2), digits.get("SECOND", 6))
        raise ArgumentError(
            f"unsupported interval {units.replace('_TO_', ' to ').lower()}",
            hint="intervals are either YEAR TO MONTH or DAY TO SECOND",
        )

    @staticmethod
    def ARRAY(element_type: types.DataType, nullable: bool = True) -> types.ArrayType:  # noqa: N802
        """Return the type of lists."""
        return types.ArrayType(element_type, nullable)

    @staticmethod
    def MULTISET(element_type: types.DataType, nullable: bool = True) -> types.MultisetType:  # noqa: N802
        """Return the type of bags."""
        return types.MultisetType(element_type, nullable)

    @staticmethod
    def MAP(  # noqa: N802
        key_type: types.DataType, value_type: types.DataType, nullable: bool = True
    ) -> types.MapType:
        """Return the type of dictionaries."""
        return types.MapType(key_type, value_type, nullable)

    @staticmethod
    def LIST_VIEW(element_type: types.DataType) -> types.ListViewType:  # noqa: N802
        """Return the type of a ListView in the accumulator of an aggregate function."""
        return types.ListViewType(element_type)

    @staticmethod
    def MAP_VIEW(key_type: types.DataType, value_type: types.DataType) -> types.MapViewType:  # noqa: N802
        """Return the type of a MapView in the accumulator of an aggregate function."""
        return types.MapViewType(key_type, value_type)

    @staticmethod
    def ROW(row_fields: Iterable[types.RowField] = (), nullable: bool = True) -> types.RowType:  # noqa: N802
        """Return the type of rows of named fields."""
        return types.RowType(row_fields, nullable)

    @staticmethod
    def FIELD(  # noqa: N802
        name: str, data_type: types.DataType, description: str | None = None
    ) -> types.RowField:
        """Return a field of a row."""
        return types.RowField(name, data_type, description)


__all__ = [*types.__all__, "DataTypes", "Row", "RowKind"]  # noqa: PLE0604 - the names of another module


def __getattr__(name: str) -> Any:
    """Give the class that PyFlink's module has besides, which raises."""
    if name == "UserDefinedType":
        from penstock import table

        return table.UserDefinedType
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
