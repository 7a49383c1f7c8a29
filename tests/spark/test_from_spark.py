"""Bounded DataFrames as sources of streams and tables."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, functions

from penstock.common import (
    Encoder,
    JobStatus,
    Row,
    Time,
    Types,
    WatermarkStrategy,
)
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import MapFunction
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    JobCancelledError,
    PenstockError,
    UnsupportedOperationError,
)
from penstock.spark import data_frames
from penstock.table import (
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableEnvironment,
)
from penstock.table.expressions import col
from tests.builders.environments import configured, restarts
from tests.builders.modes import EPOCHS, MODES, PIPELINED, runs_in
from tests.builders.waiting import wait_until

TIMEOUT_S = 120


@pytest.fixture
def session(spark):
    return SparkSession(spark)


def tables(batch: bool = False) -> TableEnvironment:
    mode = EnvironmentSettings.in_batch_mode if batch else EnvironmentSettings.in_streaming_mode
    return TableEnvironment.create(mode())


def read_all(stream):
    with stream.execute_and_collect() as found:
        return list(found)


# Types

ALL_TYPES = """
    SELECT id, id % 2 = 0 AS flag, CAST(id AS TINYINT) AS tiny, CAST(id AS DECIMAL(10, 2)) AS price,
      CAST(id AS DOUBLE) / 2 AS half, concat('n', id) AS name, x'0A' AS bytes, DATE'2026-03-01' AS day,
      TIMESTAMP'2026-03-01 12:00:00.25 Europe/Vienna' AS at, TIMESTAMP_NTZ'2026-03-01 12:00:00.000001' AS local,
      TIME'01:02:03' AS clock, INTERVAL '1 02' DAY TO HOUR AS span, INTERVAL '1-2' YEAR TO MONTH AS months,
      array(id, NULL) AS numbers, map('k', INTERVAL '3' MONTH) AS nested, named_struct('a', id, 'b', NULL) AS inner,
      CAST(NULL AS STRING) AS missing, NULL AS nothing
    FROM range(0, 2, 1, 1)
"""
ROW = {
    "flag": False,
    "tiny": 1,
    "price": Decimal("1.00"),
    "half": 0.5,
    "name": "n1",
    "bytes": b"\n",
    "day": dt.date(2026, 3, 1),
    "at": dt.datetime(2026, 3, 1, 11, 0, 0, 250_000, dt.UTC),
    "local": dt.datetime(2026, 3, 1, 12, 0, 0, 1),
    "clock": dt.time(1, 2, 3),
    "span": dt.timedelta(days=1, hours=2),
    "months": 14,
    "numbers": [1, None],
    "nested": {"k": 3},
    "inner": Row(a=1, b=None),
    "missing": None,
    "nothing": None,
}


def values(row: Row) -> list:
    """Return the fields of a row, without names: those of results have none."""
    return [tuple(each) if isinstance(each, Row) else each for each in row]


@pytest.mark.ci
def test_all_types_become_values_of_streams_and_tables(session, env):
    frame = session.sql(ALL_TYPES)
    rows = read_all(env.from_spark(frame))
    assert [row["id"] for row in rows] == [0, 1]
    assert {name: rows[1][name] for name in ROW} == ROW
    table = tables().from_spark(frame)
    assert (
        str(table.get_schema().get_field_data_type("months"))
        == "INTERVAL YEAR(2) TO MONTH NOT NULL"
    )
    with table.execute().collect() as found:
        assert sorted(map(values, found)) == list(map(values, rows))


@pytest.mark.full
def test_a_stream_of_rows_is_a_table(session, env):
    env.set_parallelism(1)
    stream = env.from_spark(session.sql("SELECT id, concat('n', id) AS name FROM range(3)"))
    assert stream.get_type() == Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    t_env = StreamTableEnvironment.create(env)
    t_env.create_temporary_view("people", stream)
    with t_env.execute_sql("SELECT name FROM people WHERE id > 0").collect() as found:
        assert sorted(map(tuple, found)) == [("n1",), ("n2",)]


# Exactly once


class FailOnce(MapFunction):
    """Fails at one record until a marker file is there."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def map(self, row):
        if row["id"] == 1500 and not self.marker.exists():
            self.marker.touch()
            raise ValueError("a bad record")
        return str(row["id"])


def file_sink(path):
    sink = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    return sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()


def written(path: Path) -> list[int]:
    return sorted(
        int(line)
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith(".")
        for line in file.read_text().splitlines()
    )


@pytest.mark.parametrize(
    "mode",
    [pytest.param(EPOCHS, marks=pytest.mark.full), pytest.param(PIPELINED, marks=pytest.mark.ci)],
)
def test_a_dataframe_in_random_order_is_read_once_although_the_job_fails(session, tmp_path, mode):
    env = configured(
        {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            **runs_in(mode),
            **restarts(3),
        },
        parallelism=2,
    )
    frame = session.range(0, 3000, 1, 3).orderBy(functions.rand())
    stream = env.from_spark(frame).map(FailOnce(tmp_path / "marker"), Types.STRING())
    stream.sink_to(file_sink(tmp_path / "out"))
    job_id = env.execute("exactly once").get_job_id()
    assert (tmp_path / "marker").exists()
    assert written(tmp_path / "out") == list(range(3000))
    assert not (tmp_path / "checkpoints" / str(job_id) / "input").exists()


