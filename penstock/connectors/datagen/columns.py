"""Columns of made-up values. A value depends on its row's number only, so rows that are read again are the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.errors import ConfigurationError
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.sql import types as t

Numbers = npt.NDArray[np.uint64]

HEX: Final = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
DAY_MS: Final = 86_400_000
BOUNDS: Final[dict[type[t.DataType], tuple[int, int]]] = {
    t.TinyIntType: (-(2**7), 2**7 - 1),
    t.SmallIntType: (-(2**15), 2**15 - 1),
    t.IntType: (-(2**31), 2**31 - 1),
    t.BigIntType: (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """How a column is generated: the options `fields.NAME.*`."""

    name: str
    type: t.DataType
    kind: str = "random"
    start: int | None = None
    end: int | None = None
    least: float | None = None
    most: float | None = None
    max_past_ms: int = 0
    length: int | None = None
    null_rate: float = 0.0
    varying: bool = False
    inner: tuple[ColumnRule, ...] = ()  # of elements, of keys and values, or of fields


def inner_types(kind: t.DataType) -> dict[str, t.DataType]:
    """Return the inner types of a type, by the names that options use for them.

    >>> inner_types(t.ArrayType(t.IntType()))
    {'element': IntType(true)}
    """
    match kind:
        case t.ArrayType() | t.MultisetType():
            return {"element": kind.element_type}
        case t.MapType():
            return {"key": kind.key_type, "value": kind.value_type}
        case t.RowType():
            return {each.name: each.data_type for each in kind.fields}
    return {}


def options_of_type(kind: t.DataType) -> tuple[str, ...]:
    """Return the names of the options that say something about values of a type.

    >>> options_of_type(t.IntType()), options_of_type(t.BooleanType())
    (('min', 'max'), ())
    """
    match kind:
        case t.CharType() | t.VarCharType() | t.BinaryType() | t.VarBinaryType():
            return "length", "var-len"
        case t.TimestampType() | t.LocalZonedTimestampType() | t.DateType() | t.TimeType():
            return ("max-past",)
        case t.ArrayType() | t.MapType() | t.MultisetType():
            return ("length",)
        case t.BooleanType() | t.RowType():
            return ()
    return "min", "max"


def spread(seed: int, numbers: Numbers) -> Numbers:
    """Mix numbers to 64 well spread bits each (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = numbers * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def shares(seed: int, numbers: Numbers) -> npt.NDArray[np.float64]:
    """Return numbers from 0 up to, not including, 1."""
    return (spread(seed, numbers) >> np.uint64(11)).astype(np.float64) / 2.0**53


def make_column(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    """Return the values of rows with these numbers."""
    if rule.kind == "sequence":
        return _sequence(rule, numbers)
    made = _random(rule, seed, numbers).cast(dtype_of(rule.type)).alias(rule.name)
    if rule.null_rate > 0:
        keep = pl.Series(shares(seed + 7_919, numbers) >= rule.null_rate)
        made = pl.select(pl.when(keep).then(made)).to_series().alias(rule.name)
    return made


def _sequence(rule: ColumnRule, numbers: Numbers) -> pl.Series:
    values = pl.Series(rule.name, numbers.astype(np.int64) + (rule.start or 0))
    return values.cast(dtype_of(rule.type))


def _random(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    for kinds, make in _MAKERS:
        if isinstance(rule.type, kinds):
            return make(rule, seed, numbers)
    raise ConfigurationError(
        f"column {rule.name}: datagen does not support type {rule.type}",
        hint="remove the column, or compute it: name AS expression",
    )


def _whole(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    low, high = BOUNDS[type(rule.type)]
    least = low if rule.least is None else int(rule.least)
    most = high if rule.most is None else int(rule.most)
    span = most - least + 1
    found = spread(seed, numbers)
    offset = found if span >= 2**64 else found % np.uint64(span)
    return pl.Series((offset + np.uint64(least % 2**64)).astype(np.int64))


def _fraction(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    least = 0.0 if rule.least is None else rule.least
    most = 1.0 if rule.most is None else rule.most
    return pl.Series(least + shares(seed, numbers) * (most - least))


def _decimal(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    assert isinstance(rule.type, t.DecimalType)
    digits = rule.type.precision - rule.type.scale
    least = 0.0 if rule.least is None else rule.least
    most = 10.0**digits - 1 if rule.most is None else rule.most
    return pl.Series(least + shares(seed, numbers) * (most - least)).round(rule.type.scale)


def _boolean(_: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    return pl.Series(shares(seed, numbers) < 0.5)


def _text(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    declared = getattr(rule.type, "length", None)
    fixed = isinstance(rule.type, t.CharType | t.BinaryType)
    length = rule.length or (declared if fixed and declared else 100)
    if length < 1:
        return pl.Series([""] * len(numbers))
    words = [spread(seed + 31 * (word + 1), numbers) for word in range(-(-length // 16))]
    nibbles = [
        (word >> np.uint64(4 * place)).astype(np.uint8) & 15
        for word in words
        for place in range(16)
    ]
    characters = HEX[np.stack(nibbles[:length], axis=1)]
    text = np.ascontiguousarray(characters).view(f"S{length}").ravel()
    made = pl.Series(text.astype(f"U{length}"))
    if rule.varying:
        lengths = spread(seed + 3, numbers) % np.uint64(length) + np.uint64(1)
        made = pl.select(made.str.head(pl.Series(lengths))).to_series()
    return made


def _binary(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    return _text(rule, seed, numbers).cast(pl.Binary)


def _past(rule: ColumnRule, seed: int, numbers: Numbers) -> npt.NDArray[np.int64]:
    now = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
    if not rule.max_past_ms:
        return np.full(len(numbers), now, dtype=np.int64)
    back = spread(seed, numbers) % np.uint64(rule.max_past_ms + 1)
    return now - back.astype(np.int64)


def _moment(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    zone = "UTC" if isinstance(rule.type, t.LocalZonedTimestampType) else None
    return pl.Series(_past(rule, seed, numbers)).cast(pl.Datetime("ms", zone))


def _date(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    return pl.Series(_past(rule, seed, numbers) // DAY_MS).cast(pl.Int32)


def _time(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    return pl.Series(_past(rule, seed, numbers) % DAY_MS * 1_000_000)


def _interval(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    days = isinstance(rule.type, t.DayTimeIntervalType)
    least = 0 if rule.least is None else int(rule.least)
    most = (10 * DAY_MS if days else 1_200) if rule.most is None else int(rule.most)
    found = spread(seed, numbers) % np.uint64(most - least + 1)
    return pl.Series(found.astype(np.int64) + least)


def _row(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    return pl.DataFrame(_inner(rule, seed, numbers)).to_struct()


def _collection(rule: ColumnRule, seed: int, numbers: Numbers) -> pl.Series:
    """Generate the elements of a collection for each row, by the rule of the element type."""
    length = _LENGTH if rule.length is None else rule.length
    dtype = dtype_of(rule.type)
    if length < 1:
        return pl.Series([[]] * len(numbers), dtype=dtype)
    owners = np.repeat(np.arange(len(numbers)), length)
    each = np.repeat(numbers, length) * np.uint64(length) + np.tile(
        np.arange(length, dtype=np.uint64), len(numbers)
    )
    made = pl.DataFrame(_inner(rule, seed, each))
    if isinstance(rule.type, t.MultisetType):
        counts = spread(seed + 5, each) % np.uint64(9) + np.uint64(1)
        made = made.rename({"element": "key"}).with_columns(value=pl.Series(counts))
    made = made.with_columns(pl.Series("$row", owners))
    if "key" in made.columns and not isinstance(rule.type, t.ArrayType):
        made = made.unique(["$row", "key"], keep="first", maintain_order=True)
        value = pl.struct("key", "value")
    else:
        value = pl.col("element")
    found = made.group_by("$row", maintain_order=True).agg(value.alias("$values"))
    return found["$values"]


def _inner(rule: ColumnRule, seed: int, numbers: Numbers) -> list[pl.Series]:
    return [make_column(each, seed + 101 * at, numbers) for at, each in enumerate(rule.inner, 1)]


_LENGTH: Final = 3  # default length of collections
Maker = Callable[[ColumnRule, int, Numbers], pl.Series]
_MAKERS: Final[tuple[tuple[Any, Maker], ...]] = (
    (tuple(BOUNDS), _whole),
    ((t.FloatType, t.DoubleType), _fraction),
    (t.DecimalType, _decimal),
    (t.BooleanType, _boolean),
    ((t.CharType, t.VarCharType), _text),
    ((t.BinaryType, t.VarBinaryType), _binary),
    ((t.TimestampType, t.LocalZonedTimestampType), _moment),
    (t.DateType, _date),
    (t.TimeType, _time),
    ((t.DayTimeIntervalType, t.YearMonthIntervalType), _interval),
    (t.RowType, _row),
    ((t.ArrayType, t.MapType, t.MultisetType), _collection),
)
