"""Typing rules: common types, result types of arithmetic, implicit conversions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr.nodes import Call, Literal, Rex

MOST_DIGITS = 38
_KEPT_SCALE = 6  # a result of more than 38 digits loses digits behind the point, but not these

_INTEGERS: tuple[type[t.DataType], ...] = (
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
)
_DIGITS: dict[type[t.DataType], int] = {
    t.TinyIntType: 3,
    t.SmallIntType: 5,
    t.IntType: 10,
    t.BigIntType: 19,
}
STRING = t.VarCharType(t.LONGEST)
BYTES = t.VarBinaryType(t.LONGEST)
BOOLEAN = t.BooleanType()
INT = t.IntType()
BIGINT = t.BigIntType()
DOUBLE = t.DoubleType()


def is_text(data_type: t.DataType) -> bool:
    """Whether values are text."""
    return isinstance(data_type, t.CharType | t.VarCharType)


def is_binary(data_type: t.DataType) -> bool:
    """Whether values are bytes."""
    return isinstance(data_type, t.BinaryType | t.VarBinaryType)


def is_integer(data_type: t.DataType) -> bool:
    """Whether values are whole numbers."""
    return isinstance(data_type, t.IntegralType)


def is_number(data_type: t.DataType) -> bool:
    """Whether values are numbers."""
    return isinstance(data_type, t.NumericType)


def is_approximate(data_type: t.DataType) -> bool:
    """Whether values are floating-point numbers."""
    return isinstance(data_type, t.FloatType | t.DoubleType)


def is_timestamp(data_type: t.DataType) -> bool:
    """Whether values are points in time or local times of a day."""
    return isinstance(data_type, t.TimestampType | t.LocalZonedTimestampType)


def is_time_point(data_type: t.DataType) -> bool:
    """Whether values are dates, times or timestamps."""
    return is_timestamp(data_type) or isinstance(data_type, t.DateType | t.TimeType)


def is_interval(data_type: t.DataType) -> bool:
    """Whether values are spans of time."""
    return isinstance(data_type, t.DayTimeIntervalType | t.YearMonthIntervalType)


def is_ordered(data_type: t.DataType) -> bool:
    """Whether one value can be less than another."""
    return not isinstance(data_type, t.BitmapType)


def is_null(rex: Rex) -> bool:
    """Whether an expression is the NULL without a type."""
    return isinstance(rex.type, t.NullType)


def with_nullable(data_type: t.DataType, nullable: bool) -> t.DataType:
    """Return the type with or without NULL."""
    return data_type.nullable() if nullable else data_type.not_null()


def any_nullable(operands: Iterable[Rex]) -> bool:
    """Whether one of the expressions can be NULL."""
    return any(each.type.is_nullable for each in operands)


def decimal_of(data_type: t.DataType) -> t.DecimalType:
    """Return the DECIMAL that holds all values of an exact numeric type.

    >>> str(decimal_of(t.IntType()))
    'DECIMAL(10, 0)'
    """
    if isinstance(data_type, t.DecimalType):
        return data_type
    return t.DecimalType(_DIGITS[type(data_type)], 0, data_type.is_nullable)


def bounded_decimal(precision: int, scale: int) -> t.DecimalType:
    """Return a DECIMAL of at most 38 digits: the scale is reduced first, down to six digits.

    >>> str(bounded_decimal(42, 20))
    'DECIMAL(38, 16)'
    """
    if precision <= MOST_DIGITS:
        return t.DecimalType(precision, scale)
    whole = precision - scale
    return t.DecimalType(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _KEPT_SCALE)))


def arithmetic_type(function: str, left: t.DataType, right: t.DataType) -> t.DataType:
    """Return the type of `left + right` and so on, of numbers; NULL is up to the caller.

    >>> str(arithmetic_type("*", t.DecimalType(10, 2), t.IntType()))
    'DECIMAL(21, 2)'
    """
    if not isinstance(left, t.DecimalType) and not isinstance(right, t.DecimalType):
        return _common_number(left, right)
    if is_approximate(left) or is_approximate(right):
        return DOUBLE
    a, b = decimal_of(left), decimal_of(right)
    whole, scale = max(a.precision - a.scale, b.precision - b.scale), max(a.scale, b.scale)
    if function in {"+", "-"}:
        return bounded_decimal(whole + scale + 1, scale)
    if function == "*":
        return bounded_decimal(a.precision + b.precision + 1, a.scale + b.scale)
    if function == "/":
        scale = max(_KEPT_SCALE, a.scale + b.precision + 1)
        return bounded_decimal(a.precision - a.scale + b.scale + scale, scale)
    return bounded_decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _common_number(left: t.DataType, right: t.DataType) -> t.DataType:
    kinds = {type(left), type(right)}
    if is_approximate(left) or is_approximate(right):
        if t.DecimalType in kinds:
            return DOUBLE
        return (left if is_approximate(left) else right).nullable()  # of two, the first counts
    if t.DecimalType in kinds:
        a, b = decimal_of(left), decimal_of(right)
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        return bounded_decimal(whole + scale, scale)
    return (
        left if _INTEGERS.index(type(left)) >= _INTEGERS.index(type(right)) else right
    ).nullable()


def common_type(types: Sequence[t.DataType]) -> t.DataType | None:
    """Return the type that values of all these have when they are put into one column (CASE, UNION, ARRAY, ...); None if there is none.

    >>> str(common_type([t.IntType(nullable=False), t.BigIntType()]))
    'BIGINT'
    """
    nullable = any(each.is_nullable for each in types)
    known = [each for each in types if not isinstance(each, t.NullType)]
    if not known:
        return types[0] if types else None
    result: t.DataType | None = known[0]
    for each in known[1:]:
        if result is None:
            return None
        result = _common_of_two(result, each)
    return None if result is None else with_nullable(result, nullable)


def _common_of_two(left: t.DataType, right: t.DataType) -> t.DataType | None:
    if left.nullable() == right.nullable():
        return left
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    for texts, fixed, varying in (
        (is_text, t.CharType, t.VarCharType),
        (is_binary, t.BinaryType, t.VarBinaryType),
    ):
        if texts(left) and texts(right):
            return _common_length(left, right, fixed, varying)
    if is_time_point(left) and is_time_point(right):
        return _common_time(left, right)
    if is_interval(left) and type(left) is type(right):
        return _common_interval(left, right)
    return _common_composed(left, right)


def _common_length(left: Any, right: Any, fixed: Any, varying: Any) -> t.DataType:
    length = max(left.length, right.length)
    both_fixed = isinstance(left, fixed) and isinstance(right, fixed)
    result: t.DataType = (fixed if both_fixed and left.length == right.length else varying)(length)
    return result


def _common_time(left: t.DataType, right: t.DataType) -> t.DataType | None:
    times = [isinstance(each, t.TimeType) for each in (left, right)]
    if any(times):
        return (
            t.TimeType(max(left.precision, right.precision))  # type: ignore[attr-defined]
            if all(times)
            else None
        )
    precision = max(getattr(left, "precision", 0), getattr(right, "precision", 0))
    local = isinstance(left, t.LocalZonedTimestampType) or isinstance(
        right, t.LocalZonedTimestampType
    )
    return t.LocalZonedTimestampType(precision) if local else t.TimestampType(precision)


def _common_interval(left: Any, right: Any) -> t.DataType:
    if isinstance(left, t.YearMonthIntervalType):
        return t.YearMonthIntervalType(
            _span(left.resolution, right.resolution), max(left.precision, right.precision)
        )
    return t.DayTimeIntervalType(
        _span(left.resolution, right.resolution),
        max(left.day_precision, right.day_precision),
        max(left.fractional_precision, right.fractional_precision),
    )


def _span(left: Any, right: Any) -> Any:
    """Return the resolution from the highest to the lowest unit of both."""
    units = ["YEAR", "MONTH"] if "YEAR" in type(left).__members__ else _DAY_UNITS
    places = [units.index(name) for each in (left, right) for name in each.name.split("_TO_")]
    first, last = units[min(places)], units[max(places)]
    return type(left)[first if first == last else f"{first}_TO_{last}"]


_DAY_UNITS = ["DAY", "HOUR", "MINUTE", "SECOND"]


def _common_composed(left: t.DataType, right: t.DataType) -> t.DataType | None:
    if isinstance(left, t.ArrayType | t.MultisetType) and type(left) is type(right):
        inner = common_type([left.element_type, right.element_type])
        return None if inner is None else type(left)(inner)
    if isinstance(left, t.MapType) and isinstance(right, t.MapType):
        key = common_type([left.key_type, right.key_type])
        value = common_type([left.value_type, right.value_type])
        return None if key is None or value is None else t.MapType(key, value)
    if isinstance(left, t.RowType) and isinstance(right, t.RowType) and len(left) == len(right):
        fields = []
        for mine, other in zip(left, right, strict=True):
            both = common_type([mine.data_type, other.data_type])
            if both is None:
                return None
            fields.append(t.RowField(mine.name, both))
        return t.RowType(fields)
    return None


def can_widen(source: t.DataType, target: t.DataType) -> bool:
    """Whether values are converted without CAST, as arguments and when they are inserted: from narrow to wide types."""
    if isinstance(source, t.NullType):
        return True
    if is_number(source) and is_number(target):
        if is_approximate(target):
            return not (isinstance(source, t.DoubleType) and isinstance(target, t.FloatType))
        if is_approximate(source):
            return False
        if isinstance(target, t.DecimalType):
            return True
        return not isinstance(source, t.DecimalType) and _INTEGERS.index(
            type(source)
        ) <= _INTEGERS.index(type(target))
    if (is_text(source) and is_text(target)) or (is_binary(source) and is_binary(target)):
        return True
    if is_timestamp(target) and (is_timestamp(source) or isinstance(source, t.DateType)):
        return True
    if isinstance(source, t.TimeType) and isinstance(target, t.TimeType):
        return True
    if is_interval(source) and type(source) is type(target):
        return True
    return _can_widen_parts(source, target)


def _can_widen_parts(source: t.DataType, target: t.DataType) -> bool:
    if source.nullable() == target.nullable():
        return True
    if type(source) is not type(target):
        return False
    before, after = parts_of(source), parts_of(target)
    return bool(before) and len(before) == len(after) and all(map(can_widen, before, after))


def parts_of(data_type: t.DataType) -> list[t.DataType]:
    """Return the types inside of a type."""
    if isinstance(data_type, t.ArrayType | t.MultisetType):
        return [data_type.element_type]
    if isinstance(data_type, t.MapType):
        return [data_type.key_type, data_type.value_type]
    return data_type.field_types() if isinstance(data_type, t.RowType) else []


def holds(data_type: t.DataType, kind: type[t.DataType]) -> bool:
    """Whether a type is of this kind, or has one inside that is."""
    return isinstance(data_type, kind) or any(holds(each, kind) for each in parts_of(data_type))


def cast_to(rex: Rex, target: t.DataType) -> Rex:
    """Return an expression as one of another type: as it is if it has that type, except for whether it can be NULL."""
    nullable = rex.type.is_nullable
    if rex.type.nullable() == target.nullable():
        return rex
    if isinstance(rex, Literal) and rex.value is None:
        return Literal(target.nullable(), None)
    if isinstance(rex, Literal):
        converted = _converted(rex.value, rex.type, target)
        if converted is not None:
            return Literal(with_nullable(target, nullable), converted)
    return Call(with_nullable(target, nullable), "CAST", (rex,))


def _converted(value: Any, source: t.DataType, target: t.DataType) -> object:
    """Return a constant as one of a wider type, or None if that is not so simple."""
    if is_integer(source):
        if is_integer(target) and can_widen(source, target):
            return value
        if isinstance(target, t.DoubleType):
            return float(value)
        if isinstance(target, t.DecimalType):
            fits = decimal_of(source).precision <= target.precision - target.scale
            return Decimal(value) if fits else None
    if is_text(source) and isinstance(target, t.VarCharType) and len(value) <= target.length:
        return value
    return None


def literal_of(value: object) -> Literal:
    """Return a constant with the type that it has in SQL.

    >>> str(literal_of("abc").type), str(literal_of(Decimal("1.50")).type)
    ('CHAR(3) NOT NULL', 'DECIMAL(3, 2) NOT NULL')
    """
    if value is None:
        return Literal(t.NullType(), None)
    return Literal(_type_of_value(value).not_null(), value)


def _type_of_value(value: object) -> t.DataType:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return _type_of_integer(value)
    if isinstance(value, Decimal):
        digits, exponent = len(value.as_tuple().digits), value.as_tuple().exponent
        scale = max(-int(exponent), 0)
        whole = max(digits + int(exponent), 1)  # a zero before the point counts
        return t.DecimalType(min(whole + scale, MOST_DIGITS), scale)
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, str):
        return t.CharType(len(value)) if value else t.VarCharType(1)
    if isinstance(value, bytes):
        return t.BinaryType(len(value)) if value else t.VarBinaryType(1)
    if isinstance(value, dt.datetime):
        return t.TimestampType(6) if value.tzinfo is None else t.LocalZonedTimestampType(6)
    if isinstance(value, dt.date):
        return t.DateType()
    if isinstance(value, dt.time):
        return t.TimeType(0)
    if isinstance(value, dt.timedelta):
        return t.DayTimeIntervalType()
    raise ArgumentError(f"no SQL type for the literal {value!r}")


def _type_of_integer(value: int) -> t.DataType:
    if -(2**31) <= value < 2**31:
        return INT
    if -(2**63) <= value < 2**63:
        return BIGINT
    digits = len(str(abs(value)))
    if digits <= MOST_DIGITS:
        return t.DecimalType(digits, 0)
    raise ArgumentError(f"the number {value} has more than {MOST_DIGITS} digits")
