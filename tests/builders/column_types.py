"""Types of columns, and values of them as Arrow takes them, for Hypothesis."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.sql import types as t

_MICRO = dt.timedelta(microseconds=1)
_DAY_MICROS = 24 * 3600 * 10**6
_SIMPLE: list[Any] = [
    t.BooleanType(), t.TinyIntType(), t.SmallIntType(), t.IntType(), t.BigIntType(), t.FloatType(),
    t.DoubleType(), t.DecimalType(38, 18), t.DecimalType(4, 4), t.DecimalType(10, 0), t.CharType(3),
    t.VarCharType(10), t.VarCharType(t.LONGEST), t.BinaryType(2), t.VarBinaryType(t.LONGEST), t.BitmapType(),
    t.DateType(), t.TimeType(0), t.TimeType(9), t.TimestampType(0), t.TimestampType(3), t.TimestampType(6),
    t.TimestampType(9), t.LocalZonedTimestampType(3), t.LocalZonedTimestampType(9), t.DayTimeIntervalType(),
    t.YearMonthIntervalType(),
]  # fmt: skip


def _nullable(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(kinds, st.booleans()).map(
        lambda pair: pair[0] if pair[1] else pair[0].not_null()
    )


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from([t.VarCharType(t.LONGEST), t.IntType(), t.DateType()]).map(
        lambda kind: kind.not_null()
    )
    rows = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: t.RowType([t.RowField(f"f{at}", kind) for at, kind in enumerate(kinds)])
    )
    maps = st.tuples(keys, inner).map(lambda pair: t.MapType(*pair))
    return _nullable(st.one_of(inner.map(t.ArrayType), rows, maps, keys.map(t.MultisetType)))


#: Every type that a column can have, nullable and not, with others inside
column_types = st.one_of(
    st.just(t.NullType()),
    st.recursive(_nullable(st.sampled_from(_SIMPLE)), _composed, max_leaves=4),
)


def values_of(kind: t.DataType) -> st.SearchStrategy[Any]:
    """Values of a type as pyarrow takes them."""
    made = _values_of(kind)
    return st.none() | made if kind.is_nullable else made


def _values_of(kind: Any) -> st.SearchStrategy[Any]:
    match kind:
        case t.NullType():
            return st.none()
        case t.BooleanType():
            return st.booleans()
        case t.TinyIntType():
            return st.integers(-(2**7), 2**7 - 1)
        case t.SmallIntType():
            return st.integers(-(2**15), 2**15 - 1)
        case t.IntType() | t.YearMonthIntervalType():
            return st.integers(-(2**31), 2**31 - 1)
        case t.BigIntType():
            return st.integers(-(2**63), 2**63 - 1)
        case t.FloatType():
            return st.floats(width=32, allow_nan=False)
        case t.DoubleType():
            return st.floats(allow_nan=False)
        case t.DecimalType():
            most = 10**kind.precision - 1
            return st.integers(-most, most).map(lambda n: Decimal(f"{n}E-{kind.scale}"))
        case t.CharType() | t.VarCharType():
            return st.text(max_size=3)
        case t.BinaryType() | t.VarBinaryType() | t.BitmapType():
            return st.binary(max_size=3)
        case t.DateType():
            return st.dates()
        case t.TimeType():
            return st.times()
        case t.TimestampType():
            return _moments(kind.precision, None)
        case t.LocalZonedTimestampType():
            return _moments(kind.precision, dt.UTC)
        case t.DayTimeIntervalType():
            return st.integers(-(10**12), 10**12).map(lambda n: dt.timedelta(milliseconds=n))
        case t.ArrayType():
            return st.lists(values_of(kind.element_type), max_size=3)
        case t.MapType():
            entries = st.tuples(values_of(kind.key_type), values_of(kind.value_type))
            return st.lists(entries, max_size=2, unique_by=lambda entry: entry[0])
        case t.MultisetType():
            entries = st.tuples(values_of(kind.element_type), st.integers(1, 9))
            return st.lists(entries, max_size=2, unique_by=lambda entry: entry[0])
        case t.RowType():
            return st.fixed_dictionaries(
                {each.name: values_of(each.data_type) for each in kind.fields}
            )
    raise TypeError(f"no values of {kind}")


def _moments(precision: int, zone: dt.tzinfo | None) -> st.SearchStrategy[dt.datetime]:
    """Moments from 1700 to 2200, which nanoseconds reach, with at most so many digits that a datetime has."""
    step = 1000 if precision <= 3 else 1
    begin = dt.datetime(1700, 1, 1, tzinfo=zone)
    days = 500 * 365
    return st.integers(0, days * _DAY_MICROS // step).map(lambda n: begin + n * step * _MICRO)
