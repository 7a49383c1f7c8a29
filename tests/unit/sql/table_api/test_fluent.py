"""Expressions of the Table API, and the SQL that they stand for."""

from __future__ import annotations

import datetime as dt
import inspect
from decimal import Decimal
from typing import Any

import pytest

from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    PenstockError,
    UnsupportedOperationError,
)
from penstock.sql.parse.parser import parse_expression
from penstock.table import DataTypes, Schema, TableDescriptor
from penstock.table import expressions as e
from penstock.table.expression import (
    Expression,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
)
from penstock.table.expressions import col, lit
from penstock.table.udf import udf, udtaf
from penstock.table.window import Over, Tumble
from tests.builders.cases import by_name, check_all


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("a") + 1, "(`a` + 1)"),
        (1 - col("a"), "(1 - `a`)"),
        (-col("a") * 2.5, "((- `a`) * 2.5E0)"),
        ((col("a") > 1) & ~(col("b") == "x"), "((`a` > 1) AND (NOT (`b` = 'x')))"),
        (col("a") ** 2, "POWER(`a`, 2)"),
        (col("a") % 3, "(`a` % 3)"),
        (col("we`ird"), "`we``ird`"),
        (col("a").is_null | col("b").is_true, "((`a` IS NULL) OR (`b` IS TRUE))"),
        (col("a").cast(DataTypes.BIGINT().not_null()), "CAST(`a` AS BIGINT)"),
        (col("a").try_cast(DataTypes.DECIMAL(5, 2)), "TRY_CAST(`a` AS DECIMAL(5, 2))"),
        (col("a").between(1, 2), "(`a` BETWEEN 1 AND 2)"),
        (col("a").in_(1, 2), "(`a` IN (1, 2))"),
        (col("a").like("x%", "!"), "(`a` LIKE 'x%' ESCAPE '!')"),
        (col("a").count.distinct, "COUNT(DISTINCT `a`)"),
        (col("a").sum, "SUM(`a`)"),
        (col("a").list_agg(";"), "LISTAGG(`a`, ';')"),
        (col("a").substring(1), "SUBSTRING(`a`, 1)"),
        (col("a").substring(1, length=2), "SUBSTRING(`a`, 1, 2)"),
        (col("a").trim(), "TRIM(BOTH ' ' FROM `a`)"),
        (col("a").overlay("x", 1, 2), "OVERLAY(`a` PLACING 'x' FROM 1 FOR 2)"),
        (col("a").log(2), "LOG(2, `a`)"),
        (col("a").log(), "LOG(`a`)"),
        (col("a").locate("x"), "LOCATE(`a`, 'x')"),
        (col("a")[1], "`a`[1]"),
        (col("a").get("f"), "(`a`).`f`"),
        (col("a").extract(TimeIntervalUnit.DAY), "EXTRACT(DAY FROM `a`)"),
        (col("a").floor(TimeIntervalUnit.HOUR), "FLOOR(`a` TO HOUR)"),
        (col("a").ceil(), "CEIL(`a`)"),
        (lit(5).minutes, "INTERVAL '5' MINUTE"),
        (lit(250).days, "INTERVAL '250' DAY(3)"),
        (lit(1500).millis, "INTERVAL '1.500' SECOND(2, 3)"),
        (lit(2).years, "INTERVAL '24' MONTH"),
        (col("a").hours, "(`a` * INTERVAL '1' HOUR)"),
        (lit(None, DataTypes.INT()), "CAST(NULL AS INT)"),
        (lit(Decimal("-1.50")), "(-1.50)"),
        (lit("it's"), "'it''s'"),
        (lit(b"\x01"), "X'01'"),
        (lit(dt.time(1, 2)), "TIME '01:02:00'"),
        (lit(dt.datetime(2024, 1, 2, 3)), "TIMESTAMP '2024-01-02 03:00:00'"),
        (lit([1, 2]), "ARRAY[1, 2]"),
        (lit({"a": 1}), "MAP['a', 1]"),
        (lit(dt.timedelta(days=-1, hours=2)), "INTERVAL '-0 22:00:00.000' DAY(2) TO SECOND(3)"),
        (e.concat_ws("-", col("a"), "b"), "CONCAT_WS('-', `a`, 'b')"),
        (e.and_(col("a"), col("b"), col("c")), "(`a` AND `b` AND `c`)"),
        (e.row(1, "a"), "ROW(1, 'a')"),
        (e.if_then_else(col("a"), 1, 2), "(CASE WHEN `a` THEN 1 ELSE 2 END)"),
        (e.timestamp_diff(TimePointUnit.DAY, col("a"), col("b")), "TIMESTAMPDIFF(DAY, `a`, `b`)"),
        (e.json_object(e.JsonOnNull.ABSENT, "k", 1), "JSON_OBJECT('k' VALUE 1 ABSENT ON NULL)"),
        (
            col("a").json_value(
                "$.x", DataTypes.INT(), on_empty=JsonValueOnEmptyOrError.DEFAULT, default_on_empty=1
            ),
            "JSON_VALUE(`a`, '$.x' RETURNING INT DEFAULT 1 ON EMPTY NULL ON ERROR)",
        ),
        (e.call("my_function", col("a")), "my_function(`a`)"),
    ],
    ids=str,
)
def test_an_expression_is_a_piece_of_sql_that_can_be_read(
    expression: Expression, text: str
) -> None:
    assert str(expression) == text
    assert parse_expression(text) is not None


