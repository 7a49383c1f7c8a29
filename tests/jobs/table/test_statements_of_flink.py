"""Statements and programs that Flink takes: one case for each that was refused or answered otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Row
from penstock.errors import JobExecutionError
from penstock.sql.errors import ValidationError
from penstock.table import (
    AggregateFunction,
    DataTypes,
    EnvironmentSettings,
    ListView,
    MapView,
    Table,
    TableEnvironment,
    TableSchema,
)
from penstock.table.catalog import CatalogBaseTable, ObjectPath
from penstock.table.expressions import col, lit, null_of, row
from penstock.table.udf import udaf
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import rows


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture
def env() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    made.get_config().set("parallelism.default", "1")
    return made


def test_a_primary_key_at_a_column(env: TableEnvironment) -> None:
    definitions = {
        "plain": "a INT PRIMARY KEY NOT ENFORCED, b STRING",
        "not null before it": "a INT NOT NULL PRIMARY KEY NOT ENFORCED COMMENT 'c', b STRING",
        "with a name": "a INT CONSTRAINT k PRIMARY KEY NOT ENFORCED, b STRING",
    }

    def check(columns: str) -> None:
        env.execute_sql(f"CREATE TABLE t ({columns}) WITH ('connector' = 'print')")
        described = {each[0]: each[3] for each in rows(env.execute_sql("DESCRIBE t"))}
        env.execute_sql("DROP TABLE t")
        assert described == {"a": "PRI(a)", "b": None}

    check_all(definitions, check)


def test_two_inserts_of_a_set_into_one_table_of_files(
    env: TableEnvironment, tmp_path: Path
) -> None:
    env.execute_sql(
        f"CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 't'}', 'format' = 'csv')"
    )
    statements = env.create_statement_set()
    statements.add_insert_sql("INSERT INTO t SELECT 1, 'x'")
    statements.add_insert_sql("INSERT INTO t SELECT 2, CAST(NULL AS STRING)")
    statements.add_insert_sql("INSERT INTO t (a) VALUES (3)")
    statements.execute().wait()
    assert sorted(row[0] for row in rows(env.from_path("t"))) == [1, 2, 3]


def test_a_table_of_kafka_without_a_group(env: TableEnvironment) -> None:
    for mode in ("group-offsets", "earliest-offset"):
        env.execute_sql(
            f"CREATE TEMPORARY TABLE `{mode}` (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', "
            f"'properties.bootstrap.servers' = 'localhost:1', 'scan.bounded.mode' = 'latest-offset', 'scan.startup.mode' = '{mode}')"
        )
        assert "TableSourceScan" in env.explain_sql(f"SELECT * FROM `{mode}`")


def test_a_frame_whose_bound_is_cast(env: TableEnvironment) -> None:
    query = (
        "SELECT a, SUM(a) OVER (ORDER BY a ROWS BETWEEN CAST(1 AS BIGINT) PRECEDING AND CURRENT ROW) "
        "FROM (VALUES 1, 2, 3) AS t(a)"
    )
    assert rows(env.sql_query(query)) == [(1, 1), (2, 3), (3, 5)]


# What Flink's Table API gives for each, of a row with a = 'p', b = 'q', n = 1; None where it refuses the sum.
SUMS: dict[str, tuple[Any, Any]] = {
    "two columns": (col("a") + col("b"), "pq"),
    "a column and a text": (col("b") + "x", "qx"),
    "a column and a literal": (col("b") + lit("x"), "qx"),
    "a text and a column": ("x" + col("b"), "xq"),
    "a text and a number": ("x" + col("n"), "x1"),
    "a column and a number": (col("a") + col("n"), "p1"),
    "three": (col("a") + col("b") + col("n"), "pq1"),
    "results of functions": (col("a").upper_case + (col("b") + "-").upper_case, "PQ-"),
    "a timestamp": (col("a") + col("ts"), "p2024-01-02 03:04:05.100"),
    "a boolean": (col("a") + col("yes"), "pTRUE"),
    "bytes": (col("a") + col("raw"), "pA"),
    "a decimal": (col("a") + col("dec"), "p1.50"),
    "NULL": (col("a") + null_of(DataTypes.STRING()), None),
    "numbers": (col("n") + 1, 2),
}


@pytest.fixture
def sums(env: TableEnvironment) -> Table:
    values = (
        "'p', 'q', 1, TIMESTAMP '2024-01-02 03:04:05.100', TRUE, CAST('A' AS BYTES), "
        "CAST(1.5 AS DECIMAL(5, 2)), ARRAY[1]"
    )
    names = "a, b, n, ts, yes, raw, dec, ar"
    return env.sql_query(f"SELECT * FROM (VALUES ({values})) AS t({names})")


def test_a_text_plus_a_value_is_both(sums: Table) -> None:
    def check(case: tuple[Any, Any]) -> None:
        assert rows(sums.select(case[0])) == [(case[1],)]

    check_all(SUMS, check)


def test_a_text_plus_a_value_in_all_parts_of_a_query(sums: Table) -> None:
    assert rows(sums.filter(col("a") + col("b") == "pq").select(col("n"))) == [(1,)]
    assert rows(sums.group_by(col("a") + col("b")).select(col("n").sum)) == [(1,)]
    assert rows(sums.group_by(col("a")).select(col("a") + col("b").max)) == [("pq",)]
    assert rows(sums.select(col("b")).order_by(col("b") + "x")) == [("q",)]


def test_sums_that_flink_refuses(env: TableEnvironment, sums: Table) -> None:
    cases = {
        "a number and a text": lambda: sums.select(col("n") + col("a")),
        "a number and a literal": lambda: sums.select(col("n") + "x"),
        "a timestamp and a text": lambda: sums.select(col("ts") + col("a")),
        "a text and an array": lambda: sums.select(col("a") + col("ar")),
        "SQL": lambda: env.sql_query(f"SELECT a + b FROM {sums}"),
    }

    def check(query: Any) -> None:
        with pytest.raises(ValidationError, match=r"\+ does not accept"):
            query()

    check_all(cases, check)


class Words(AggregateFunction):
    """Keeps its rows in views, and uses them as a dictionary and a list."""

    def create_accumulator(self) -> Row:
        return Row(MapView(), ListView())

    def accumulate(self, accumulator: Row, *args: Any) -> None:
        counts, words = accumulator
        counts[args[0]] = (counts[args[0]] or 0) + 1
        words.add(args[0])

    def get_value(self, accumulator: Row) -> str:
        counts, words = accumulator
        if "c" in counts:
            del counts["c"]
        return f"{ {word: counts[word] for word in sorted(counts)} } {sorted(words)}"

    def get_result_type(self) -> Any:
        return DataTypes.STRING()

    def get_accumulator_type(self) -> Any:
        return DataTypes.ROW(
            [
                DataTypes.FIELD("f0", DataTypes.MAP_VIEW(DataTypes.STRING(), DataTypes.INT())),
                DataTypes.FIELD("f1", DataTypes.LIST_VIEW(DataTypes.STRING())),
            ]
        )


def test_views_are_a_dictionary_and_a_list(env: TableEnvironment) -> None:
    table = env.from_elements([("a",), ("b",), ("a",), ("c",)], ["word"])
    words = udaf(Words())
    assert words.function.get_accumulator_type().field_names() == ["f0", "f1"]
    found = rows(table.select(words(col("word"))))
    assert found == [("{'a': 2, 'b': 1} ['a', 'a', 'b', 'c']",)]


def test_the_default_catalog_makes_and_finds_tables(env: TableEnvironment) -> None:
    catalog: Any = env.get_catalog("default_catalog")
    path = ObjectPath("default_database", "made")
    schema = TableSchema(["a", "b"], [DataTypes.INT(), DataTypes.STRING()])
    assert not catalog.table_exists(path)
    made = CatalogBaseTable.create_table(schema, properties={"connector": "print"}, comment="hi")
    catalog.create_table(path, made, False)
    assert catalog.table_exists(path)
    assert [each[:2] for each in rows(env.execute_sql("DESCRIBE made"))] == [
        ("a", "INT"),
        ("b", "STRING"),
    ]
    env.execute_sql("CREATE TABLE other (a INT) WITH ('connector' = 'print')")
    assert catalog.table_exists(ObjectPath("default_database", "other"))


def test_all_names_of_the_module_of_catalogs_can_be_imported() -> None:
    names: dict[str, Any] = {}
    exec("from penstock.table.catalog import *", names)
    assert names["ObjectPath"] is ObjectPath
    assert {"Catalog", "CatalogDatabase", "ResolvedSchema"} <= set(names)


def test_elements_may_be_rows_of_expressions(env: TableEnvironment) -> None:
    plain = env.from_elements([row(1, "a"), row(2, "b")])
    assert plain.get_resolved_schema().get_column_names() == ["f0", "f1"]
    assert rows(plain) == [(1, "a"), (2, "b")]
    assert rows(env.from_elements([row(1, lit("a") + "b")], ["x", "y"])) == [(1, "ab")]
    kind = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT())])
    typed = env.from_elements([row(1), row(2)], kind)
    [found] = typed.get_resolved_schema().get_column_data_types()
    assert found.nullable() == DataTypes.BIGINT()


PRINTED = {
    "CAST(1.23 AS FLOAT)": ("FLOAT", "1.23"),
    "CAST(1.23 AS DOUBLE)": ("DOUBLE", "1.23"),
    "TIMESTAMP '2024-01-02 03:04:05.600'": ("TIMESTAMP(3)", "2024-01-02T03:04:05.600"),
    "TIMESTAMP '2024-01-02 03:04:00'": ("TIMESTAMP(0)", "2024-01-02T03:04"),
    "TIMESTAMP '2024-01-02 03:04:05.123456789'": ("TIMESTAMP(9)", "2024-01-02T03:04:05.123456789"),
    "TO_TIMESTAMP_LTZ(1500, 3)": ("TIMESTAMP_LTZ(3)", "1970-01-01T00:00:01.500Z"),
    "DATE '2024-01-02'": ("DATE", "2024-01-02"),
    "TIME '01:02:00'": ("TIME", "01:02"),
    "CAST(1.5 AS DECIMAL(10, 2))": ("DECIMAL(10, 2)", "1.50"),
    "CAST(X'01FF' AS BYTES)": ("BYTES", "[1, -1]"),
    "CAST(ROW(1, 1.23) AS ROW<x INT, f FLOAT>)": ("ROW<x INT, f FLOAT>", "+I[1, 1.23]"),
    "ARRAY['a', 'b']": ("ARRAY<STRING>", "[a, b]"),
    "ARRAY[TIMESTAMP '2024-01-02 03:04:00.100']": (
        "ARRAY<TIMESTAMP(3)>",
        "[2024-01-02T03:04:00.100]",
    ),
    "MAP['a', 1]": ("MAP<STRING, INT>", "{a=1}"),
    "TRUE": ("BOOLEAN", "true"),
    "CAST(NULL AS INT)": ("INT", "null"),
}


def test_print_shows_values_as_flink_does(
    env: TableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(case: tuple[str, str, str]) -> None:
        expression, kind, shown = case
        env.execute_sql(f"CREATE TEMPORARY TABLE p (v {kind}) WITH ('connector' = 'print')")
        capsys.readouterr()
        env.execute_sql(f"INSERT INTO p SELECT {expression}").wait()
        env.execute_sql("DROP TEMPORARY TABLE p")
        assert capsys.readouterr().out == f"+I[{shown}]\n"

    check_all({each: (each, *PRINTED[each]) for each in PRINTED}, check)


# Lines of CSV, and what Flink reads of them with and without 'csv.ignore-parse-errors'; None where it fails or leaves the line out.
NESTED_LINES: dict[str, tuple[Any, Any]] = {
    "1,2|a,p|q": ((1, (2, "a"), ["p", "q"]), (1, (2, "a"), ["p", "q"])),
    "1,2|a|b,p|q": ((1, (2, "a"), ["p", "q"]), (1, (2, "a"), ["p", "q"])),
    "1,2,p": (None, (1, (2, None), ["p"])),
    "1,2|,": ((1, (2, ""), []), (1, (2, ""), [])),
    "1,,|": ((1, None, ["", ""]), (1, None, ["", ""])),
    "1,|x,p": (None, (1, (None, "x"), ["p"])),
    "1, 2 | x ,p | q": ((1, (2, " x "), ["p ", " q"]), (1, (2, " x "), ["p ", " q"])),
    "1,2|a,p,extra": (None, None),
    "1,2|a": (None, (1, (2, "a"), None)),
    "x,2|a,p": (None, (None, (2, "a"), ["p"])),
}


@pytest.mark.parametrize("ignores", [False, True])
def test_rows_in_csv_with_another_delimiter_of_elements(
    env: TableEnvironment, tmp_path: Path, ignores: bool
) -> None:
    def read(line: str) -> Any:
        (tmp_path / "lines").write_text(f"{line}\n")
        env.execute_sql(
            "CREATE TEMPORARY TABLE t (a INT, r ROW<x INT, y STRING>, ar ARRAY<STRING>) WITH ("
            f"'connector' = 'filesystem', 'path' = '{tmp_path / 'lines'}', 'format' = 'csv', "
            f"'csv.array-element-delimiter' = '|', 'csv.ignore-parse-errors' = '{ignores}')"
        )
        try:
            found = rows(env.from_path("t"))
        except JobExecutionError:
            assert not ignores
            return None
        finally:
            env.execute_sql("DROP TEMPORARY TABLE t")
        return found[0] if found else None

    def check(line: str) -> None:
        found = read(line)
        if found is not None and found[1] is not None:
            found = (found[0], tuple(found[1]), found[2])
        assert found == NESTED_LINES[line][ignores]

    check_all({line: line for line in NESTED_LINES}, check)


def test_rows_in_csv_are_written_with_another_delimiter_of_elements(
    env: TableEnvironment, tmp_path: Path
) -> None:
    env.execute_sql(
        "CREATE TABLE t (a INT, r ROW<x INT, y STRING>, ar ARRAY<STRING>) WITH ("
        f"'connector' = 'filesystem', 'path' = '{tmp_path / 't'}', 'format' = 'csv', 'csv.array-element-delimiter' = '|')"
    )
    env.execute_sql(
        "INSERT INTO t VALUES (1, ROW(2, 'a|b'), ARRAY['p', 'q']), (2, ROW(CAST(NULL AS INT), 'u,v'), ARRAY['', CAST(NULL AS STRING)]), "
        "(3, ROW(1, ''), ARRAY['a;b', 'c\"d']), (4, CAST(NULL AS ROW<x INT, y STRING>), CAST(NULL AS ARRAY<STRING>))"
    ).wait()
    [file] = [each for each in (tmp_path / "t").iterdir() if not each.name.startswith(("_", "."))]
    # as Flink writes them
    assert file.read_text().splitlines() == ["1,2|a|b,p|q", '2,"|u,v",|', '3,1|,"a;b|c""d"', "4,,"]
