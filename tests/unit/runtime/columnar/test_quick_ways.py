"""Fast paths of functions match the slow ones, value by value."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import polars as pl
import pytest

from penstock.runtime.columnar.expressions import compile_expression, from_text
from penstock.runtime.columnar.expressions.as_text import double_text
from penstock.sql.expr.functions import resolve
from penstock.sql.expr.nodes import InputRef, Rex
from penstock.sql.expr.typing import literal_of
from penstock.sql.types import DataType
from penstock.table import DataTypes as D


def computed(values: list[Any], data_type: DataType, call: Callable[[Rex], Rex]) -> list[Any]:
    """What a call gives for a column."""
    rex = call(InputRef(data_type, 0))
    frame = pl.DataFrame({"c0": values})
    return frame.with_columns(compile_expression(rex).alias("made"))["made"].to_list()


def numbers() -> list[float]:
    """Numbers of all sizes, many of them just at, below or above a half."""
    chance = random.Random(7)
    halves = [chance.randrange(-(10**6), 10**6) / 1000 + 0.0005 for _ in range(1500)]
    others = [chance.uniform(-1, 1) * 10 ** chance.randrange(-8, 16) for _ in range(1500)]
    written = [
        float(f"{chance.randrange(10**5)}.{chance.randrange(10**4):04}") for _ in range(1500)
    ]
    return [*halves, *others, *written, 0.0, -0.0, 1.005, 2.675, 1e300, 0.285, 1.15]


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 6])
def test_numbers_are_rounded_by_the_digits_that_they_are_written_with(digits: int) -> None:
    given = numbers()
    found = computed(given, D.DOUBLE(), lambda ref: resolve("ROUND", [ref, literal_of(digits)]))
    unit = Decimal(1).scaleb(-digits)
    expected = [
        value
        if abs(value) > 1e20  # whole anyway
        else float(Decimal(double_text(value)).quantize(unit, ROUND_HALF_UP))
        for value in given
    ]
    assert found == expected


@pytest.mark.parametrize("scale", [0, 2, 5])
def test_numbers_become_decimals_by_the_digits_that_they_are_written_with(scale: int) -> None:
    given = numbers()
    target = D.DECIMAL(18, scale)
    found = computed(given, D.DOUBLE(), lambda ref: resolve("CAST", [ref], type=target))
    unit = Decimal(1).scaleb(-scale)
    for value, made in zip(given, found, strict=True):
        if abs(value) >= 10.0 ** (18 - scale):
            assert made is None
        else:
            assert made == Decimal(double_text(value)).quantize(unit, ROUND_HALF_UP), value


TEXTS = [
    *("2020-01-02 03:04:05", "2020-01-02 03:04:05.123456789", "2020-01-02 3:4:5", "2020-01-02"),
    *("2020-02-30 00:00:00", "2020-01-02 24:00:00", "2020-01-02 03:04:60", "1969-12-31 23:59:59.9"),
    *(
        "2020-01-02 03:04:05.",
        "2020-01-02 03:04",
        " 2020-01-02 03:04:05",
        "x",
        "",
        "0001-01-01 00:00:00",
    ),
    *(
        "1.5",
        "-2",
        "1e5",
        ".5",
        "5.",
        "+1",
        "1.555",
        "123456789012345678",
        "Infinity",
        "1_0",
        "0x1",
    ),
    *("2020-1-2", "2020-13-01", "2020-01-02 x", "9999-12-31", "12.3456789012345"),
]


@pytest.mark.parametrize(
    ("target", "slow"),
    [
        (D.DOUBLE(), from_text.real),
        (D.DATE(), from_text.date),
        (D.DECIMAL(20, 2), lambda text: from_text.decimal(text, D.DECIMAL(20, 2))),
        (D.DECIMAL(5, 1), lambda text: from_text.decimal(text, D.DECIMAL(5, 1))),
    ],
    ids=["double", "date", "decimal of 20 digits", "decimal of 5 digits"],
)
def test_texts_are_read_the_same(target: DataType, slow: Callable[[str], Any]) -> None:
    found = computed(TEXTS, D.STRING(), lambda ref: resolve("TRY_CAST", [ref], type=target))
    assert found == [slow(text) for text in TEXTS]


def test_timestamps_are_read_the_same() -> None:
    frame = pl.DataFrame({"c0": TEXTS})
    call = resolve("TRY_CAST", [InputRef(D.STRING(), 0)], type=D.TIMESTAMP(6))
    made = frame.with_columns(compile_expression(call).alias("made"))["made"].to_physical()
    assert made.to_list() == [from_text.microseconds(text) for text in TEXTS]


@pytest.mark.parametrize("count", [1, 1000])
def test_quotients_are_the_nearest_numbers(count: int) -> None:
    chance = random.Random(3)
    given = [chance.uniform(-1e6, 1e6) for _ in range(count)]
    found = computed(given, D.DOUBLE(), lambda ref: resolve("/", [ref, literal_of(3.7)]))
    assert found == [value / 3.7 for value in given]
    assert computed([1.5, None], D.DOUBLE(), lambda ref: resolve("/", [ref, ref])) == [1.0, None]
