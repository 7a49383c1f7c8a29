"""DataTypes: where users find the types of columns."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.not_implemented import not_implemented
from penstock.table import types

_LONGEST = 2**31 - 1
_NO_INTERVALS = "no format has columns of intervals"
_NO_VIEWS = "views are the state of SQL's aggregate functions, which are not there"


class DataTypes:
    """All types of columns, by PyFlink's names.

    >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())]).names
    ['id', 'name']
    """

    LIST_VIEW = not_implemented(_NO_VIEWS)
    MAP_VIEW = not_implemented(_NO_VIEWS)
    INTERVAL = not_implemented(_NO_INTERVALS)
    SECOND = not_implemented(_NO_INTERVALS)
    MINUTE = not_implemented(_NO_INTERVALS)
    HOUR = not_implemented(_NO_INTERVALS)
    DAY = not_implemented(_NO_INTERVALS)
    MONTH = not_implemented(_NO_INTERVALS)
    YEAR = not_implemented(_NO_INTERVALS)

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
        return types.VarCharType(_LONGEST, nullable)

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
        return types.VarBinaryType(_LONGEST, nullable)

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
    def ROW(row_fields: Iterable[types.RowField] = (), nullable: bool = True) -> types.RowType:  # noqa: N802
        """Return the type of rows of named fields."""
        return types.RowType(row_fields, nullable)

    @staticmethod
    def FIELD(  # noqa: N802
        name: str, data_type: types.DataType, description: str | None = None
    ) -> types.RowField:
        """Return a field of a row."""
        return types.RowField(name, data_type, description)


__all__ = ["DataTypes"]
