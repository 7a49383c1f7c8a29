"""Statements in programs: queries, inserts, statement sets, savepoints, by the names that PyFlink has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.common import Row, RowKind
from penstock.errors import ConfigurationError, InvalidProgramError
from penstock.sql.errors import ValidationError
from penstock.table import EnvironmentSettings, ResultKind, StreamTableEnvironment, TableEnvironment
from penstock.table.expressions import col
from penstock.table.udf import udf
from penstock.testing import MiniCluster
from penstock.testing.values import register_values
from tests.builders.tables import WORDS, kinds, rows, with_words


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture
def env() -> StreamTableEnvironment:
    return with_words()


def test_a_query_gives_rows_as_pyflink_does(env: StreamTableEnvironment) -> None:
    result = env.execute_sql("SELECT word, id * 2 AS twice FROM words WHERE id > 2")
    assert result.get_result_kind() is ResultKind.SUCCESS_WITH_CONTENT
    assert result.get_resolved_schema().get_column_names() == ["word", "twice"]
    with result.collect() as found:
        assert list(found) == [Row("or", 6), Row("to", 8)]


def test_the_text_and_the_equality_of_collected_rows_are_those_of_pyflink(
    env: StreamTableEnvironment,
) -> None:
    query = "SELECT 1 AS a, ROW(2, 'x') AS b, ARRAY[ROW(3)] AS c, MAP['k', ROW(4)] AS d, CAST(NULL AS ROW<e INT>) AS e"
    (row,) = env.execute_sql(query).collect()
    assert row == Row(1, Row(2, "x"), [Row(3)], {"k": Row(4)}, None)
    assert repr(row) == "<Row(1, <Row(2, 'x')>, [<Row(3)>], {'k': <Row(4)>}, None)>"
    assert row != Row(a=1, b=Row(2, "x"), c=[Row(3)], d={"k": Row(4)}, e=None)
    counted = env.execute_sql("SELECT COUNT(*) FROM words GROUP BY 1 > 0").collect()
    assert [row.get_row_kind() for row in counted][-1] in (RowKind.INSERT, RowKind.UPDATE_AFTER)
    (first, *_) = env.execute_sql("SHOW CATALOGS").collect()
    assert first == Row("default_catalog")


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
    """Upserts without former rows are completed by the primary key; other changes are rejected."""
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
    with pytest.raises(ConfigurationError, match="list all row kinds"):
        tables.execute_sql("SELECT * FROM u")
    tables.execute_sql("CREATE TABLE v (a INT) WITH ('connector' = 'values', 'data-id' = 'x')")
    with pytest.raises(ConfigurationError, match="no values are registered as 'x'"):
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
    with pytest.raises(
        ValidationError, match=r"the primary key of .* refers to unknown column 'nr'"
    ):
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


def test_query_resumes_from_a_savepoint(tmp_path: Any) -> None:
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
def test_restarted_query_counts_each_row_once(mode: str, tmp_path: Any) -> None:
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
