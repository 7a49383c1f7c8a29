"""Expressions over columns: NULLs, failures only where a value is needed, the session time zone, users' functions."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from penstock.errors import ArgumentError, PenstockError, RecordError, UnsupportedOperationError
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.sql.expr.functions import nearest_function, resolve
from penstock.sql.expr.nodes import InputRef, Rex, UserCall
from penstock.sql.expr.typing import literal_of
from penstock.sql.logical.context import PlanSettings
from penstock.sql.logical.nodes import Field
from penstock.sql.logical.planner import LogicalPlanner
from penstock.sql.parse.parser import parse_expression
from penstock.table import DataTypes as D

SCHEMA = (
    Field("n", D.BIGINT()),
    Field("s", D.STRING()),
    Field("t", D.TIMESTAMP(3)),
    Field("d", D.DOUBLE()),
    Field("p", D.DECIMAL(10, 2)),
    Field("l", D.TIMESTAMP_LTZ(3)),
    Field("a", D.ARRAY(D.INT())),
)
WINTER = dt.datetime(2020, 1, 2, 3, 4, 5, 678000)
SUMMER = dt.datetime(2020, 7, 2, 23, 30)
FRAME = pl.DataFrame(
    {
        "c0": [5, -7, None, 0],
        "c1": ["a,b", "12", None, ""],
        "c2": [WINTER, None, dt.datetime(1969, 12, 31, 23, 59, 59), SUMMER],
        "c3": [1.5, float("nan"), None, -0.0],
        "c4": [Decimal("1.25"), Decimal("-2.35"), None, Decimal("0.01")],
        "c5": [WINTER, None, None, SUMMER],
        "c6": [[1, None], [], None, [2]],
    },
    schema={f"c{at}": dtype_of(field.type) for at, field in enumerate(SCHEMA)},
)


class NoTables:
    """A catalog without anything."""

    def find_table(self, name: Sequence[str]) -> None:
        """Find none."""

    def find_function(self, name: Sequence[str]) -> None:
        """Find none."""

    def function_names(self) -> list[str]:
        return []

    def table_names(self) -> list[str]:
        """Return none."""
        return []

    def at(self, catalog: str, database: str) -> NoTables:
        """Return itself."""
        return self


def typed(text: str, zone: str = "UTC") -> Rex:
    """The expression that a text is over the columns."""
    planner = LogicalPlanner(NoTables(), PlanSettings(zone=zone))
    return planner.expression(parse_expression(text), SCHEMA, text)


def values(rex: Rex | str, zone: str = "UTC") -> list[Any]:
    """What an expression gives for the four rows."""
    if isinstance(rex, str):
        rex = typed(rex, zone)
    made = FRAME.with_columns(compile_expression(rex, zone).alias("made"))["made"]
    assert made.dtype == dtype_of(rex.type)
    return made.to_list()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n + 1", [6, -6, None, 1]),
        ("n / 2", [2, -3, None, 0]),
        ("n % 3", [2, -1, None, 0]),
        ("10 / NULLIF(n, 0)", [2, -1, None, None]),
        ("n * 9223372036854775807", [9223372036854775803, -9223372036854775801, None, 0]),
        ("0.5 * n", [Decimal("2.5"), Decimal("-3.5"), None, Decimal("0.0")]),
        ("p * p", [Decimal("1.5625"), Decimal("5.5225"), None, Decimal("0.0001")]),
        ("ROUND(p, 1)", [Decimal("1.3"), Decimal("-2.4"), None, Decimal("0.0")]),
        ("d = d", [True, False, None, True]),
        ("d <> d", [False, True, None, False]),
        ("n > 0 AND s = 'a,b'", [True, False, None, False]),
        ("n > 0 OR s IS NULL", [True, False, True, False]),
        ("NOT n > 0", [False, True, None, True]),
        ("n IN (5, 0)", [True, False, None, True]),
        ("n IN (5, CAST(NULL AS BIGINT))", [True, None, None, None]),
        ("n NOT IN (5, CAST(NULL AS BIGINT))", [False, None, None, None]),
        ("n IN (n, 3)", [True, True, None, True]),
        ("COALESCE(n, -1)", [5, -7, -1, 0]),
        ("s LIKE '%,%'", [True, False, None, False]),
        ("CHAR_LENGTH(s)", [3, 2, None, 0]),
        ("CHAR_LENGTH(REPLACE(s, ',', '--'))", [4, 2, None, 0]),
        ("CHAR_LENGTH(REPLACE(s, '', 'x'))", [7, 5, None, 1]),
        ("REPLACE(s, '1', '$0')", ["a,b", "$02", None, ""]),
        ("s || '!'", ["a,b!", "12!", None, "!"]),
        ("CONCAT_WS('-', s, 'x')", ["a,b-x", "12-x", "x", "-x"]),
        ("SPLIT_INDEX(s, ',', 1)", ["b", None, None, None]),
        ("TRY_CAST(s AS INT)", [None, 12, None, None]),
        ("CAST(d AS STRING)", ["1.5", "NaN", None, "-0.0"]),
        ("CAST(n AS DECIMAL(3, 2))", [Decimal("5.00"), Decimal("-7.00"), None, Decimal("0.00")]),
        (
            "CAST(CAST(n + 4.99 AS DECIMAL(3, 2)) AS DECIMAL(2, 1))",
            [None, Decimal("-2.0"), None, Decimal("5.0")],
        ),
        ("HOUR(t)", [3, None, 23, 23]),
        ("DATE_FORMAT(t, 'yyyyMMdd')", ["20200102", None, "19691231", "20200702"]),
        ("a[1]", [1, None, None, 2]),
        ("CARDINALITY(a)", [2, 0, None, 1]),
        ("CAST(a AS STRING)", ["[1, NULL]", "[]", None, "[2]"]),
        ("CAST(a AS ARRAY<STRING>)", [["1", None], [], None, ["2"]]),
        ("n IS DISTINCT FROM 5", [False, True, True, True]),
        ("GREATEST(n, 1)", [5, 1, None, 1]),
        ("GREATEST(1, n)", [5, 1, None, 1]),
        ("LEAST(0, n, 1)", [0, -7, None, 0]),
        ("(n > 0) IS TRUE", [True, False, False, False]),
        ("(n > 0) IS NOT TRUE", [False, True, True, True]),
        ("(n > 0) IS FALSE", [False, True, False, True]),
        ("(n > 0) IS NOT FALSE", [True, False, True, False]),
        ("(n > 0) IS UNKNOWN", [False, False, True, False]),
        ("(n > 0) IS NOT UNKNOWN", [True, True, False, True]),
        ("1 + 1", [2, 2, 2, 2]),
    ],
)
def test_each_row_has_its_value(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN n <> 0 THEN 10 / n ELSE -1 END", [2, -1, -1, -1]),
        ("n <> 0 AND 10 / n > 1", [True, False, None, False]),
        ("n = 0 OR 10 / n > 1", [True, False, None, True]),
        ("COALESCE(n + 1, 1 / 0)", None),
        ("COALESCE(n, 10 / n)", [5, -7, None, 0]),
        ("HOUR(t) > 100 AND 10 / n > 100", [False, False, False, False]),  # NULL AND FALSE, too
        ("HOUR(t) < 100 OR 10 / n < 100", [True, True, True, True]),
        ("COALESCE(n, 0) + CASE WHEN n IS NULL THEN 1 ELSE 0 END", [5, -7, 1, 0]),
        ("CASE WHEN s = '12' THEN CAST(s AS INT) END", [None, 12, None, None]),
        ("CASE WHEN s = 'a,b' THEN 0 WHEN s = '' THEN 1 ELSE CAST(s AS INT) END", [0, 12, None, 1]),
        ("s = '12' AND CAST(s AS INT) = 12", [False, True, None, False]),
    ],
)
def test_unneeded_operands_are_not_evaluated(text: str, expected: list[Any] | None) -> None:
    if expected is None:  # one row does need it
        with pytest.raises(RecordError, match="division by zero"):
            values(text)
    else:
        assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10 / n", "division by zero"),
        ("10 % n", "division by zero"),
        ("CAST(s AS INT)", "cannot cast 'a,b' to INT"),
        ("CAST(s AS DATE)", "cannot cast 'a,b' to DATE"),
        ("CAST(s AS BOOLEAN)", "cannot cast 'a,b' to BOOLEAN"),
    ],
)
def test_failures_name_the_value(text: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        values(text)


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        ("Europe/Berlin", "HOUR(l)", [4, None, None, 1]),
        (
            "Europe/Berlin",
            "CAST(l AS DATE)",
            [dt.date(2020, 1, 2), None, None, dt.date(2020, 7, 3)],
        ),
        ("Europe/Berlin", "DATE_FORMAT(l, 'HH:mm')", ["04:04", None, None, "01:30"]),
        ("GMT+08:00", "HOUR(l)", [11, None, None, 7]),
        ("UTC", "HOUR(l)", [3, None, None, 23]),
        (
            "America/New_York",
            "CAST(CAST(t AS TIMESTAMP_LTZ(3)) AS TIMESTAMP(3)) = t",
            [True, None, True, True],
        ),
    ],
)
def test_points_in_time_are_seen_in_the_session_time_zone(
    zone: str, text: str, expected: list[Any]
) -> None:
    assert values(text, zone) == expected


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ArgumentError, match="unknown time zone 'Mars/Phobos'"):
        compile_expression(literal_of(1), "Mars/Phobos")


@pytest.mark.parametrize("pattern", ["(&|^)id=([^&]*)", "id=([^&]*)", "(\\?|^)id=([^&]*)"])
@pytest.mark.parametrize(
    "text",
    [
        "id=1",
        "a&id=2&b",
        "aid=3",
        "x&id=",
        "",
        "é&id=ü&id=4",
        "a?id=5",
        "&id=6\n&",
        "id=7&id=8",
        "xid=9&id=10",
    ],
)
def test_marks_in_texts_are_found_as_regular_expressions_find_them(text: str, pattern: str) -> None:
    group = pattern.count("(")
    found = re.search(pattern, text)
    frame = pl.DataFrame({"c0": [text, None]})
    operands = [InputRef(D.STRING(), 0), literal_of(pattern), literal_of(group)]
    extract = resolve("REGEXP_EXTRACT", operands)
    made = frame.with_columns(
        compile_expression(extract).alias("value"),
        compile_expression(resolve("IS NOT NULL", [extract])).alias("known"),
        compile_expression(resolve("IS NULL", [extract])).alias("missing"),
    )
    assert made["value"].to_list() == [found[group] if found else None, None]
    assert made["known"].to_list() == [found is not None, False]
    assert made["missing"].to_list() == [found is None, True]


def test_a_users_function_is_called_for_each_row() -> None:
    given = InputRef(D.BIGINT(), 0), InputRef(D.ARRAY(D.INT()), 6)
    call = UserCall(D.STRING(), "show", lambda n, a: f"{n} {a}", given)
    assert values(call) == ["5 [1, None]", "-7 []", "None None", "0 [2]"]


def test_a_users_function_of_constants_is_called_for_each_row_too() -> None:
    counted: list[int] = []
    call = UserCall(D.INT(), "count", lambda: counted.append(1) or len(counted), ())
    assert values(call) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("function", "condition", "called"),
    [
        ("CASE", "n > 0", [5]),
        ("AND", "n > 0", [5, None]),
        ("OR", "n > 0", [-7, None, 0]),
        ("COALESCE", "n > 0", [None]),
    ],
)
def test_a_users_function_is_called_where_its_value_is_needed(
    function: str, condition: str, called: list[Any]
) -> None:
    asked: list[Any] = []
    call = UserCall(D.BOOLEAN(), "f", lambda n: asked.append(n), (InputRef(D.BIGINT(), 0),))  # type: ignore[func-returns-value]
    operands = [typed(condition), call]
    if function == "CASE":
        operands.append(literal_of(True))
    values(resolve(function, operands))
    assert asked == called


def test_a_users_pandas_function_gets_series() -> None:
    call = UserCall(D.BIGINT(), "twice", lambda n: n * 2, (InputRef(D.BIGINT(), 0),), pandas=True)
    assert values(call) == [10, -14, None, 0]


def test_the_current_watermark_is_asked_for_each_batch() -> None:
    now: list[int | None] = [None]
    rex = typed("CURRENT_WATERMARK(t)")
    compiled = compile_expression(rex, watermark=lambda: now[0]).alias("made")
    assert FRAME.with_columns(compiled)["made"].to_list() == [None] * 4
    now[0] = 1500
    moment = dt.datetime(1970, 1, 1, 0, 0, 1, 500000)
    assert FRAME.with_columns(compiled)["made"].to_list() == [moment] * 4
    with pytest.raises(UnsupportedOperationError, match="only supported in SELECT and WHERE"):
        compile_expression(rex)


def test_chance_differs_from_row_to_row() -> None:
    assert len(set(values("UUID()"))) == 4
    assert len(set(values("RAND()"))) == 4


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("UPPR", [literal_of("a")], "did you mean UPPER"),
        ("UPPER", [literal_of(1)], r"use it as UPPER\(text\)"),
        ("UPPER", [], "does not accept 0 arguments"),
        ("+", [literal_of("a"), literal_of(1)], "does not accept CHAR"),
        ("CASE", [literal_of(1), literal_of(1)], "CASE WHEN does not accept INT"),
        ("ARRAY", [literal_of(1), literal_of("a")], "no common type"),
    ],
)
def test_invalid_calls_show_the_usage(name: str, operands: list[Rex], message: str) -> None:
    with pytest.raises(PenstockError, match=message):
        resolve(name, operands)


def test_the_nearest_function_is_found() -> None:
    assert nearest_function("TIMESTAMP_DIFF") == "TIMESTAMPDIFF"
    assert nearest_function("XYZZY") is None
