"""The Table API, tables of elements and of pandas, by the names that PyFlink has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from penstock.common import Row
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.pyflink_compat import pyflink_names
from penstock.sql.errors import ValidationError
from penstock.table import DataTypes, ExplainDetail, Schema, StreamTableEnvironment, TableDescriptor
from penstock.table.expressions import call_sql, col, lit, range_, without_columns
from penstock.testing import MiniCluster
from tests.builders.tables import rows, with_words

NOON = dt.datetime(2024, 5, 1, 12, 0)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture
def env() -> StreamTableEnvironment:
    return with_words()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda t: t.select(t.id + 1, t.word.upper_case.alias("w")).limit(1), [(2, "TO")]),
        (lambda t: t.where((col("id") > 1) & (col("word") != "or")).select(t.id), [(2,), (4,)]),
        (lambda t: t.filter(~col("size").is_null).select(col("size") * 2), [(4.0,), (5.0,), (6.0,)]),
        (lambda t: t.filter(col("id").in_(1, 4)).select(t.word), [("to",), ("to",)]),
        (lambda t: t.filter(col("id").between(2, 3)).select(t.word), [("be",), ("or",)]),
        (lambda t: t.filter(col("word").like("_o")).select(t.id), [(1,), (4,)]),
        (lambda t: t.drop_columns(t.size).filter(t.id == 3), [(3, "or")]),
        (lambda t: t.rename_columns(t.id.alias("n")).select(col("n")).limit(1), [(1,)]),
        (lambda t: t.alias("a", "b").filter(col("a") == 3).select(col("b")), [("or",)]),
        (lambda t: t.add_columns((t.id * 10).alias("ten")).filter(t.id == 1), [(1, "to", 2.0, 10)]),
        (
            lambda t: t.add_or_replace_columns((t.id * 10).alias("id")).filter(col("id") == 10),
            [(10, "to", 2.0)],
        ),
        (lambda t: t.select(without_columns(range_("word", "size"))).limit(1), [(1,)]),
        (lambda t: t.filter(t.id == 1).union_all(t.filter(t.id == 2)).select(t.id), [(1,), (2,)]),
        (lambda t: t.filter(t.id == 1).select((t.id > 0).then("yes", "no")), [("yes",)]),
        (lambda t: t.filter(t.id == 1).select(t.id.cast(DataTypes.STRING())), [("1",)]),
        (lambda t: t.filter(t.id == 1).select(call_sql("id + 41")), [(42,)]),
        (lambda t: t.filter(t.id == 1).select(lit(NOON) + lit(1).hours), [(NOON + dt.timedelta(hours=1),)]),
        (lambda t: t.filter(t.id == 2).select(lit(Decimal("1.50")), lit("it's")), [(Decimal("1.50"), "it's")]),
    ],
)  # fmt: skip
def test_tables_are_queries_that_make_further_ones(
    env: StreamTableEnvironment, make: Any, expected: list[Any]
) -> None:
    assert rows(make(env.from_path("words"))) == expected


def test_tables_are_grouped(env: StreamTableEnvironment) -> None:
    t = env.from_path("words")
    grouped = t.group_by(t.word).select(
        t.word, t.id.count.alias("n"), t.size.sum.alias("s"), t.word.count.distinct.alias("d")
    )
    assert min(grouped.to_pandas().itertuples(index=False, name=None)) == ("be", 1, 2.5, 1)
    assert sorted(t.select(t.word).distinct().to_pandas()["word"]) == ["be", "or", "to"]


def test_tables_are_joined(env: StreamTableEnvironment) -> None:
    left = env.from_elements([(1, "a"), (2, "b")], ["l", "x"])
    right = env.from_elements([(1, "c"), (3, "d")], ["r", "y"])
    on = col("l") == col("r")
    assert rows(left.join(right).where(on).select(col("x"), col("y"))) == [("a", "c")]
    assert rows(left.join(right, on).select(col("x"), col("y"))) == [("a", "c")]
    joined = left.left_outer_join(right, on).select(col("x"), col("y")).to_pandas()
    assert sorted(joined["x"]) == ["a", "b"]
    with pytest.raises(ValidationError, match="column 'l' exists in both tables"):
        left.join(left)


def test_a_table_has_a_name_in_sql(env: StreamTableEnvironment) -> None:
    table = env.from_path("words").filter(col("id") > 3)
    assert rows(env.sql_query(f"SELECT word FROM {table}")) == [("to",)]
    assert "Unnamed" not in str(env.list_tables())


def test_a_table_says_what_it_is(
    env: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    table = env.from_path("words")
    table.print_schema()
    assert capsys.readouterr().out == "(\n  `id` BIGINT,\n  `word` STRING,\n  `size` DOUBLE\n)\n"
    assert table.get_schema().get_field_names() == ["id", "word", "size"]
    assert "changelogMode=[I]" in table.explain(ExplainDetail.CHANGELOG_MODE)
    with pytest.raises(AttributeError, match="did you mean 'word'"):
        _ = table.wrod


@pytest.mark.parametrize(
    ("elements", "schema", "types"),
    [
        ([(1, "a")], None, ["BIGINT", "STRING"]),
        ([{"b": 1.5, "a": True}], None, ["BOOLEAN", "DOUBLE"]),
        ([Row(x=NOON)], None, ["TIMESTAMP(6)"]),
        ([([1, 2], {"k": b"v"})], ["a", "b"], ["ARRAY<BIGINT>", "MAP<STRING, BYTES>"]),
        ([(1,)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.TINYINT())]), ["TINYINT"]),
        ([(Decimal("1.5"), dt.date(2024, 1, 2))], ["a", "b"], ["DECIMAL(38, 18)", "DATE"]),
    ],
)
def test_elements_have_types(
    env: StreamTableEnvironment, elements: Any, schema: Any, types: list[str]
) -> None:
    table = env.from_elements(elements, schema)
    assert [str(kind) for kind in table.get_schema().get_field_data_types()] == types
    values = elements[0]
    values = [values[key] for key in sorted(values)] if isinstance(values, dict) else values
    assert rows(table) == [tuple(values)]


@pytest.mark.parametrize(
    ("elements", "schema", "reason"),
    [
        ([], None, "an empty list"),
        ([(None,)], ["a"], "only None"),
        ([(1,), ("x",)], ["a"], "types BIGINT and STRING"),
        ([(1, 2)], ["a"], "has 2 fields"),
        ([(300,)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.TINYINT())]), "does not fit"),
        ([("x",)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]), "is not of type INT"),
        ("abc", None, "must be a list"),
    ],
)
def test_elements_that_do_not_fit_are_refused(
    env: StreamTableEnvironment, elements: Any, schema: Any, reason: str
) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=reason):
        env.from_elements(elements, schema)


@pytest.mark.parametrize("splits", [1, 3])
def test_pandas_there_and_back(env: StreamTableEnvironment, splits: int) -> None:
    frame = pd.DataFrame({"a": range(10), "b": [f"w{n}" for n in range(10)], "c": [0.5] * 10})
    table = env.from_pandas(frame, splits_num=splits)
    back = table.filter(col("a") >= 5).to_pandas().sort_values("a").reset_index(drop=True)
    pd.testing.assert_frame_equal(
        back, frame[5:].reset_index(drop=True), check_dtype=False, check_index_type=False
    )


def test_a_large_frame_travels_in_files(env: StreamTableEnvironment) -> None:
    frame = pd.DataFrame({"a": range(200_000), "b": ["some text"] * 200_000})
    table = env.from_pandas(frame, splits_num=2)
    total = env.sql_query(f"SELECT COUNT(*), SUM(a), COUNT(DISTINCT b) FROM {table}").to_pandas()
    assert total.iloc[0].tolist() == [200_000, 19_999_900_000, 1]


def test_a_table_is_described_by_the_program(
    env: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = Schema.new_builder().column("id", DataTypes.BIGINT()).column("word", "STRING").build()
    env.create_temporary_table(
        "sink", TableDescriptor.for_connector("print").schema(schema).build()
    )
    env.from_path("words").select(col("id"), col("word")).execute_insert("sink").wait()
    assert capsys.readouterr().out.splitlines()[0] == "+I[1, to]"
    source = (
        TableDescriptor.for_connector("datagen")
        .option("number-of-rows", "2")
        .schema(Schema.new_builder().column("n", "INT").column_by_expression("m", "n - n").build())
        .build()
    )
    assert [row[1] for row in rows(env.from_descriptor(source))] == [0, 0]


def test_a_program_for_pyflink_runs_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    with pyflink_names():
        from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
        from pyflink.table.expressions import col
        from pyflink.table.udf import udf

        t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        t_env.get_config().set("parallelism.default", "1")

        @udf(result_type=DataTypes.STRING())
        def shout(text):  # type: ignore[no-untyped-def]
            return text.upper() + "!"

        table = t_env.from_elements([("hello", 1), ("world", 2)], ["word", "n"])
        t_env.execute_sql("CREATE TABLE sink (word STRING, n BIGINT) WITH ('connector' = 'print')")
        table.select(shout(col("word")), col("n") * 10).execute_insert("sink").wait()
    assert capsys.readouterr().out == "+I[HELLO!, 10]\n+I[WORLD!, 20]\n"
