"""What real Flink SQL answers to many expressions, and what we do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.errors import PenstockError
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.expressions.compiler import literal
from penstock.sql.expr.functions import resolve
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    rewrite,
)
from penstock.sql.logical.context import PlanSettings
from penstock.sql.logical.planner import LogicalPlanner
from penstock.sql.parse.parser import parse_expression
from penstock.sql.types import NullType
from penstock.table import DataTypes
from tests.builders.cases import check_all, part

#: The cases run in so many tests, so that workers can share them.
PARTS = 4
ROWS = pl.DataFrame({"row": [1, 2]})


@cache
def recorded_answers() -> dict[str, Any]:
    """What Flink answered: the type and the value, or that it refuses the line."""
    answers: dict[str, Any] = json.loads(
        (Path(__file__).parent / "flink_expressions.json").read_text()
    )
    return answers


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

    here = ("default_catalog", "default_database")

    def at(self, catalog: str, database: str) -> NoTables:
        """Return itself."""
        return self


def zone_of(line: str) -> tuple[str, str]:
    """The time zone that a line is asked in, and its expression."""
    found = re.match(r"\[([A-Za-z][^\]]+)\] (.*)", line)
    return (found[1], found[2]) if found else ("UTC", line)


def answer(line: str) -> tuple[str, Any]:
    """The type of an expression, and its value as text."""
    zone, text = zone_of(line)
    planner = LogicalPlanner(NoTables(), PlanSettings(zone=zone))
    rex = planner.expression(parse_expression(text), (), text)
    as_text = compile_expression(resolve("CAST", [rex], type=DataTypes.STRING()), zone)
    values = ROWS.with_columns(as_text.alias("value"))["value"]
    assert values[0] == values[1] or "RAND" in line
    return str(rex.type), values[0]


def comparable(type_text: str) -> str:
    """A type without what Flink says differently of constants: whether they can be NULL, and the parts of intervals."""
    text = type_text.replace(" NOT NULL", "")
    text = re.sub(r"INTERVAL (DAY|HOUR|MINUTE|SECOND).*", "INTERVAL SECOND", text)
    return re.sub(r"INTERVAL (YEAR|MONTH).*", "INTERVAL MONTH", text)


# Where we differ on purpose.
MORE = "Flink refuses it"
BETTER = {
    "TRUE = 'true'": "Flink compares the texts TRUE and true; we refuse to compare a BOOLEAN with text",
    "CAST('x' AS DECIMAL(5,2))": "Flink gives 0.00; what is not a number fails, as for all other types of numbers",
    "TRY_CAST('x' AS DECIMAL(5,2))": "Flink gives 0.00",
    "CAST(123456.789 AS DECIMAL(5,2))": "NULL; Flink shows it as empty text, because its type is NOT NULL",
    "CAST(12345 AS DECIMAL(5,2))": "NULL; Flink shows it as empty text",
    "RPAD('hi', -1, 'x')": "NULL; Flink fails, because its type is NOT NULL",
    "LPAD('hi', 5, '')": "NULL; Flink fails",
    "RPAD('', 3, '')": "NULL; Flink fails",
    "OVERLAY('abcdef' PLACING 'XY' FROM 2 FOR 0)": "nothing is replaced; Flink drops the rest of the text",
    "MAP_FROM_ARRAYS(ARRAY['a', 'a'], ARRAY[1, 2])": "a key is there once; Flink shows {a=1, a=2}",
    "JSON_ARRAY(1, NULL, 'x' NULL ON NULL)": MORE,
    "GREATEST(1, NULL)": MORE,
    "NOT (NULL AND FALSE)": MORE,
    "'a' || NULL": MORE,
    "CASE WHEN NULL THEN 1 ELSE 2 END": MORE,
    "CAST(99999999999999999999999999999999999999 AS DECIMAL(38, 0)) + 1": MORE,
    "EXTRACT(YEAR FROM TIMESTAMP '1969-12-31 23:59:59')": "Flink rounds towards the epoch, so 1970",
    "EXTRACT(SECOND FROM TIMESTAMP '1969-12-31 23:59:59.5')": "Flink rounds towards the epoch",
    "[America/New_York] EXTRACT(HOUR FROM TO_TIMESTAMP_LTZ(0, 3))": "Flink gives -5",
    "CURRENT_DATABASE()": "a constant of the plan, CHAR where Flink has STRING",
    "COSH(1)": "the last digit",
    "CAST(123456789 AS FLOAT)": "Java before 19 writes more digits than a FLOAT has",
    "TIMESTAMP '2020-01-01 00:00:00' > DATE '2019-01-01'": MORE,
    "ATAN2(1.5,2)": MORE,
    "12345678901234567890.12 * 12345678901234567890.12": MORE,
    "99999999999999999999999999999999999999 + 1": MORE,
    "INTERVAL '10' SECOND / 2": MORE,
    "ARRAY_CONTAINS(ARRAY[1, 2], CAST(2 AS BIGINT))": MORE,
    "ARRAY_APPEND(ARRAY[1, 2], 2.5)": MORE,
    "JSON_VALUE('{\"a\": \"x\"}', '$.a' RETURNING INT)": "NULL ON ERROR; Flink fails",
    "JSON_VALUE('{\"a\": \"12\"}', '$.a' RETURNING INT)": "text is read as a number; Flink fails",
    "JSON_OBJECT('t' VALUE TIMESTAMP '2020-01-02 03:04:05.678', 'd' VALUE DATE '2020-01-02')": MORE,
    "TYPEOF(PROCTIME())": MORE,
    "TO_DATE('2020-03-04', 'yyyy/MM/dd')": "NULL; Flink reads '-' as a sign and comes to the year 5471",
    "CAST(CAST(1.1 AS FLOAT) AS DOUBLE)": "Flink computes this constant in decimals, columns as we do",
    "TRUNCATE(1e20, 2)": "Flink fails",
    "CAST(BITMAP_BUILD(ARRAY[1, 2]) AS BITMAP)": MORE,
    "IF(1 < 2, BITMAP_BUILD(ARRAY[1]), BITMAP_BUILD(ARRAY[2]))": MORE,
    "TO_BASE64(BITMAP_TO_BYTES(BITMAP_FROM_BYTES(x'3b3000000100000200010001000200')))": "equal bitmaps have equal bytes; Flink keeps runs that take as much as an array",
}


@pytest.mark.parametrize("number", range(PARTS))
def test_expressions_match_recorded_flink_results(number: int) -> None:
    def check(line: str) -> None:
        recorded = recorded_answers()[line]
        if isinstance(recorded, dict):
            with pytest.raises(PenstockError):
                answer(line)
            return
        type_text, value = answer(line)
        assert value == recorded[1]
        if recorded[0] is not None:
            assert comparable(type_text) == comparable(recorded[0])

    compared = {line: line for line in recorded_answers() if line not in BETTER}
    check_all(part(compared, number, PARTS), check)


def test_columns_and_constants_give_equal_results() -> None:
    """Constants often have a way of their own; each is a column here, once with NULLs before it, and once without rows."""
    different = []
    for line, recorded in recorded_answers().items():
        if isinstance(recorded, dict) or line in BETTER or "RAND" in line:
            continue
        zone, text = zone_of(line)
        rex = LogicalPlanner(NoTables(), PlanSettings(zone=zone)).expression(
            parse_expression(text), (), text
        )
        rex, frame = with_columns(resolve("CAST", [rex], type=DataTypes.STRING()))
        if not frame.width:
            continue
        compiled = compile_expression(rex, zone).alias("value")
        nulls = frame.select(
            pl.lit(None, dtype=kind).alias(name) for name, kind in frame.schema.items()
        )
        values = pl.concat([nulls, frame]).with_columns(compiled)["value"]
        if values[1] != recorded[1] or len(frame.clear().with_columns(compiled)):
            different.append((line, values[1], recorded[1]))
    assert different == []


def with_columns(rex: Rex) -> tuple[Rex, pl.DataFrame]:
    """An expression with its constants as columns, and a row of those."""
    constants: list[pl.Expr] = []
    kept = {"TO_TIMESTAMP_LTZ", "FIELD"}  # their last operands must be constants

    def change(each: Rex) -> Rex:
        if isinstance(each, Call):
            fixed = each.operands[1:] if each.function in kept else ()
            moved = [part if part in fixed else column_of(part) for part in each.operands]
            return replace(each, operands=tuple(moved))
        return each

    def column_of(each: Rex) -> Rex:
        if not isinstance(each, Literal) or isinstance(each.type, NullType):
            return each
        constants.append(literal(each.value, each.type).alias(f"c{len(constants)}"))
        return InputRef(each.type, len(constants) - 1)

    return rewrite(rex, change), pl.select(constants)
