"""Streaming DataFrames as sources of streams and tables."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.common import Encoder, Types, WatermarkStrategy
from penstock.connectors.spark.source import data_frame_columns
from penstock.connectors.spark.stream_source import DataFrameStreamSource, StreamLimits
from penstock.datastream import MapFunction
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    JobCancelledError,
    JobExecutionError,
)
from penstock.table import EnvironmentSettings, Schema, TableEnvironment
from tests.builders.environments import configured, restarts
from tests.builders.modes import EPOCHS, MODES, PIPELINED, runs_in
from tests.builders.waiting import wait_until

TIMEOUT_S = 120
PER_FILE = 100


@pytest.fixture
def session(spark):
    """A session whose queries have ended when the test has."""
    made = SparkSession(spark)
    yield made
    wait_until(lambda: not made.streams.active, "the queries to end")


def add_files(session: SparkSession, directory: Path, first: int, last: int) -> None:
    """Write files with the numbers of a range, `PER_FILE` in each."""
    frame = session.range(first * PER_FILE, last * PER_FILE, 1, last - first)
    frame.write.mode("append").parquet(str(directory))


def files(session: SparkSession, directory: Path):
    reader = session.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(directory))


def env_of(tmp_path: Path, mode: str, **options: str):
    return configured(
        {
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            **runs_in(mode),
            **restarts(3),
            **options,
        },
        parallelism=1,
    )


class FailOnce(MapFunction):
    """Fails at one record until a marker file is there."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def map(self, row):
        if row[0] == 450 and not self.marker.exists():
            self.marker.touch()
            raise ValueError("a bad record")
        return str(row[0])


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


def end(client) -> None:
    client.cancel().result(TIMEOUT_S)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(TIMEOUT_S)


def wait_for(path: Path, count: int, client) -> None:
    def arrived() -> bool:
        result = client.get_job_execution_result()
        if result.done():
            result.result()
        return len(written(path)) >= count

    wait_until(arrived, f"{count} records")


@pytest.mark.parametrize(
    "mode",
    [pytest.param(EPOCHS, marks=pytest.mark.ci), pytest.param(PIPELINED, marks=pytest.mark.full)],
)
def test_each_row_of_a_stream_of_files_is_read_once_although_the_job_fails(session, tmp_path, mode):
    source, out = tmp_path / "in", tmp_path / "out"
    add_files(session, source, 0, 6)
    env = env_of(tmp_path, mode)
    stream = env.from_spark_stream(files(session, source)).uid("in")
    stream.map(FailOnce(tmp_path / "marker"), Types.STRING()).sink_to(file_sink(out))
    client = env.execute_async("files")
    wait_for(out, 6 * PER_FILE, client)
    add_files(session, source, 6, 8)
    wait_for(out, 8 * PER_FILE, client)
    assert (tmp_path / "marker").exists()
    end(client)
    assert written(out) == list(range(8 * PER_FILE))
    assert session.streams.active == []


@pytest.mark.full
def test_the_rows_of_the_rate_source_have_no_gaps(session, tmp_path):
    frame = session.readStream.format("rate").option("rowsPerSecond", 200).load().select("value")
    env, out = env_of(tmp_path, EPOCHS), tmp_path / "out"
    stream = env.from_spark_stream(frame, trigger_interval="200 milliseconds")
    stream.map(FailOnce(tmp_path / "marker"), Types.STRING()).sink_to(file_sink(out))
    client = env.execute_async("rate")
    wait_for(out, 600, client)
    assert (tmp_path / "marker").exists()
    end(client)
    found = written(out)
    assert found == list(range(len(found)))


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_another_job_goes_on_from_a_savepoint(session, tmp_path, mode):
    source, out = tmp_path / "in", tmp_path / "out"
    add_files(session, source, 0, 3)

    def start(**options):
        env = env_of(tmp_path, mode, **options)
        stream = env.from_spark_stream(files(session, source)).uid("in")
        text = stream.map(lambda row: str(row["id"]), Types.STRING()).uid("texts")
        text.sink_to(file_sink(out)).uid("out")
        return env.execute_async("savepoints")

    client = start()
    wait_for(out, PER_FILE, client)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    assert session.streams.active == []
    add_files(session, source, 3, 5)
    resumed = start(**{"execution.state-recovery.path": savepoint})
    wait_for(out, 5 * PER_FILE, resumed)
    end(resumed)
    assert written(out) == list(range(5 * PER_FILE))


