"""Whole programs of tables: statements, streams, functions, pandas, by the names that PyFlink has."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from penstock.common import Row, RowKind, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConfigurationError,
    InvalidProgramError,
)
from penstock.pyflink_compat import pyflink_names
from penstock.table import (
    AggregateFunction,
    ChangelogMode,
    DataTypes,
    EnvironmentSettings,
    ExplainDetail,
    FunctionContext,
    ResultKind,
    ScalarFunction,
    Schema,
    StreamTableEnvironment,
    Table,
    TableDescriptor,
    TableEnvironment,
)
from penstock.table.errors import UnsupportedQueryError, ValidationError
from penstock.table.expressions import call_sql, col, lit, range_, without_columns
from penstock.table.udf import udaf, udf, udtf
from penstock.table.window import Over, Session, Slide, Tumble
from penstock.testing import MiniCluster
from penstock.testing.values import register_values

NOON = dt.datetime(2024, 5, 1, 12, 0)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture
def env() -> StreamTableEnvironment:
    streams = StreamExecutionEnvironment.get_execution_environment()
    streams.set_parallelism(1)
    made = StreamTableEnvironment.create(streams)
    made.create_temporary_view("words", made.from_elements(WORDS, ["id", "word", "size"]))
    return made


WORDS = [(1, "to", 2.0), (2, "be", 2.5), (3, "or", None), (4, "to", 3.0)]


def rows(table: Any) -> list[tuple[Any, ...]]:
    result = table.execute() if isinstance(table, Table) else table
    with result.collect() as found:
        return [tuple(row) for row in found]


def kinds(table: Any) -> list[tuple[Any, ...]]:
    result = table.execute() if isinstance(table, Table) else table
    with result.collect() as found:
        return [(str(row.get_row_kind()), *row) for row in found]


def test_a_query_gives_rows_with_names(env: StreamTableEnvironment) -> None:
    result = env.execute_sql("SELECT word, id * 2 AS twice FROM words WHERE id > 2")
    assert result.get_result_kind() is ResultKind.SUCCESS_WITH_CONTENT
    assert result.get_resolved_schema().get_column_names() == ["word", "twice"]
    with result.collect() as found:
        assert [row.as_dict() for row in found] == [
            {"word": "or", "twice": 6},
            {"word": "to", "twice": 8},
        ]
    with pytest.raises(InvalidProgramError, match="were read already"):
        result.collect()


def test_a_query_is_printed_as_flink_prints_it(
    env: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.execute_sql("SELECT id, word, size FROM words WHERE id > 2").print()
    assert capsys.readouterr().out == (
        "+----+----------------------+--------------------------------+--------------------------------+\n"
        "| op |                   id |                           word |                           size |\n"
        "+----+----------------------+--------------------------------+--------------------------------+\n"
        "| +I |                    3 |                             or |                         <NULL> |\n"
        "| +I |                    4 |                             to |                            3.0 |\n"
        "+----+----------------------+--------------------------------+--------------------------------+\n"
        "2 rows in set\n"
    )


def test_changes_have_their_kinds(env: StreamTableEnvironment) -> None:
    counted = env.sql_query("SELECT word, COUNT(*) AS n FROM words GROUP BY word")
    final: dict[str, int] = {}
    for kind, word, count in kinds(counted):
        if kind in {"+I", "+U"}:
            final[word] = count
        else:
            assert final.pop(word) == count
    assert final == {"to": 2, "be": 1, "or": 1}


def test_batch_mode_gives_the_final_rows_once(capsys: pytest.CaptureFixture[str]) -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    env.get_config().set("parallelism.default", "1")
    env.create_temporary_view("words", env.from_elements(WORDS, ["id", "word", "size"]))
    counted = env.sql_query("SELECT word, COUNT(*) AS n FROM words GROUP BY word")
    assert sorted(kinds(counted)) == [("+I", "be", 1), ("+I", "or", 1), ("+I", "to", 2)]
    env.execute_sql("SELECT 1 AS a").print()
    assert capsys.readouterr().out == "+---+\n| a |\n+---+\n| 1 |\n+---+\n1 row in set\n"


def test_insert_runs_in_the_background_and_can_be_waited_for(
    env: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.execute_sql("CREATE TABLE out (id BIGINT, word STRING) WITH ('connector' = 'print')")
    result = env.execute_sql("INSERT INTO out SELECT id, word FROM words WHERE id < 3")
    result.wait()
    client = result.get_job_client()
    assert client is not None
    assert client.get_job_status().result().name == "FINISHED"
    assert rows(result) == [(-1,)]
    assert result.get_resolved_schema().get_column_names() == [
        "default_catalog.default_database.out"
    ]
    assert capsys.readouterr().out == "+I[1, to]\n+I[2, be]\n"
    assert ("FINISHED",) in [(row[2],) for row in rows(env.execute_sql("SHOW JOBS"))]


def test_a_statement_set_is_one_job(
    env: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.execute_sql("CREATE TABLE a (id BIGINT) WITH ('connector' = 'print')")
    env.execute_sql("CREATE TABLE b (word STRING) WITH ('connector' = 'print')")
    statements = env.create_statement_set()
    statements.add_insert_sql("INSERT INTO a SELECT id FROM words WHERE id = 1")
    statements.add_insert("b", env.from_path("words").filter(col("id") == 2).select(col("word")))
    assert "Optimized Physical Plan" in statements.explain()
    result = statements.execute()
    result.wait()
    assert result.get_resolved_schema().get_column_count() == 2
    env.execute_sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT id FROM words WHERE id = 3; "
        "INSERT INTO a SELECT id FROM words WHERE id = 4; END"
    ).wait()
    assert sorted(capsys.readouterr().out.split()) == ["+I[1]", "+I[3]", "+I[4]", "+I[be]"]
    with pytest.raises(InvalidProgramError, match="empty"):
        statements.execute()


def test_a_table_is_made_and_filled_by_one_statement(
    env: StreamTableEnvironment, tmp_path: Any
) -> None:
    env.execute_sql(
        f"CREATE TABLE copy WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv') "
        "AS SELECT id, word FROM words"
    ).wait()
    assert sorted(rows(env.from_path("copy"))) == [(1, "to"), (2, "be"), (3, "or"), (4, "to")]


def test_a_table_of_given_changes() -> None:
    """Upserts without former rows are completed by the primary key; what is no such change is refused."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    changes = [
        Row.of_kind(RowKind.INSERT, "a", 1, 10),
        Row.of_kind(RowKind.UPDATE_AFTER, "a", 1, 20),
        Row.of_kind(RowKind.INSERT, "b", 2, 5),
        Row.of_kind(RowKind.DELETE, "b", 2, 5),
    ]
    data = register_values(changes)
    declared = "(s STRING, k INT, n INT, PRIMARY KEY (k) NOT ENFORCED)"
    tables.execute_sql(
        f"CREATE TABLE t {declared} WITH ('connector' = 'values', 'data-id' = '{data}', 'changelog-mode' = 'I,UA,D')"
    )
    tables.execute_sql(
        f"CREATE TABLE u {declared} WITH ('connector' = 'values', 'data-id' = '{data}')"
    )
    assert rows(tables.sql_query("SELECT SUM(n) AS total, COUNT(*) AS c FROM t")) == [(20, 1)]
    assert tables.sql_query("SELECT n, k FROM t").to_pandas().values.tolist() == [[20, 1]]
    with pytest.raises(ConfigurationError, match="name all kinds"):
        tables.execute_sql("SELECT * FROM u")
    tables.execute_sql("CREATE TABLE v (a INT) WITH ('connector' = 'values', 'data-id' = 'x')")
    with pytest.raises(ConfigurationError, match="nothing is registered as 'x'"):
        tables.execute_sql("SELECT * FROM v")


