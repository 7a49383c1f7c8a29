"""Rows as Flink prints them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from penstock.common import Row, RowKind
from penstock.sql.results.printing import ResultTable, text_of
from penstock.sql.results.resolved_schema import ResolvedSchema
from penstock.sql.types import DataType
from penstock.table import DataTypes

D = DataTypes
ROW = D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.STRING())])


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, D.INT(), "NULL"),
        (True, D.BOOLEAN(), "TRUE"),
        (False, D.BOOLEAN(), "FALSE"),
        (-7, D.BIGINT(), "-7"),
        (1.0, D.DOUBLE(), "1.0"),
        (0.1, D.DOUBLE(), "0.1"),
        (1e7, D.DOUBLE(), "1.0E7"),
        (12345678.9, D.DOUBLE(), "1.23456789E7"),
        (-0.00012, D.DOUBLE(), "-1.2E-4"),
        (0.0, D.DOUBLE(), "0.0"),
        (float("nan"), D.DOUBLE(), "NaN"),
        (float("-inf"), D.DOUBLE(), "-Infinity"),
        (0.10000000149011612, D.FLOAT(), "0.1"),
        (Decimal("1.5"), D.DECIMAL(5, 2), "1.50"),
        ("x", D.STRING(), "x"),
        (b"\x01\xff", D.BYTES(), "x'01ff'"),
        (dt.date(2024, 1, 2), D.DATE(), "2024-01-02"),
        (dt.time(1, 2, 3, 450_000), D.TIME(0), "01:02:03"),
        (dt.time(1, 2, 3, 450_000), D.TIME(3), "01:02:03.450"),
        (dt.datetime(2024, 1, 2, 3, 4, 5), D.TIMESTAMP(0), "2024-01-02 03:04:05"),
        (dt.datetime(2024, 1, 2, 3, 4, 5), D.TIMESTAMP(3), "2024-01-02 03:04:05.000"),
        (
            dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
            D.TIMESTAMP_LTZ(3),
            "2024-01-02 04:04:05.000",
        ),
        (dt.timedelta(days=1, milliseconds=5), D.INTERVAL(D.DAY(), D.SECOND(3)), "+1 00:00:00.005"),
        (14, D.INTERVAL(D.YEAR(), D.MONTH()), "+1-02"),
        ([1, None], D.ARRAY(D.INT()), "[1, NULL]"),
        ({"k": 1.5}, D.MAP(D.STRING(), D.DOUBLE()), "{k=1.5}"),
        ({"k": 2}, D.MULTISET(D.STRING()), "{k=2}"),
        (Row(1, "x"), ROW, "(1, x)"),
        ([Row(1, None)], D.ARRAY(ROW), "[(1, NULL)]"),
    ],
)
def test_values_are_written_as_a_cast_to_string_writes_them(
    value: Any, kind: DataType, text: str
) -> None:
    assert text_of(value, kind, "Europe/Berlin") == text


def lines(tableau: ResultTable, *rows: Row) -> list[str]:
    return list(tableau.lines(rows))


def test_columns_are_as_wide_as_their_types_ask() -> None:
    schema = ResolvedSchema.physical(["a", "b", "c"], [D.INT(), D.BOOLEAN(), D.TIMESTAMP(3)])
    shown = lines(
        ResultTable(schema, kinds=True, by_type=True),
        Row(1, True, None),
        Row.of_kind(RowKind.UPDATE_BEFORE, -2, None, dt.datetime(2024, 1, 2)),
    )
    assert shown == [
        "+----+-------------+--------+-------------------------+",
        "| op |           a |      b |                       c |",
        "+----+-------------+--------+-------------------------+",
        "| +I |           1 |   TRUE |                  <NULL> |",
        "| -U |          -2 | <NULL> | 2024-01-02 00:00:00.000 |",
        "+----+-------------+--------+-------------------------+",
        "2 rows in set",
    ]


def test_long_texts_are_cut_and_wide_characters_counted_twice() -> None:
    schema = ResolvedSchema.physical(["text"], [D.STRING()])
    shown = lines(ResultTable(schema, widest=8), Row("a" * 20), Row("日本語テキスト"), Row("日本"))
    assert shown[3:6] == ["| aaaaa... |", "|  日本... |", "|     日本 |"]


def test_columns_are_as_wide_as_their_values_where_these_are_known() -> None:
    schema = ResolvedSchema.physical(["a", "name"], [D.INT(), D.STRING()])
    assert lines(ResultTable(schema, null=""), Row(1, "long text"), Row(22, None)) == [
        "+----+-----------+",
        "|  a |      name |",
        "+----+-----------+",
        "|  1 | long text |",
        "| 22 |           |",
        "+----+-----------+",
        "2 rows in set",
    ]


def test_no_rows_are_an_empty_set() -> None:
    assert lines(ResultTable(ResolvedSchema.physical(["a"], [D.INT()]))) == ["Empty set"]