class Gate(MapFunction):
    """Lets a few records of each subtask through until a file is there."""

    def __init__(self, opened: Path, reached: Path) -> None:
        self.opened = opened
        self.reached = reached
        self.count = 0

    def map(self, row):
        self.count += 1
        if self.count > 100:
            self.reached.touch()
            wait_until(self.opened.exists, "the gate to open")
        return str(row["id"])


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_a_savepoint_in_the_middle_is_continued_by_another_job(session, tmp_path, mode):
    frame = session.range(0, 20_000, 1, 3).orderBy(functions.rand())
    opened, reached = tmp_path / "opened", tmp_path / "reached"
    options = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        **runs_in(mode),
    }

    def start(more):
        env = configured({**options, **more}, parallelism=2)
        stream = env.from_spark(frame).uid("in").map(Gate(opened, reached), Types.STRING())
        stream.uid("gate").sink_to(file_sink(tmp_path / "out")).uid("out")
        return env.execute_async("continued")

    client = start({})
    wait_until(reached.exists, "the first records")
    stopped = client.stop_with_savepoint(False, str(tmp_path / "savepoints"))
    opened.touch()
    savepoint = stopped.result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    first = written(tmp_path / "out")
    assert 0 < len(first) < 20_000
    resumed = start({"execution.state-recovery.path": savepoint})
    resumed.get_job_execution_result().result(TIMEOUT_S)
    assert written(tmp_path / "out") == list(range(20_000))


# Event time

CLICKS = [(user, second) for second in range(600) for user in ("ann", "bob")]
PER_MINUTE = sorted(
    (user, dt.datetime(2026, 3, 1, 9, minute), 60)
    for minute in range(10)
    for user in ("ann", "bob")
)


@pytest.fixture
def clicks(session):
    """Clicks of ten minutes in four partitions, each in the order of time: read one after another they would be late."""
    frame = session.createDataFrame(CLICKS, "user string, second int")
    at = "timestampadd(SECOND, second, TIMESTAMP_NTZ'2026-03-01 09:00:00')"
    return (
        frame.withColumn("at", functions.expr(at))
        .repartitionByRange(4, "second")
        .sortWithinPartitions("second")
    )


@pytest.mark.full
@pytest.mark.parametrize("batch", [False, True], ids=["streaming", "batch"])
def test_a_schema_adds_event_time_with_a_watermark_per_partition(clicks, batch):
    schema = (
        Schema.new_builder()
        .column_by_expression("ts", "CAST(at AS TIMESTAMP(3))")
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .build()
    )
    t_env = tables(batch)
    t_env.create_temporary_view("clicks", t_env.from_spark(clicks, schema))
    result = t_env.execute_sql("""
        SELECT user, window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY user, window_start, window_end
    """)
    with result.collect() as found:
        assert sorted(map(tuple, found)) == PER_MINUTE


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["second"] * 1000


