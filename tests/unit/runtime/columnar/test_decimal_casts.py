"""Casts of decimals give what exact arithmetic gives: rounded half up, NULL where there are too many digits."""

from __future__ import annotations

import random
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl
import pytest

from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.sql.expr.functions import resolve
from penstock.sql.expr.nodes import InputRef
from penstock.sql.types import DataType
from penstock.table import DataTypes as D

EXACT = Context(prec=90, rounding=ROUND_HALF_UP)
#: Precision and scale: few digits, all in front of the point or behind it, and as many as there can be.
KINDS = [
    *((1, 0), (2, 1), (3, 0), (3, 3), (4, 1), (6, 2), (9, 9), (18, 0), (18, 4)),
    *((19, 19), (20, 2), (28, 10), (37, 1), (38, 0), (38, 2), (38, 18), (38, 37), (38, 38)),
]
INTEGERS = {D.TINYINT(): 8, D.SMALLINT(): 16, D.INT(): 32, D.BIGINT(): 64}


def decimals(precision: int, scale: int) -> list[Decimal | None]:
    """The ends of a type, what is next to them, numbers at a half of each later digit, and some by chance."""
    rng = random.Random(100 * precision + scale)
    most = 10**precision - 1
    halves = [5 * 10**digits for digits in range(precision)]
    near = [each + step for each in halves for step in (-1, 0, 1)]
    nines = [most - each for each in halves]
    sizes = [rng.randrange(10 ** rng.randrange(1, precision + 1)) for _ in range(40)]
    unscaled = {0, 1, most, *(each for each in (*near, *nines, *sizes) if 0 <= each <= most)}
    signed = sorted(unscaled | {-each for each in unscaled})
    return [None, *(Decimal(each).scaleb(-scale, EXACT) for each in signed)]


def cast(values: list[Any], source: DataType, target: DataType, name: str = "CAST") -> list[Any]:
    """What a cast gives for a column."""
    frame = pl.DataFrame({"c0": pl.Series(values, dtype=dtype_of(source))})
    made = compile_expression(resolve(name, [InputRef(source, 0)], type=target))
    return frame.select(made.alias("made"))["made"].to_list()


def fitting(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """A number with so many digits behind the point; None if it has too many in front of it."""
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    return rounded if rounded.copy_abs() < Decimal(1).scaleb(precision - scale) else None


@pytest.mark.parametrize("name", ["CAST", "TRY_CAST"])
def test_decimals_become_other_decimals(name: str) -> None:
    wrong = []
    for source in KINDS:
        given = decimals(*source)
        for target in KINDS:
            found = cast(given, D.DECIMAL(*source), D.DECIMAL(*target), name)
            expected = [None if each is None else fitting(each, *target) for each in given]
            # NULLs, digits and signs; -0 is 0
            differ = zip(given, found, expected, strict=True)
            wrong += [(source, target, *each) for each in differ if each[1] != each[2]]
    assert not wrong, f"{len(wrong)} casts, such as {wrong[:5]}"


def test_whole_numbers_become_decimals() -> None:
    wrong = []
    for source, bits in INTEGERS.items():
        half = 1 << (bits - 1)
        given = [0, 1, -1, 9, 10, -10, 99, 100, half - 1, -half, half // 10, None]
        for target in KINDS:
            found = cast(given, source, D.DECIMAL(*target))
            for value, made in zip(given, found, strict=True):
                expected = None if value is None else fitting(Decimal(value), *target)
                if made != expected:
                    wrong.append((str(source), target, value, made, expected))
    assert not wrong, f"{len(wrong)} casts, such as {wrong[:5]}"


def test_decimals_become_whole_numbers_without_what_is_behind_the_point() -> None:
    """Numbers that do not fit wrap around, as in Java."""
    wrong = []
    for source in KINDS:
        given = decimals(*source)
        for target, bits in INTEGERS.items():
            half = 1 << (bits - 1)
            found = cast(given, D.DECIMAL(*source), target)
            for value, made in zip(given, found, strict=True):
                cut = None if value is None else int(value.quantize(Decimal(1), ROUND_DOWN, EXACT))
                expected = None if cut is None else (cut + half) % (2 * half) - half
                if made != expected:
                    wrong.append((source, str(target), value, made, expected))
    assert not wrong, f"{len(wrong)} casts, such as {wrong[:5]}"


def test_decimals_become_the_nearest_floating_point_numbers_and_texts() -> None:
    for source in KINDS:
        given = [each for each in decimals(*source) if each is not None]
        assert cast(given, D.DECIMAL(*source), D.DOUBLE()) == [float(each) for each in given]
        texts = [f"{each:.{source[1]}f}" for each in given]
        assert cast(given, D.DECIMAL(*source), D.STRING()) == texts
        assert cast(texts, D.STRING(), D.DECIMAL(*source)) == given


def test_decimals_inside_of_arrays_rows_and_maps_are_cast_as_others_are() -> None:
    source, target = (4, 2), (3, 1)
    given = [each for each in decimals(*source) if each is not None]
    expected = [fitting(each, *target) for each in given]
    before, after = D.DECIMAL(*source), D.DECIMAL(*target)
    assert cast([given], D.ARRAY(before), D.ARRAY(after)) == [expected]
    rows = cast(
        [{"a": each} for each in given],
        D.ROW([D.FIELD("a", before)]),
        D.ROW([D.FIELD("a", after)]),
    )
    assert rows == [{"a": each} for each in expected]
    entries = [{"key": at, "value": each} for at, each in enumerate(given)]
    maps = cast([entries], D.MAP(D.INT(), before), D.MAP(D.INT(), after))
    assert maps == [[{"key": at, "value": each} for at, each in enumerate(expected)]]
    # Where the cast is only tried, a number that does not fit makes the whole NULL.
    tried = cast(
        [[Decimal("1.25")], [Decimal("99.99")]], D.ARRAY(before), D.ARRAY(after), "TRY_CAST"
    )
    assert tried == [[Decimal("1.3")], None]
