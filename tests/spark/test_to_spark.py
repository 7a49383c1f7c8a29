"""Results of queries as DataFrames."""

from __future__ import annotations

import datetime as dt
import gc
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from penstock.processes import temporary
from penstock.spark.frame_files import frame_files
from penstock.table import EnvironmentSettings, TableEnvironment
from tests.builders.waiting import wait_until

# One row with values, one with NULLs; and what they are in Spark
TYPES = {
    "BOOLEAN": ("TRUE", "boolean", True),
    "TINYINT": ("1", "tinyint", 1),
    "SMALLINT": ("2", "smallint", 2),
    "INT": ("3", "int", 3),
    "BIGINT": ("4", "bigint", 4),
    "FLOAT": ("0.5", "float", 0.5),
    "DOUBLE": ("0.25", "double", 0.25),
    "DECIMAL(10, 2)": ("12.34", "decimal(10,2)", Decimal("12.34")),
    "STRING": ("'text'", "string", "text"),
    "CHAR(3)": ("'abc'", "string", "abc"),
    "BYTES": ("X'4142'", "binary", bytearray(b"AB")),
    "DATE": ("DATE '2026-03-01'", "date", dt.date(2026, 3, 1)),
    "TIME(3)": ("TIME '09:30:00.123'", "time(3)", dt.time(9, 30, 0, 123000)),
    "TIMESTAMP(3)": (
        "TIMESTAMP '2026-03-01 09:00:00.123'",
        "timestamp_ntz",
        dt.datetime(2026, 3, 1, 9, 0, 0, 123000),
    ),
    "INTERVAL DAY TO SECOND(3)": (
        "INTERVAL '1 02:03:04' DAY TO SECOND",
        "interval day to second",
        dt.timedelta(days=1, hours=2, minutes=3, seconds=4),
    ),
    "ARRAY<INT>": ("ARRAY[1, 2]", "array<int>", [1, 2]),
    "MAP<STRING, INT>": ("MAP['a', 1]", "map<string,int>", {"a": 1}),
    "ROW<n INT, s STRING>": ("ROW(1, 'a')", "struct<n:int,s:string>", (1, "a")),
}


@pytest.fixture
def session(spark):
    return SparkSession(spark)


def tables(mode="batch", parallelism=2):
    settings = (
        EnvironmentSettings.in_batch_mode()
        if mode == "batch"
        else EnvironmentSettings.in_streaming_mode()
    )
    env = TableEnvironment.create(settings)
    env.get_config().set("parallelism.default", str(parallelism))
    return env


@pytest.mark.ci
def test_columns_keep_their_types_values_and_nullability(session):
    chosen = ", ".join(
        f"CAST({value} AS {kind}) AS `{kind}`" for kind, (value, _, _) in TYPES.items()
    )
    nulls = ", ".join(f"CAST(NULL AS {kind})" for kind in TYPES)
    frame = (
        tables().sql_query(f"SELECT 1 AS n, {chosen} UNION ALL SELECT 2, {nulls}").to_spark(session)
    )
    assert {each.name: each.dataType.simpleString() for each in frame.schema} == {
        "n": "int",
        **{kind: shown for kind, (_, shown, _) in TYPES.items()},
    }
    assert [each.name for each in frame.schema if not each.nullable] == ["n"]
    first, second = frame.orderBy("n").collect()
    assert tuple(first)[1:] == tuple(value for _, _, value in TYPES.values())
    assert set(tuple(second)[1:]) == {None}


def test_a_timestamp_with_local_time_zone_is_an_instant(session):
    env = tables()
    env.get_config().set("table.local-time-zone", "Asia/Tokyo")
    query = "SELECT CAST(TIMESTAMP '2026-03-01 09:00:00' AS TIMESTAMP_LTZ(3)) AS at"
    frame = env.sql_query(query).to_spark()
    assert frame.schema.simpleString() == "struct<at:timestamp>"
    assert frame.selectExpr("unix_seconds(at) AS s").first().s == 1772323200


def test_rows_come_in_order_from_all_subtasks(session):
    numbers = ", ".join(f"({n})" for n in range(100))
    query = f"SELECT n * 2 AS n FROM (VALUES {numbers}) AS t(n) ORDER BY n DESC"
    frame = tables().sql_query(query).to_spark(session)
    assert [row.n for row in frame.collect()] == [2 * n for n in range(99, -1, -1)]
    assert frame.where("n > 100").groupBy().sum("n").first()[0] == sum(range(102, 200, 2))


@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("execution", ["epochs", pytest.param("pipelined", marks=pytest.mark.full)])
def test_what_a_changing_query_leaves_is_the_result(session, mode, execution):
    env = tables(mode, parallelism=1)
    if (mode, execution) == ("batch", "pipelined"):
        pytest.skip("batch jobs run in epochs")
    env.get_config().set("penstock.execution.mode", execution)
    env.get_config().set("execution.checkpointing.interval", "100 ms")
    query = """
        SELECT shop, COUNT(*) AS orders FROM (VALUES ('Ulm'), ('Bonn'), ('Ulm'), (CAST(NULL AS STRING))) AS t(shop)
        GROUP BY shop
    """
    frame = env.sql_query(query).to_spark(session)
    assert frame.columns == ["shop", "orders"]
    assert {tuple(row) for row in frame.collect()} == {("Ulm", 2), ("Bonn", 1), (None, 1)}


def test_equal_rows_are_left_as_often_as_they_are_there(session):
    query = (
        "SELECT COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('b'), ('c'), ('c')) AS t(x) GROUP BY x"
    )
    frame = tables("streaming").sql_query(query).to_spark(session)
    assert sorted(row.n for row in frame.collect()) == [1, 2, 2]


def test_no_rows_are_an_empty_dataframe(session):
    frame = (
        tables().sql_query("SELECT 1 AS n, 'a' AS s FROM (VALUES 1) AS t(x) WHERE x > 1").to_spark()
    )
    assert frame.schema.simpleString() == "struct<n:int,s:string>"
    assert frame.collect() == []


@pytest.mark.ci
def test_files_go_when_nothing_can_read_them(session, tmp_path):
    env = tables()
    env.get_config().set("execution.checkpointing.dir", str(tmp_path))
    frame = env.sql_query("SELECT * FROM (VALUES 1, 2, 3) AS t(n)").to_spark(session)
    derived = frame.where("n > 1")

    def directories():
        """What is left of results, after Python and the JVM have forgotten what is not used."""
        gc.collect()
        session.sparkContext._jvm.System.gc()
        frame_files.remove_unused()
        return [path for path in tmp_path.iterdir() if temporary._NAME.fullmatch(path.name)]

    assert len(directories()) == 1
    del frame
    assert len(directories()) == 1
    assert derived.count() == 2
    derived.createOrReplaceTempView("derived_of_result")
    del derived
    assert len(directories()) == 1
    assert session.sql("SELECT sum(n) AS s FROM derived_of_result").first().s == 5
    session.catalog.dropTempView("derived_of_result")
    wait_until(lambda: not directories())


@pytest.mark.full
def test_a_large_result_is_many_partitions_on_the_way(session, tmp_path):
    env = tables()
    env.execute_sql(
        "CREATE TABLE numbers (n BIGINT, text STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '3000000', "
        "'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '3000000', 'fields.text.length' = '60')"
    )
    frame = env.sql_query("SELECT * FROM numbers").to_spark(session)
    assert frame.rdd.getNumPartitions() > 2
    assert frame.groupBy().sum("n").first()[0] == 3000000 * 3000001 // 2
