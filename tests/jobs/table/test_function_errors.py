"""Error messages of failing functions in queries: the function's own traceback, its name, operands, row and operator."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from penstock.common import Row
from penstock.errors import JobExecutionError
from penstock.table import (
    AggregateFunction,
    DataTypes,
    EnvironmentSettings,
    FunctionContext,
    ScalarFunction,
    TableEnvironment,
    TableFunction,
)
from penstock.table.expressions import col
from penstock.table.udf import udaf, udf, udtf
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import rows

CALLS: list[Any] = []


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


def parse(text: str) -> int:
    return int(text)


async def ask(text: str) -> int:
    await asyncio.sleep(0)
    return int(text)


async def hang(_: str) -> int:
    await asyncio.Event().wait()
    return 1


def parse_all(texts: pd.Series) -> pd.Series:
    return pd.Series([int(each) for each in texts])


def split(text: str) -> Iterator[int]:
    yield 1
    yield int(text)


def sum_all(texts: pd.Series) -> int:
    return sum(int(each) for each in texts)


class Total(AggregateFunction):
    """Adds up numbers that are texts."""

    def create_accumulator(self) -> Any:
        return [0]

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        accumulator[0] += int(args[0])

    def get_value(self, accumulator: Any) -> Any:
        return accumulator[0]

    def get_result_type(self) -> Any:
        return DataTypes.INT()


class Endless(Total):
    """Has a result for nothing."""

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        accumulator[0] += len(args)

    def get_value(self, accumulator: Any) -> Any:
        return accumulator[0] // 0


class Texts(Endless):
    """Says INT and gives a text."""

    def get_value(self, accumulator: Any) -> Any:
        return f"{accumulator[0]} rows"


class Unopened(ScalarFunction):
    """Lacks a file."""

    def open(self, function_context: FunctionContext) -> None:
        raise OSError("no model")

    def eval(self, *args: Any) -> Any:
        return args


class UnopenedTable(TableFunction):
    """Lacks a file."""

    def open(self, function_context: FunctionContext) -> None:
        raise OSError("no model")

    def eval(self, *args: Any) -> Any:
        return args


def environment() -> TableEnvironment:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "1")
    env.get_config().set("table.exec.async-scalar.retry-strategy", "NO_RETRY")
    number = DataTypes.INT()
    for name, function in {
        "parse": udf(parse, result_type=number),
        "ask": udf(ask, result_type=number),
        "hang": udf(hang, result_type=number),
        "parse_all": udf(parse_all, result_type=number, func_type="pandas"),
        "split": udtf(split, result_types=[number]),
        "total": udaf(Total()),
        "endless": udaf(Endless()),
        "texts": udaf(Texts()),
        "sum_all": udaf(sum_all, result_type=number, func_type="pandas"),
        "unopened": udf(Unopened(), result_type=number),
        "unopened_table": udtf(UnopenedTable(), result_types=[number]),
        "text_of": udf(lambda text: f"of {text}", result_type=number),
        "texts_of": udf(lambda texts: "of " + texts, result_type=number, func_type="pandas"),
        "first_only": udf(lambda texts: texts[:1], result_type=number, func_type="pandas"),
        "pairs": udtf(lambda text: [(1, text)], result_types=[number, number]),
    }.items():
        env.create_temporary_function(name, function)
    words = [("1", "a", 1), ("2", "a", 2), ("3x", "b", 3), ("4", "b", 4)]
    env.create_temporary_view("words", env.from_elements(words, ["v", "k", "n"]))
    return env


def message_of(env: TableEnvironment, query: Any) -> str:
    table = env.sql_query(query) if isinstance(query, str) else query(env.from_path("words"))
    with pytest.raises(JobExecutionError) as caught:
        rows(table)
    return str(caught.value)


@udf(result_type=DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]))
def parse_row(row: Row) -> Row:
    return Row(int(row.v))


@udtf(result_types=[DataTypes.INT()])
def split_row(row: Row) -> list[int]:
    return [int(row.v)]


# name: (query, the last line of the user's traceback and what follows it)
RAISING: dict[str, tuple[Any, str]] = {
    "in SELECT": (
        "SELECT parse(v) FROM words",
        "in function parse('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "in an expression": (
        "SELECT k, UPPER(k), parse(v) * 2 + 1 FROM words",
        "in function parse('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "in WHERE": (
        "SELECT n FROM words WHERE k <> 'c' AND parse(v) > 0",
        "in function parse('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "in CASE": (
        "SELECT CASE WHEN n > 2 THEN parse(v) ELSE 0 END FROM words",
        "in function parse('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "in a join's condition": (
        "SELECT a.k FROM words a JOIN words b ON a.k = b.k AND parse(a.v) > parse(b.v)",
        "in function parse('3x') of row ('3x', 'b', '3x', 'b'), operator 'Join[",
    ),
    "in FILTER": (
        "SELECT k, SUM(n) FILTER (WHERE parse(v) > 0) FROM words GROUP BY k",
        "in function parse('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "in GROUPING SETS": (
        "SELECT k, COUNT(*) FROM words GROUP BY GROUPING SETS ((k), (parse(v), k))",
        "in function parse('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "asynchronous": (
        "SELECT ask(v) FROM words",
        "in function ask('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "pandas": ("SELECT parse_all(v) FROM words", "in function parse_all, operator 'Calc["),
    "a table function": (
        "SELECT n, y FROM words, LATERAL TABLE(split(v)) AS T(y)",
        "in function split('3x'), operator 'Correlate[",
    ),
    "accumulate": (
        "SELECT k, total(v) FROM words GROUP BY k",
        "in function total.accumulate('3x'), operator 'GroupAggregate[",
    ),
    "pandas aggregate": (
        "SELECT k, sum_all(v) FROM words GROUP BY k",
        "in function sum_all.get_value, operator 'GroupAggregate[",
    ),
    "Table API": (
        lambda words: words.select(udf(parse, result_type=DataTypes.INT())(col("v"))),
        "in function parse('3x') of row ('3x', 'b', 3), operator 'Calc[",
    ),
    "Table API, map": (
        lambda words: words.map(parse_row),
        "in function parse_row('3x', 'b', 3), operator 'Calc[",
    ),
    "Table API, flat_map": (
        lambda words: words.flat_map(split_row),
        "in function split_row('3x', 'b', 3), operator 'Correlate[",
    ),
    "Table API, aggregate": (
        lambda words: words.group_by(col("k")).select(udaf(Total())(col("v"))),
        "in function Total.accumulate('3x'), operator 'GroupAggregate[",
    ),
}


def test_a_function_that_raises_is_shown_with_its_own_traceback_first() -> None:
    env = environment()

    def check(case: tuple[Any, str]) -> None:
        query, where = case
        message = message_of(env, query)
        first, second, *_ = message.splitlines()
        assert first == "Traceback (most recent call last):", message
        assert __file__ in second, message
        assert f"ValueError: invalid literal for int() with base 10: '3x'\n{where}" in message, (
            message
        )
        assert "polars" not in message.lower(), message
        assert "return_dtype" not in message, message

    check_all(RAISING, check)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT k, endless(v) FROM words GROUP BY k",
            (
                "ZeroDivisionError: integer division or modulo by zero\n"
                "in function endless.get_value, operator 'GroupAggregate["
            ),
        ),
        (
            "SELECT unopened(v) FROM words",
            "OSError: no model\nin function unopened.open, operator 'Calc[",
        ),
        (
            "SELECT y FROM words, LATERAL TABLE(unopened_table(v)) AS T(y)",
            "OSError: no model\nin function unopened_table.open, operator 'Correlate[",
        ),
    ],
)
def test_the_method_that_raises_is_named(query: str, expected: str) -> None:
    message = message_of(environment(), query)
    assert expected in message
    assert __file__ in message.splitlines()[1]


def test_a_call_that_takes_too_long_shows_where_it_waits() -> None:
    env = environment()
    env.get_config().set("table.exec.async-scalar.timeout", "50 ms")
    message = message_of(env, "SELECT hang(v) FROM words WHERE n = 1")
    assert "await asyncio.Event().wait()" in message
    assert (
        "TimeoutError: no result after 0.05 s ('table.exec.async-scalar.timeout')\n"
        "in function hang('1') of row ('1', 'a', 1), operator 'Calc["
    ) in message


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT text_of(v) FROM words",
            (
                "function 'text_of' returned 'of 1' (str), but its result type is INT\n"
                "detail: in function text_of('1')\n"
            ),
        ),
        (
            "SELECT texts_of(v) FROM words",
            "function 'texts_of' returned 'of 1' (str), but its result type is INT\n",
        ),
        (
            "SELECT texts(v) FROM words",
            "function 'texts' returned '4 rows' (str), but its result type is INT\n",
        ),
        (
            "SELECT x, y FROM words, LATERAL TABLE(pairs(v)) AS T(x, y)",
            "function 'pairs' returned '1' (str), but its result type is INT\n",
        ),
        (
            "SELECT first_only(v) FROM words",
            "pandas function 'first_only' returned a Series of length 1, expected 4\n",
        ),
    ],
)
def test_a_result_of_another_type_is_refused_with_the_value_and_both_types(
    query: str, expected: str
) -> None:
    message = message_of(environment(), query)
    assert message.startswith(expected)
    assert "in operator '" in message
    assert "strict" not in message


def record(text: str) -> int:
    CALLS.append(text)
    return len(text)


def record_all(texts: pd.Series) -> pd.Series:
    CALLS.extend(texts)
    return texts.str.len()


@pytest.mark.parametrize("pandas", [False, True])
def test_a_function_is_called_for_the_rows_that_need_it_only(pandas: bool) -> None:
    env = environment()
    kind = "pandas" if pandas else "general"
    function = udf(record_all if pandas else record, result_type="INT", func_type=kind)
    env.create_temporary_function("recorded", function)
    CALLS.clear()
    found = rows(env.sql_query("SELECT CASE WHEN n > 2 THEN recorded(v) END FROM words"))
    assert found == [(None,), (None,), (2,), (1,)]
    assert CALLS == ["3x", "4"]


ROW_OF_TWO = DataTypes.ROW(
    [DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.INT())]
)
#: Function over pandas or not, what it returns, its result type, and the message
WRONG_RESULTS: dict[str, tuple[bool, Any, Any, str]] = {
    "decimal that is not a number": (
        False, Decimal("NaN"), "DECIMAL(5, 2)", "returned Decimal('NaN') (Decimal), but its result type is DECIMAL(5, 2)",
    ),
    "float that is not a number": (
        False, float("nan"), "DECIMAL(5, 2)", "returned nan (float), but its result type is DECIMAL(5, 2)",
    ),
    "infinite decimal": (
        True, pd.Series([Decimal("Infinity")]), "DECIMAL(5, 2)", "returned Decimal('Infinity') (Decimal), but its result type is DECIMAL(5, 2)",
    ),
    "decimal that Polars cannot read": (
        False, Decimal("1e-400"), "INT", "returned Decimal('1E-400') (Decimal), but its result type is INT",
    ),
    "decimal in a list": (
        False, [Decimal("NaN")], "ARRAY<DECIMAL(5, 2)>", "returned [Decimal('NaN')] (list), but its result type is ARRAY<DECIMAL(5, 2)>",
    ),
    "time for a date": (
        False, dt.time(1), "DATE", "returned datetime.time(1, 0) (time), but its result type is DATE",
    ),
    "dictionary": (
        True, pd.Series([{"a": 1}]), "INT", "returned {'a': 1} (dict), but its result type is INT",
    ),
    "dictionary for a text": (
        True, pd.Series([{"a": 1}]), "STRING", "returned {'a': 1} (dict), but its result type is STRING",
    ),
    "list for an array of another type": (
        True, pd.Series([["x"]]), "ARRAY<INT>", "returned ['x'] (list), but its result type is ARRAY<INT>",
    ),
    "frame": (
        True, pd.DataFrame({"a": [1]}), "INT", "returned a DataFrame, but its result type is INT",
    ),
    "narrow frame": (
        True, pd.DataFrame({"a": [1]}), ROW_OF_TWO, "returned a DataFrame with 1 columns, but its result type ROW<`a` INT, `b` INT> has 2 fields",
    ),
    "two dimensions": (
        True, np.zeros((1, 2)), "INT", "returned array([[0., 0.]]) (ndarray), which is not a Series",
    ),
}  # fmt: skip


def test_a_result_that_no_library_takes_is_refused_in_our_words() -> None:
    env = environment()

    def check(case: tuple[bool, Any, Any, str]) -> None:
        pandas, result, kind, expected = case
        function = udf(
            lambda _: result, result_type=kind, func_type="pandas" if pandas else "general"
        )
        env.create_temporary_function("wrong", function)
        try:
            message = message_of(env, "SELECT wrong(v) FROM words WHERE n = 1")
        finally:
            env.drop_temporary_function("wrong")
        whole = "DataFrame" in expected or "Series" in expected
        named = "pandas function" if whole else "function"
        assert message.startswith(f"{named} 'wrong' {expected}\n"), message
        assert "hint: " in message
        assert "polars" not in message.lower()

    check_all(WRONG_RESULTS, check)


def test_results_that_have_to_be_converted_are() -> None:
    env = environment()
    day = dt.datetime(2024, 1, 2, 3, 4)
    berlin = dt.timezone(dt.timedelta(hours=1))
    cases: dict[str, tuple[bool, Any, str, Any]] = {
        "too many digits": (False, Decimal("1234.5"), "DECIMAL(5, 2)", None),
        "too many digits by rounding": (False, Decimal("999.995"), "DECIMAL(5, 2)", None),
        "rounded": (False, Decimal("999.994"), "DECIMAL(5, 2)", Decimal("999.99")),
        "very many digits": (True, pd.Series([Decimal("1e400")]), "DECIMAL(5, 2)", None),
        "zero": (False, Decimal("0E+50"), "DECIMAL(2, 2)", Decimal("0.00")),
        "no number in pandas": (True, pd.Series([Decimal("NaN")]), "DECIMAL(5, 2)", None),
        "datetime for a date": (False, day, "DATE", day.date()),
        "with a time zone": (False, day.replace(tzinfo=berlin), "TIMESTAMP(3)", day),
        "sparse": (True, pd.Series(pd.arrays.SparseArray([7])), "INT", 7),
    }

    def check(case: tuple[bool, Any, str, Any]) -> None:
        pandas, result, kind, expected = case
        function = udf(
            lambda _: result, result_type=kind, func_type="pandas" if pandas else "general"
        )
        env.create_temporary_function("other", function)
        try:
            found = rows(env.sql_query("SELECT other(v) FROM words WHERE n = 1"))
        finally:
            env.drop_temporary_function("other")
        assert found == [(expected,)]

    check_all(cases, check)