@pytest.mark.full
def test_a_table_of_a_stream_has_event_time(session, tmp_path):
    for number in range(6):  # Spark takes files in order of their times
        add_files(session, tmp_path / "in", number, number + 1)
    frame = files(session, tmp_path / "in").selectExpr(
        "id", "timestampadd(SECOND, CAST(id AS INT), TIMESTAMP_NTZ'2026-03-01 09:00:00') AS at"
    )
    schema = (
        Schema.new_builder()
        .column_by_expression("ts", "CAST(at AS TIMESTAMP(3))")
        .watermark("ts", "ts")
        .build()
    )
    settings = EnvironmentSettings.in_streaming_mode()
    t_env = TableEnvironment.create(settings)
    t_env.get_config().set("penstock.execution.mode", EPOCHS)
    t_env.create_temporary_view("clicks", t_env.from_spark_stream(frame, schema))
    result = t_env.execute_sql("""
        SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end
    """)
    with result.collect() as found:
        first = next(found)
    assert tuple(first) == (dt.datetime(2026, 3, 1, 9), 60)


class Gate(MapFunction):
    """Lets nothing through until a file is there."""

    def __init__(self, opened: Path) -> None:
        self.opened = opened

    def map(self, row):
        wait_until(self.opened.exists, "the gate to open")
        return str(row["id"])


@pytest.mark.full
def test_spark_is_not_further_ahead_than_the_limit(session, tmp_path, caplog):
    add_files(session, tmp_path / "in", 0, 8)
    env, out = env_of(tmp_path, EPOCHS), tmp_path / "out"
    frame, columns = data_frame_columns(
        files(session, tmp_path / "in"), "from_spark_stream", streaming=True
    )
    source = DataFrameStreamSource(frame, columns, columnar=False, limits=StreamLimits(unread=2))
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "gated")
    stream.map(Gate(tmp_path / "opened"), Types.STRING()).sink_to(file_sink(out))
    client = env.execute_async("gated")
    wait_until(lambda: "waits: the job has not read" in caplog.text, "Spark to wait")
    (batches,) = (tmp_path / "checkpoints").glob("*/input/*/batches")
    assert len(list(batches.glob("*/_files"))) <= 3
    (tmp_path / "opened").touch()
    wait_for(out, 8 * PER_FILE, client)
    end(client)
    assert written(out) == list(range(8 * PER_FILE))


@pytest.mark.full
def test_the_failure_of_the_query_is_that_of_the_job(session, tmp_path):
    frame = session.readStream.format("rate").load().selectExpr("raise_error('not today') AS a")
    env = env_of(tmp_path, EPOCHS, **{"restart-strategy.type": "none"})
    env.from_spark_stream(frame, source_name="orders").print()
    with pytest.raises(JobExecutionError, match="not today") as failed:
        env.execute("fails")
    assert "'orders'" in str(failed.value)
    assert "\tat org.apache" not in str(failed.value)


@pytest.mark.full
def test_wrong_arguments_are_refused_at_the_call(session, env):
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    streaming = session.readStream.format("rate").load()
    for method in (env.from_spark_stream, t_env.from_spark_stream):
        with pytest.raises(ArgumentError, match="got a bounded one") as refused:
            method(session.range(3))
        assert "from_spark(df)" in str(refused.value.hint)
        with pytest.raises(ArgumentTypeError, match="takes a DataFrame of Spark"):
            method([1])
        with pytest.raises(ArgumentTypeError, match="trigger_interval must be a str"):
            method(streaming, trigger_interval=1)