def test_values_of_all_types_are_made_up() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(
        "CREATE TABLE t (b BYTES, i INTERVAL DAY TO SECOND, y INTERVAL YEAR TO MONTH, a ARRAY<INT>, m MAP<STRING, DOUBLE>, "
        "s MULTISET<STRING>, r ROW<x INT, y ARRAY<STRING>>, w ARRAY<ROW<z TINYINT>>) WITH ('connector' = 'datagen', 'number-of-rows' = '20', "
        "'fields.a.length' = '4', 'fields.a.element.min' = '1', 'fields.a.element.max' = '6', 'fields.m.key.length' = '5', "
        "'fields.r.x.max' = '9', 'fields.r.x.min' = '7', 'fields.r.y.element.length' = '2', 'fields.s.null-rate' = '1')"
    )
    with MiniCluster():
        found = [tuple(row) for row in tables.execute_sql("SELECT * FROM t").collect()]
    assert len(found) == 20
    for _, interval, months, numbers, texts, counts, row, rows_ in found:
        assert 0 <= interval.days <= 10
        assert 0 <= months <= 1_200
        assert len(numbers) == 4
        assert all(1 <= each <= 6 for each in numbers)
        assert [len(key) for key in texts] == [5, 5, 5]
        assert counts is None
        assert 7 <= row[0] <= 9
        assert [len(each) for each in row[1]] == [2, 2, 2]
        assert all(-128 <= each[0] <= 127 for each in rows_)
    assert len({tuple(each[3]) for each in found}) > 10
    tables.execute_sql(
        "CREATE TABLE u (a ARRAY<INT>) WITH ('connector' = 'datagen', 'fields.a.elemen.min' = '1')"
    )
    with pytest.raises(ConfigurationError, match=r"elemen\.min"):
        tables.execute_sql("SELECT * FROM u")


