"""A job that drops records says so: in its log, in its description, in its diagnosis, in the REST API."""

from __future__ import annotations

import logging

import pytest
from msgspec import to_builtins

from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmanager.diagnosis.metrics import read_figures
from penstock.jobmanager.diagnosis.rules.late import late_records
from penstock.rest.flink_json.jobs import JobDetails
from penstock.rest.resources.job_graph import JobGraphInfo
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from penstock.windowing import TumblingEventTimeWindows
from tests.builders.waiting import wait_until

NOW = 1_700_000_000_000
# With a watermark after each of them, one second behind: 3 and 1 are late for windows of two seconds.
SECONDS = [1, 2, 9, 3, 8, 10, 1, 30]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


class EachRecord(WatermarkGenerator):
    """A watermark after each record, one second behind."""

    def on_event(self, event, timestamp, output):
        output.emit_watermark(timestamp - 1000)

    def on_periodic_emit(self, output):
        pass


def _windows():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_generator(EachRecord)
    (
        env.from_collection(SECONDS, type_info=Types.INT())
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Seconds()))
        .key_by(lambda value: 0)
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .reduce(lambda one, other: one + other)
        .name("sums")
        .print()
    )
    client = env.execute_async("windows")
    client.get_job_execution_result().result(60)
    return client._controller.view()


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_late_records_are_mentioned_with_their_number_and_lateness(mode, caplog):
    caplog.set_level(logging.WARNING)
    with MiniCluster(mode=mode):
        job = _windows()
    said = [line for line in caplog.messages if "dropped" in line]
    assert len(said) == 1
    assert "operator 'sums' dropped 2 of 8 records: they are late (up to 8.0 s behind" in said[0]
    (found,) = to_builtins(JobDetails.of(job, NOW))["penstock"]["dropped"]
    known = {name: found[name] for name in ("name", "metric", "reason", "dropped", "records")}
    assert known == {
        "name": "sums",
        "metric": "numLateRecordsDropped",
        "reason": "they are late",
        "dropped": 2,
        "records": 8,
    }
    assert found["lateness_ms"] == 8000
    assert to_builtins(JobGraphInfo.of(job, NOW))["dropped"] == [found]
    (finding,) = late_records(read_figures(job, NOW))
    assert finding.title == "'sums' dropped 25 % of its records: they are late"


def _said_of(tmp_path, caplog, *, columns, form, lines):
    """Run a query over a file; return its rows, and the lines about what was dropped."""
    caplog.set_level(logging.WARNING)
    (tmp_path / "rows").write_text("\n".join(lines) + "\n")
    with MiniCluster():
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        tables.get_config().set("parallelism.default", "1")
        tables.execute_sql(
            f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', "
            f"'path' = '{tmp_path / 'rows'}', 'format' = '{form}', '{form}.ignore-parse-errors' = 'true')"
        )
        with tables.execute_sql("SELECT * FROM t").collect() as found:
            rows = [tuple(row) for row in found]
    return rows, [line for line in caplog.messages if " dropped " in line]


def test_lines_that_cannot_be_parsed_are_mentioned(tmp_path, caplog):
    lines = ['{"a": 1}', '{"a": ', '{"a": 2}', "{x", '{"a": 3}']
    rows, said = _said_of(tmp_path, caplog, columns="a INT", form="json", lines=lines)
    assert rows == [(1,), (2,), (3,)]
    assert len(said) == 1
    assert said[0].endswith("dropped 2 of 5 records: they cannot be parsed")


def test_rows_that_the_sink_must_not_have_are_mentioned(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    (tmp_path / "rows").write_text("1\n\\N\n3\n")
    with MiniCluster():
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        tables.get_config().set("parallelism.default", "1")
        tables.get_config().set("table.exec.sink.not-null-enforcer", "DROP")
        tables.execute_sql(
            f"CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'rows'}', "
            "'format' = 'csv', 'csv.null-literal' = '\\N')"
        )
        tables.execute_sql("CREATE TABLE s (a INT NOT NULL) WITH ('connector' = 'blackhole')")
        tables.execute_sql("INSERT INTO s SELECT a FROM t").wait()
    (said,) = [line for line in caplog.messages if " dropped " in line]
    assert "dropped 1 of 3 records: a NOT NULL column of the sink is NULL" in said


QUERY = (
    "SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND)) "
    "GROUP BY k, window_start, window_end"
)


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_a_job_that_has_nothing_more_to_read_has_mentioned_its_late_rows(mode, tmp_path, caplog):
    caplog.set_level(logging.WARNING)

    def write(name, *seconds):
        lines = "".join(f"a,1970-01-01 00:00:{second:02}\n" for second in seconds)
        (tmp_path / f".{name}").write_text(lines)
        (tmp_path / f".{name}").rename(tmp_path / name)  # at once

    write("1", 1, 30)
    with MiniCluster(mode=mode):
        tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        for key, value in {
            "parallelism.default": "1",
            "execution.checkpointing.interval": "20 ms",
        }.items():
            tables.get_config().set(key, value)
        tables.execute_sql(
            "CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ("
            f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv', 'source.monitor-interval' = '20 ms')"
        )
        result = tables.execute_sql(QUERY)
        with result.collect() as rows:
            assert list(next(rows)) == ["a", 1]
            write("2", 2, 3)
            wait_until(lambda: any(" dropped " in line for line in caplog.messages))
            result.get_job_client().cancel().result(60)
    (line,) = [line for line in caplog.messages if " dropped " in line]
    assert "dropped 1 of 3 partial aggregates: they are late (up to " in line