def _properties() -> list[str]:
    others = {"start", "end", "rowtime", "proctime", "distinct"}  # of windows and aggregates
    return sorted(
        name
        for name, each in inspect.getmembers(Expression)
        if isinstance(each, property) and name not in others
    )


def test_every_property_is_sql_that_can_be_read() -> None:
    def check(name: str) -> None:
        text = str(getattr(col("a"), name))
        if name not in {"asc", "desc", "sum0"}:
            assert parse_expression(text) is not None

    check_all(by_name(_properties(), str), check)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda: bool(col("a") == 1), ArgumentTypeError),
        (lambda: col(1), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: lit(object()).abs.__str__(), ArgumentTypeError),
        (lambda: col("a").distinct, ArgumentError),
        (lambda: str(e.with_columns(col("a"))), ArgumentError),
        (lambda: col("a").substring(), TypeError),
        (lambda: col("a").flatten(), UnsupportedOperationError),
        (lambda: e.map_(1, 2, 3), ArgumentError),
        (lambda: udtaf(None), UnsupportedOperationError),
        (lambda: udf(lambda a: a, result_type="INT", func_type="arrow"), ArgumentError),
        (lambda: Tumble.over(e.row_interval(5)), UnsupportedOperationError),
        (lambda: Tumble.over(10), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: Schema.new_builder().column("a", 1), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: Schema.new_builder().column("a", "INT").column("a", "INT"), ArgumentError),
        (lambda: Schema.new_builder().primary_key(), ArgumentError),
        (lambda: TableDescriptor.for_connector(""), ArgumentError),
    ],
)
def test_invalid_expressions_are_rejected_at_definition(use: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        use()
    assert kind is TypeError or isinstance(caught.value, PenstockError)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (
            Over.partition_by(col("k")).order_by(col("t")),
            "PARTITION BY `k` ORDER BY `t` RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ),
        (
            Over.order_by(col("t")).preceding(e.row_interval(2)).following(e.CURRENT_ROW),
            "ORDER BY `t` ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
        ),
        (
            Over.order_by(col("t")).preceding(lit(1).hours),
            "ORDER BY `t` RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW",
        ),
        (
            Over.order_by(col("t")).preceding(e.UNBOUNDED_ROW),
            "ORDER BY `t` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ),
    ],
)
def test_a_window_over_rows_is_what_over_says(window: Any, text: str) -> None:
    assert window.alias("w").sql(None) == text