def test_a_table_of_a_query_has_the_key_and_partitions_that_it_is_given(tmp_path):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    with MiniCluster():
        tables.execute_sql(
            "CREATE TABLE t (more INT, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (word) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'csv') "
            "AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (id, word)"
        ).wait()
        found = sorted(tuple(row) for row in tables.execute_sql("SELECT * FROM t").collect())
    assert found == [(None, 1, "a"), (None, 2, "b")]
    described = {row[0]: row for row in tables.execute_sql("DESCRIBE t").collect()}
    assert described["id"][3] == "PRI(id)"
    assert sorted(each.name for each in (tmp_path / "t").iterdir()) == ["word=a", "word=b"]
    with pytest.raises(ValidationError, match="no column 'nr' for the primary key"):
        tables.execute_sql(
            "CREATE TABLE u (PRIMARY KEY (nr) NOT ENFORCED) WITH ('connector' = 'print') AS SELECT 1 AS id"
        )


def test_an_unbounded_query_is_read_as_it_runs_and_cancelled_when_it_is_closed(
    env: StreamTableEnvironment,
) -> None:
    env.execute_sql(
        "CREATE TABLE endless (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', "
        "'fields.id.kind' = 'random', 'fields.id.min' = '1', 'fields.id.max' = '9')"
    )
    result = env.execute_sql("SELECT id FROM endless")
    with result.collect() as found:
        assert 1 <= next(found)[0] <= 9
    client = result.get_job_client()
    assert client is not None
    assert client.get_job_status().result().name == "CANCELED"