@pytest.mark.full
def test_a_stream_has_a_watermark_per_partition(clicks, env):
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    counts = (
        env.from_spark(clicks, strategy, "clicks")
        .map(lambda row: (row["user"], 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )
    assert sorted(read_all(counts)) == sorted((user, count) for user, _, count in PER_MINUTE)


# What Spark reads


@pytest.mark.full
def test_spark_reads_only_the_columns_and_rows_that_a_query_needs(session):
    t_env = tables()
    frame = session.sql(
        "SELECT id AS `a.b`, raise_error('computed') AS bad FROM range(0, 1000, 1, 4)"
    )
    table = t_env.from_spark(frame)
    with t_env.sql_query(f"SELECT SUM(`a.b`), COUNT(*) FROM {table}").execute().collect() as found:
        assert list(map(tuple, found))[-1] == (499_500, 1000)
    plan = t_env.explain_sql(f"SELECT `a.b` FROM {table} LIMIT 3")
    assert "project=[a.b], limit=[3]" in plan


@pytest.mark.full
def test_declared_columns_are_chosen_and_converted(session):
    frame = session.sql("SELECT id, CAST(id AS STRING) AS name, id AS more FROM range(2)")
    schema = Schema.new_builder().column("name", "STRING").column("id", "INT").build()
    table = tables(batch=True).from_spark(frame, schema)
    assert str(table.get_schema().to_row_data_type()) == "ROW<`name` STRING, `id` INT> NOT NULL"
    with table.execute().collect() as found:
        assert sorted(map(tuple, found)) == [("0", 0), ("1", 1)]


@pytest.mark.full
def test_names_of_columns_may_have_any_letters_and_differ_in_case(session, env):
    frame = session.range(1).toDF("a.b").selectExpr("`a.b`", "'x' AS `q``r`", "1 AS n", "2 AS N")
    (row,) = read_all(env.from_spark(frame))
    assert row == Row(**{"a.b": 0, "q`r": "x", "n": 1, "N": 2})
    table = tables(batch=True).from_spark(frame)
    with table.select(col("N"), col("a.b")).execute().collect() as found:
        assert list(map(tuple, found)) == [(2, 0)]


@pytest.mark.full
def test_a_dataframe_without_rows_is_an_empty_stream(session, env):
    assert read_all(env.from_spark(session.range(0))) == []


@pytest.mark.full
def test_an_error_of_spark_is_the_error_of_the_job(session, env):
    env.from_spark(
        session.sql("SELECT raise_error('not today') AS a"), source_name="orders"
    ).print()
    with pytest.raises(
        PenstockError, match="Spark could not read the DataFrame 'orders'"
    ) as failed:
        env.execute("fails")
    assert "not today" in str(failed.value)
    assert "\tat org.apache" not in str(failed.value)


@pytest.mark.full
def test_reading_can_be_cancelled(session, env, tmp_path):
    started = tmp_path / "started"

    def slow(batches):
        started.touch()
        threading.Event().wait(600)
        yield from batches

    frame = session.range(2).mapInArrow(slow, "id long")
    env.from_spark(frame).print()
    client = env.execute_async("slow")
    wait_until(started.exists, "Spark to read")
    client.cancel().result(TIMEOUT_S)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(TIMEOUT_S)
    assert client.get_job_status().result(TIMEOUT_S) is JobStatus.CANCELED
    tracker = session.sparkContext.statusTracker()
    wait_until(lambda: not tracker.getActiveJobsIds(), "Spark's tasks to end")


@pytest.mark.full
def test_a_job_says_that_it_waits_for_cores(session, env, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(data_frames, "_WAITS_S", 0.1)
    release, begun = tmp_path / "release", tmp_path / "begun"

    def hold(numbers):
        begun.touch()
        wait_until(release.exists, "the cores to be given back")
        yield from numbers

    context = session.sparkContext
    holding = threading.Thread(
        target=lambda: context.parallelize(range(2), 2).mapPartitions(hold).collect()
    )
    holding.start()
    wait_until(begun.exists, "the cores to be taken")
    with caplog.at_level(logging.WARNING, "penstock.spark.data_frames"):
        env.from_spark(session.range(3)).print()
        client = env.execute_async("waits")
        wait_until(lambda: "is not being read" in caplog.text, "the warning")
        release.touch()
        client.get_job_execution_result().result(TIMEOUT_S)
    holding.join()
    assert caplog.text.count("is not being read") == 1


# What is refused


@pytest.mark.full
def test_wrong_arguments_are_refused_at_the_call(session, env):
    streaming = session.readStream.format("rate").load()
    t_env = tables()
    for method in (env.from_spark, t_env.from_spark):
        with pytest.raises(ArgumentError, match="got a streaming one"):
            method(streaming)
        with pytest.raises(ArgumentTypeError, match="takes a DataFrame of Spark, got None"):
            method(None)
        with pytest.raises(UnsupportedOperationError, match="column 'v' has Spark type variant"):
            method(session.sql("SELECT parse_json('1') AS v"))
        with pytest.raises(ArgumentError, match="several columns 'a'"):
            method(session.sql("SELECT 1 AS a, 2 AS a"))
    frame = session.range(3)
    with pytest.raises(ArgumentTypeError, match="watermark_strategy"):
        env.from_spark(frame, watermark_strategy="none")
    with pytest.raises(ArgumentTypeError, match="schema must be a Schema"):
        t_env.from_spark(frame, schema=["id"])
    with pytest.raises(PenstockError, match="the DataFrame has no column 'idd'") as refused:
        t_env.from_spark(frame, Schema.new_builder().column("idd", "BIGINT").build())
    assert "'id'" in str(refused.value.hint)


@pytest.mark.full
def test_methods_for_other_data_name_from_spark(session, env):
    frame, t_env = session.range(3), tables()
    for method in (env.from_collection, t_env.from_elements, t_env.from_pandas):
        with pytest.raises(ArgumentTypeError) as refused:
            method(frame)
        assert "t_env.from_spark(df)" in str(refused.value.hint)
    for method in (t_env.from_arrow, t_env.from_polars):
        with pytest.raises(ArgumentTypeError) as refused:
            method(frame)
        assert "from_spark()" in str(refused.value.hint)


@pytest.mark.full
@pytest.mark.parametrize("declared", ["TIMESTAMP(3)", "INT NOT NULL"])
def test_values_that_do_not_fit_a_declared_column_fail_the_job(session, declared):
    frame = session.sql("SELECT TIMESTAMP_NTZ'2026-03-01 12:00:00.000001' AS a, id FROM range(1)")
    if declared != "TIMESTAMP(3)":
        frame = session.sql("SELECT CAST(NULL AS INT) AS a")
    table = tables().from_spark(frame, Schema.new_builder().column("a", declared).build())
    with pytest.raises(PenstockError, match="column 'a'"), table.execute().collect() as found:
        list(found)
