"""CAST and TRY_CAST: which types are converted into which."""

from __future__ import annotations

from penstock.errors import ArgumentError
from penstock.sql import types as t
from penstock.sql.expr import typing as ty
from penstock.sql.expr.nodes import Call, Literal, Rex

_NOT_FROM_TEXT = (t.DayTimeIntervalType, t.YearMonthIntervalType, t.BitmapType)


def can_cast(source: t.DataType, target: t.DataType) -> bool:
    """Whether CAST converts values of one type into another at all; single values may fail even so.

    >>> can_cast(t.BooleanType(), t.IntType()), can_cast(t.BooleanType(), t.DateType())
    (True, False)
    """
    if isinstance(source, t.NullType) or source.nullable() == target.nullable():
        return True
    if ty.is_text(target):
        return True
    if ty.is_text(source):
        return not ty.parts_of(target) and not isinstance(target, _NOT_FROM_TEXT)
    if isinstance(source, t.NumericType | t.BooleanType):
        return _number_casts(source, target)
    if ty.is_binary(source):
        return ty.is_binary(target)
    if ty.is_time_point(source):
        return _time_casts(source, target)
    if ty.is_interval(source):
        return type(source) is type(target)
    return _part_casts(source, target)


def _number_casts(source: t.DataType, target: t.DataType) -> bool:
    if isinstance(target, t.NumericType | t.BooleanType):
        return True
    return ty.is_integer(source) and ty.is_interval(target)


def _time_casts(source: t.DataType, target: t.DataType) -> bool:
    if ty.is_timestamp(source):
        return ty.is_time_point(target)
    if isinstance(source, t.DateType):
        return ty.is_timestamp(target)
    return isinstance(target, t.TimeType) or ty.is_timestamp(target)


def _part_casts(source: t.DataType, target: t.DataType) -> bool:
    if type(source) is not type(target):
        return False
    before, after = ty.parts_of(source), ty.parts_of(target)
    return bool(before) and len(before) == len(after) and all(map(can_cast, before, after))


def cast(rex: Rex, target: t.DataType, *, safe: bool = False) -> Rex:
    """Return CAST(rex AS target), or TRY_CAST if `safe`: values that cannot be converted become NULL.

    Raises ArgumentError if there is no such conversion.
    """
    if not can_cast(rex.type, target):
        raise ArgumentError(
            f"cannot cast {rex.type.nullable()} to {target.nullable()}",
            hint=_way_out(rex.type, target),
        )
    if ty.is_null(rex):
        return Literal(target.nullable(), None)
    if rex.type.nullable() == target.nullable():
        return rex
    result = ty.with_nullable(target, safe or rex.type.is_nullable)
    return Call(result, "TRY_CAST" if safe else "CAST", (rex,))


def _way_out(source: t.DataType, target: t.DataType) -> str | None:
    if isinstance(source, t.BitmapType):
        return "use BITMAP_TO_BYTES or BITMAP_TO_ARRAY"
    if isinstance(target, t.BitmapType):
        return "use BITMAP_FROM_BYTES or BITMAP_BUILD"
    if ty.is_number(source) and isinstance(target, t.LocalZonedTimestampType):
        return "use TO_TIMESTAMP_LTZ(number, precision)"
    if ty.is_number(source) and isinstance(target, t.TimestampType):
        return "use CAST(TO_TIMESTAMP_LTZ(number, precision) AS TIMESTAMP(3))"
    if ty.is_timestamp(source) and ty.is_number(target):
        return "use UNIX_TIMESTAMP(CAST(timestamp AS STRING))"
    return None