def test_a_query_is_cancelled_if_it_is_printed_no_further(
    env: StreamTableEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.execute_sql("CREATE TABLE endless (id BIGINT) WITH ('connector' = 'datagen')")
    result = env.execute_sql("SELECT id FROM endless")

    class Interrupted:
        def write(self, text: str) -> None:
            raise KeyboardInterrupt

        def flush(self) -> None:
            """Nothing is there."""

    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            result.print()
    client = result.get_job_client()
    assert client is not None
    assert client.get_job_status().result().name == "CANCELED"


def test_a_query_goes_on_from_a_savepoint(tmp_path: Any) -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("execution.checkpointing.interval", "100 ms")
    env.get_config().set("parallelism.default", "1")
    env.execute_sql(
        "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '500', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000')"
    )
    query = "SELECT COUNT(*) FROM numbers"
    first = env.execute_sql(query)
    found = first.collect()
    before = [next(found)]
    client = first.get_job_client()
    assert client is not None
    path = client.stop_with_savepoint(False, str(tmp_path)).result()
    before += found
    env.execute_sql(f"SET 'execution.state-recovery.path' = '{path}'")
    with env.execute_sql(query).collect() as after:
        taken_back, next_one = next(after), next(after)
    assert (str(taken_back.get_row_kind()), taken_back[0]) == ("-U", before[-1][0])
    assert next_one[0] > before[-1][0]


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_a_query_that_fails_on_its_way_counts_each_row_once(mode: str, tmp_path: Any) -> None:
    failed = tmp_path / "failed"

    def fails_once(number: int) -> int:
        if number == 150 and not failed.exists():
            failed.touch()
            raise RuntimeError("once")
        return number

    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "parallelism.default": "2",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "execution.checkpointing.interval": "30 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }.items():
        env.get_config().set(key, value)
    env.create_temporary_function("fails_once", udf(fails_once, result_type="BIGINT"))
    env.execute_sql(
        "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', "
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '300')"
    )
    with MiniCluster(mode):
        found = env.sql_query(
            "SELECT MOD(id, 3), COUNT(*), SUM(fails_once(id)) FROM numbers GROUP BY MOD(id, 3)"
        ).to_pandas()
    assert failed.exists()
    assert sorted(map(tuple, found.values.tolist())) == [
        (0, 100, 15150),
        (1, 100, 14950),
        (2, 100, 15050),
    ]


# The Table API


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
    with pytest.raises(ValidationError, match="column 'l' is in both tables"):
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


# Functions


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


def test_an_aggregate_of_whole_rows_gives_a_row(env: StreamTableEnvironment) -> None:
    function = udaf(CountAndSum(), result_type="ROW<n BIGINT, s BIGINT>")
    t = env.from_path("words")
    made = t.group_by(t.word).aggregate(function.alias("n", "s")).select(t.word, col("n"), col("s"))
    found = made.to_pandas().itertuples(index=False, name=None)
    assert sorted(found) == [("be", 1, 2), ("or", 1, 3), ("to", 2, 5)]


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
    with pytest.raises(ArgumentTypeError, match="no function with types"):
        env.create_temporary_function("f", lambda a: a)


# Elements and pandas


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
        ([], None, "no elements"),
        ([(None,)], ["a"], "only None"),
        ([(1,), ("x",)], ["a"], "types BIGINT and STRING"),
        ([(1, 2)], ["a"], "has 2 fields"),
        ([(300,)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.TINYINT())]), "does not fit"),
        ([("x",)], DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]), "is no INT"),
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


# Streams


