"""Functions of users: of values, rows and series, tables and aggregates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Row
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.sql.errors import ValidationError
from penstock.table import (
    AggregateFunction,
    DataTypes,
    FunctionContext,
    ScalarFunction,
    StreamTableEnvironment,
)
from penstock.table.expressions import col
from penstock.table.udf import udaf, udf, udtf
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import WORDS, rows, with_words


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture
def env() -> StreamTableEnvironment:
    return with_words()


class Prefix(ScalarFunction):
    """Puts a parameter of the job in front."""

    def open(self, function_context: FunctionContext) -> None:
        self.prefix = function_context.get_job_parameter("prefix", "-")

    def eval(self, text: str) -> str:
        return f"{self.prefix}{text}"


class Longest(AggregateFunction):
    """The longest text."""

    def create_accumulator(self) -> Any:
        return [""]

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        accumulator[0] = max(accumulator[0], args[0], key=len)

    def get_value(self, accumulator: Any) -> Any:
        return accumulator[0]

    def get_result_type(self) -> Any:
        return DataTypes.STRING()


@udtf(result_types=[DataTypes.STRING(), DataTypes.INT()])
def letters(text: str) -> Iterator[tuple[str, int]]:
    for place, letter in enumerate(text):
        yield letter, place


def test_scalar_functions_are_called_by_row_and_by_series(env: StreamTableEnvironment) -> None:
    add = udf(lambda a, b: a + b, result_type=DataTypes.BIGINT())
    twice = udf(lambda numbers: numbers * 2, result_type="BIGINT", func_type="pandas")
    env.create_temporary_function("add", add)
    env.create_temporary_system_function("twice", twice)
    found = rows(env.sql_query("SELECT `add`(id, 10), TWICE(id) FROM words WHERE id < 3"))
    assert found == [(11, 2), (12, 4)]
    table = env.from_path("words").limit(2)
    assert rows(table.select(add(col("id"), 1), twice(col("id")))) == [(2, 2), (3, 4)]


def test_an_asynchronous_function_waits_for_many_rows_at_once(env: StreamTableEnvironment) -> None:
    async def together(number: int) -> int:
        waiting.append(number)
        while len(waiting) < 4:  # goes on when all rows are there
            await asyncio.sleep(0)
        return number * 2

    waiting: list[int] = []
    table = env.from_path("words").select(udf(together, result_type="BIGINT")(col("id")))
    assert rows(table) == [(2,), (4,), (6,), (8,)]


def test_a_function_is_opened_with_the_parameters_of_the_job(env: StreamTableEnvironment) -> None:
    env.get_config().set("pipeline.global-job-parameters", "prefix:>")
    env.create_temporary_function("prefix", udf(Prefix(), result_type=DataTypes.STRING()))
    assert rows(env.sql_query("SELECT prefix(word) FROM words WHERE id = 2")) == [(">be",)]


def test_table_functions_give_rows(env: StreamTableEnvironment) -> None:
    env.create_temporary_function("letters", letters)
    query = "SELECT id, l, p FROM words, LATERAL TABLE(letters(word)) AS t(l, p) WHERE id = 2"
    assert rows(env.sql_query(query)) == [(2, "b", 0), (2, "e", 1)]
    table = env.from_path("words").filter(col("id") == 2).select(col("word"))
    expected = [("be", "b", 0), ("be", "e", 1)]
    assert rows(table.join_lateral(letters(col("word")).alias("l", "p"))) == expected
    assert rows(table.left_outer_join_lateral(letters(col("word")).alias("l", "p"))) == expected
    assert rows(table.flat_map(letters(col("word")))) == [("b", 0), ("e", 1)]


def test_map_makes_columns_of_a_row(env: StreamTableEnvironment) -> None:
    kind = DataTypes.ROW(
        [DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("w", DataTypes.STRING())]
    )
    turned = udf(lambda n, w: Row(n + 1, w + w), result_type=kind)
    table = env.from_path("words").limit(1)
    made = table.map(turned(col("id"), col("word")))
    assert made.get_resolved_schema().get_column_names() == ["n", "w"]
    assert rows(made.alias("a", "b")) == [(2, "toto")]


def test_functions_without_operands_take_the_whole_row(env: StreamTableEnvironment) -> None:
    kind = DataTypes.ROW(
        [DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("w", DataTypes.STRING())]
    )
    table = env.from_path("words").limit(2).select(col("id"), col("word"))
    by_row = udf(lambda row: Row(row.id * 2, row[1] * 2), result_type=kind)
    by_frame = udf(lambda frame: frame * 2, result_type=kind, func_type="pandas")
    for function in (by_row, by_frame):
        assert rows(table.map(function)) == [(2, "toto"), (4, "bebe")]
    split = udtf(lambda row: list(row.word), result_types=[DataTypes.STRING()])
    assert rows(table.flat_map(split).alias("letter")) == [("t",), ("o",), ("b",), ("e",)]


class CountAndSum(AggregateFunction):
    """A number of rows, and the sum of a column."""

    def create_accumulator(self) -> Any:
        return [0, 0]

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        accumulator[0] += 1
        accumulator[1] += args[0].id

    def get_value(self, accumulator: Any) -> Any:
        return Row(*accumulator)


def test_a_table_function_that_returns_one_value_gives_one_row(env: StreamTableEnvironment) -> None:
    counts = DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())
    results: dict[str, tuple[Any, Any]] = {
        "a text": (lambda word: word, DataTypes.STRING()),
        "bytes": (lambda word: word.encode(), DataTypes.BYTES()),
        "a dictionary": (lambda word: {word: 1}, counts),
        "a number": (len, DataTypes.INT()),
        "a row": (lambda word: Row(word), DataTypes.STRING()),
    }

    def check(case: tuple[Any, Any]) -> None:
        function, kind = case
        call = udtf(function, result_types=[kind])(col("word")).alias("made")
        found = rows(env.from_path("words").join_lateral(call).select(col("word"), col("made")))
        made = [function(word) for _, word, _ in WORDS]
        assert [each for _, each in found] == [
            each[0] if isinstance(each, Row) else each for each in made
        ]

    check_all(results, check)


def test_an_aggregate_of_whole_rows_gives_a_row(env: StreamTableEnvironment) -> None:
    function = udaf(CountAndSum(), result_type="ROW<n BIGINT, s BIGINT>")
    t = env.from_path("words")
    made = t.group_by(t.word).aggregate(function.alias("n", "s")).select(t.word, col("n"), col("s"))
    found = made.to_pandas().itertuples(index=False, name=None)
    assert sorted(found) == [("be", 1, 2), ("or", 1, 3), ("to", 2, 5)]


def test_a_key_may_be_an_expression_with_a_name(env: StreamTableEnvironment) -> None:
    t = env.from_path("words")
    initials = t.group_by(t.word.substring(1, 1).alias("initial"))
    made = initials.select(col("initial"), t.id.count.alias("n")).to_pandas()
    assert sorted(made.itertuples(index=False, name=None)) == [("b", 1), ("o", 1), ("t", 2)]
    with pytest.raises(ValidationError, match="column 'word' already exists"):
        t.group_by(t.word.substring(1, 1).alias("word"))


def test_aggregate_functions_aggregate(env: StreamTableEnvironment) -> None:
    env.create_temporary_function("longest", Longest())
    assert env.sql_query("SELECT longest(word) AS w FROM words").to_pandas()["w"].tolist() == ["to"]
    longest = udaf(Longest())
    t = env.from_path("words")
    grouped = t.group_by(t.id).select(t.id, longest(t.word).alias("w")).to_pandas()
    assert sorted(grouped["w"]) == ["be", "or", "to", "to"]


def test_functions_without_types_are_refused(env: StreamTableEnvironment) -> None:
    with pytest.raises(ArgumentError, match="result_type"):
        udf(lambda a: a)
    with pytest.raises(ArgumentTypeError, match="is not a user-defined function"):
        env.create_temporary_function("f", lambda a: a)