class FirstField(TimestampAssigner):
    """The first field is the time."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def stream(env: StreamTableEnvironment) -> Any:
    streams = env.stream_environment
    elements = [(1_000, "a", 1), (2_000, "b", 2), (61_000, "a", 3)]
    made = streams.from_collection(
        elements, Types.TUPLE([Types.LONG(), Types.STRING(), Types.INT()])
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return made.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(FirstField()))


def test_a_stream_becomes_a_table_and_a_stream_again(env: StreamTableEnvironment) -> None:
    table = env.from_data_stream(stream(env))
    assert table.get_resolved_schema().get_column_names() == ["f0", "f1", "f2"]
    back = env.to_data_stream(table.select(col("f1"), col("f2") + 1))
    assert back.get_type() == Types.ROW_NAMED(["f1", "_c1"], [Types.STRING(), Types.INT()])
    plain = back.map(lambda row: (row.f1, row[1]))
    assert list(plain.execute_and_collect()) == [("a", 2), ("b", 3), ("a", 4)]


def test_a_stream_of_single_values_has_one_column(env: StreamTableEnvironment) -> None:
    numbers = env.stream_environment.from_collection([3, 4], Types.INT())
    env.create_temporary_view("numbers", numbers)
    assert rows(env.sql_query("SELECT f0 * 2 FROM numbers")) == [(6,), (8,)]


@pytest.mark.parametrize(
    "declare",
    [
        lambda: [
            Schema.new_builder()
            .column("f1", "STRING")
            .column("f2", DataTypes.INT())
            .column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime")
            .watermark("at", "SOURCE_WATERMARK()")
            .build()
        ],
        lambda: [
            Schema.new_builder()
            .column_by_expression("at", "TO_TIMESTAMP_LTZ(f0, 3)")
            .watermark("at", "`at` - INTERVAL '1' SECOND")
            .build()
        ],
        lambda: [col("f0"), col("f1"), col("f2"), col("at").rowtime],
    ],
    ids=["the stream's own", "computed", "expressions"],
)
def test_event_time_of_a_stream(env: StreamTableEnvironment, declare: Any) -> None:
    env.get_config().set_local_timezone("UTC")
    env.create_temporary_view("events", stream(env), *declare())
    found = rows(
        env.sql_query(
            "SELECT window_end, f1, SUM(f2) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`at`), "
            "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, f1"
        )
    )
    first, second = dt.datetime(1970, 1, 1, 0, 1), dt.datetime(1970, 1, 1, 0, 2)
    assert sorted(found) == [(first, "a", 1), (first, "b", 2), (second, "a", 3)]


@pytest.mark.parametrize(
    ("window", "count"),
    [
        (lambda: Tumble.over(lit(1).minutes), 3),
        (lambda: Slide.over(lit(2).minutes).every(lit(1).minutes), 5),
        (lambda: Session.with_gap(lit(10).seconds), 3),
    ],
)
def test_windows_of_the_table_api(env: StreamTableEnvironment, window: Any, count: int) -> None:
    table = env.from_data_stream(stream(env), col("t"), col("k"), col("n"), col("at").rowtime)
    made = (
        table.window(window().on(col("at")).alias("w"))
        .group_by(col("w"), col("k"))
        .select(col("k"), col("w").start.alias("s"), col("w").end.alias("e"), col("n").sum)
    )
    assert len(rows(made)) == count


def test_over_windows_of_the_table_api(env: StreamTableEnvironment) -> None:
    table = env.from_data_stream(stream(env), col("t"), col("k"), col("n"), col("at").rowtime)
    window = Over.partition_by(col("k")).order_by(col("at")).alias("w")
    made = table.over_window(window).select(col("k"), col("n").sum.over(col("w")).alias("s"))
    assert sorted(rows(made)) == [("a", 1), ("a", 4), ("b", 2)]


def changelog(env: StreamTableEnvironment) -> Any:
    changes = [
        Row.of_kind(RowKind.INSERT, "a", 1),
        Row.of_kind(RowKind.INSERT, "b", 2),
        Row.of_kind(RowKind.UPDATE_BEFORE, "a", 1),
        Row.of_kind(RowKind.UPDATE_AFTER, "a", 5),
        Row.of_kind(RowKind.DELETE, "b", 2),
    ]
    kind = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()])
    return env.stream_environment.from_collection(changes, kind)


def test_changes_go_in_and_out(env: StreamTableEnvironment) -> None:
    table = env.from_changelog_stream(changelog(env))
    assert kinds(table) == [
        ("+I", "a", 1), ("+I", "b", 2), ("-U", "a", 1), ("+U", "a", 5), ("-D", "b", 2),
    ]  # fmt: skip
    total = env.sql_query(f"SELECT SUM(v) AS s FROM {table}").to_pandas()
    assert total["s"].tolist() == [5]
    back = env.to_changelog_stream(table.select(col("k"), col("v") * 10))
    out = [(str(row.get_row_kind()), *row) for row in back.execute_and_collect()]
    assert out[0] == ("+I", "a", 10)
    assert out[-1] == ("-D", "b", 20)


def test_upserts_need_a_primary_key(env: StreamTableEnvironment) -> None:
    with pytest.raises(ArgumentError, match="need a primary key"):
        env.from_changelog_stream(changelog(env), None, ChangelogMode.upsert())
    upserts = env.stream_environment.from_collection(
        [Row.of_kind(RowKind.INSERT, "a", 1), Row.of_kind(RowKind.UPDATE_AFTER, "a", 5)],
        Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()]),
    )
    schema = Schema.new_builder().column("k", "STRING").column("v", "INT").primary_key("k").build()
    table = env.from_changelog_stream(upserts, schema, ChangelogMode.upsert())
    assert table.to_pandas()["v"].tolist() == [5]


def test_a_stream_of_upserts_with_a_time_is_a_table_of_versions(
    env: StreamTableEnvironment,
) -> None:
    streams = env.stream_environment
    later = [NOON + dt.timedelta(minutes=minutes) for minutes in range(4)]
    rates = streams.from_collection(
        [
            Row.of_kind(RowKind.INSERT, "EUR", 1, later[0]),
            Row.of_kind(RowKind.UPDATE_AFTER, "EUR", 2, later[2]),
        ],
        Types.ROW_NAMED(["k", "rate", "ts"], [Types.STRING(), Types.INT(), Types.SQL_TIMESTAMP()]),
    )
    declared = (
        Schema.new_builder()
        .column("k", "STRING NOT NULL")
        .column("rate", "INT")
        .column("ts", "TIMESTAMP(3)")
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .primary_key("k")
        .build()
    )
    table = env.from_changelog_stream(rates, declared, ChangelogMode.upsert())
    env.create_temporary_view("rates", table)
    orders = streams.from_collection(
        [(1, later[1]), (2, later[3])], Types.TUPLE([Types.INT(), Types.SQL_TIMESTAMP()])
    )
    schema = (
        Schema.new_builder()
        .column("f0", "INT")
        .column("f1", "TIMESTAMP(3)")
        .watermark("f1", "f1 - INTERVAL '1' SECOND")
        .build()
    )
    env.create_temporary_view("orders", orders, schema)
    joined = env.sql_query(
        "SELECT f0, rate FROM (SELECT *, 'EUR' AS c FROM orders) AS orders "
        "JOIN rates FOR SYSTEM_TIME AS OF orders.f1 ON rates.k = orders.c"
    )
    assert sorted(rows(joined)) == [(1, 1), (2, 2)]


def test_fields_of_a_stream_are_named_by_their_place(env: StreamTableEnvironment) -> None:
    table = env.from_data_stream(stream(env), col("t"), col("k"), col("n"), col("p").proctime)
    assert table.get_resolved_schema().get_column_names() == ["t", "k", "n", "p"]
    assert rows(table.select(col("k"), col("n")))[0] == ("a", 1)


def test_a_table_with_updates_is_no_stream_of_inserts(env: StreamTableEnvironment) -> None:
    counted = env.sql_query("SELECT word, COUNT(*) AS n FROM words GROUP BY word")
    with pytest.raises(UnsupportedQueryError, match="update changes"):
        env.to_data_stream(counted)
    out = env.to_changelog_stream(counted, None, ChangelogMode.upsert())
    found = [str(row.get_row_kind()) for row in out.execute_and_collect()]
    assert "-U" not in found
    retracted = env.to_retract_stream(counted, Types.ROW([Types.STRING(), Types.LONG()]))
    final: dict[str, int] = {}
    for added, row in retracted.execute_and_collect():
        if added:
            final[row[0]] = row[1]
    assert final == {"to": 2, "be": 1, "or": 1}


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
