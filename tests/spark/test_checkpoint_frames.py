"""The rows of checkpoints as DataFrames: each checkpoint's rows under its number, whatever fails."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.common import Configuration, Row, RowKind, Types, WatermarkStrategy
from penstock.connectors.spark.commit_record import CommitRecord
from penstock.connectors.values.table import register_values
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.spark import SparkSink
from penstock.errors import JobExecutionError
from penstock.sql.errors import UnsupportedQueryError
from penstock.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from tests.builders.modes import EPOCHS, PIPELINED
from tests.builders.waiting import wait_until
from tests.spark.pipelined_jobs import TIMEOUT_S, Ticks


class Ledger:
    """A table of a database, written as users of foreachBatch do: a number that comes again replaces its rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: list[tuple[int, tuple[int, ...]]] = []
        with self.connect() as database:
            database.execute("CREATE TABLE rows (checkpoint INTEGER, value INTEGER)")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def write(self, df, checkpoint_id: int) -> None:
        values = [row.value for row in df.collect()]
        self.calls.append((checkpoint_id, tuple(sorted(values))))
        with closing(self.connect()) as database, database:
            database.execute("DELETE FROM rows WHERE checkpoint = ?", (checkpoint_id,))
            rows = [(checkpoint_id, value) for value in values]
            database.executemany("INSERT INTO rows VALUES (?, ?)", rows)

    def values(self) -> list[int]:
        with closing(self.connect()) as database:
            return [value for (value,) in database.execute("SELECT value FROM rows ORDER BY value")]


def start(tmp_path, mode, function, attempts=20):
    """Start a job without end whose rows go to a function, and which tells the process of its task."""
    options = {
        "penstock.execution.mode": mode,
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "parallelism.default": "1",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "restart-strategy.fixed-delay.attempts": str(attempts),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    pid = str(tmp_path / "pid")

    def tell_process(value):
        Path(f"{pid}.new").write_text(str(os.getpid()))
        Path(f"{pid}.new").rename(pid)
        return value

    numbers = env.from_source(Ticks(), WatermarkStrategy.no_watermarks(), "ticks", Types.LONG())
    numbers.map(tell_process, Types.LONG()).sink_to(SparkSink(function))
    return env.execute_async("ledger")


@pytest.mark.parametrize(
    "mode",
    [pytest.param(PIPELINED, marks=pytest.mark.ci), pytest.param(EPOCHS, marks=pytest.mark.ci)],
)
def test_each_row_is_there_once_whatever_fails(tmp_path, mode, monkeypatch):
    ledger, failed = Ledger(tmp_path / "ledger.db"), []
    write_record = CommitRecord.write

    def once(name, call):
        if len(ledger.calls) >= call and name not in failed:
            failed.append(name)
            return True
        return False

    def function(df, checkpoint_id):
        if once("before the rows are written", 2):
            raise ConnectionError("refused")
        ledger.write(df, checkpoint_id)
        if once("after the rows are written", 4):
            raise ConnectionError("lost")
        if once("the task", 8):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    def write_or_fail(self, checkpoint_id, files):
        if once("between the call and its record", 6):
            raise OSError("no space")
        write_record(self, checkpoint_id, files)

    monkeypatch.setattr(CommitRecord, "write", write_or_fail)
    client = start(tmp_path, mode, function)
    wait_until(lambda: len(ledger.calls) >= 12, "12 calls", seconds=TIMEOUT_S)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(TIMEOUT_S)

    assert len(failed) == 4
    numbers = [number for number, _ in ledger.calls]
    assert numbers == sorted(numbers)  # in order
    assert len(set(ledger.calls)) == len(set(numbers))  # the same rows each time
    assert len(numbers) >= len(set(numbers)) + 2  # and two of the failures made it come again
    values = ledger.values()
    assert values == [*range(len(values))]
    assert len(values) == sum(len(rows) for _, rows in set(ledger.calls))
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.full
def test_the_error_of_the_function_fails_the_job_with_its_traceback(tmp_path):
    def write_to_warehouse(df, checkpoint_id):
        raise ValueError(f"no table for {df.columns}")

    client = start(tmp_path, PIPELINED, write_to_warehouse, attempts=1)
    with pytest.raises(JobExecutionError, match=r"ValueError: no table for \['value'\]") as raised:
        client.get_job_execution_result().result(TIMEOUT_S)
    assert "in write_to_warehouse" in str(raised.value)


@pytest.mark.full
@pytest.mark.parametrize("mode", [PIPELINED, EPOCHS])
def test_a_restored_job_hands_over_again_what_was_not_recorded(tmp_path, mode):
    """The first driver ends for good between the call and its record; the next one starts from its checkpoint."""
    ledger = Ledger(tmp_path / "ledger.db")

    def fails(df, checkpoint_id):
        ledger.write(df, checkpoint_id)
        if len(ledger.calls) == 3:
            raise ConnectionError("lost")

    client = start(tmp_path, mode, fails, attempts=0)
    with pytest.raises(JobExecutionError):
        client.get_job_execution_result().result(TIMEOUT_S)
    (last, rows) = ledger.calls[-1]
    (job,) = (tmp_path / "checkpoints").iterdir()

    options = {
        "execution.state-recovery.path": str(job),
        "execution.checkpointing.interval": "50 ms",
        "penstock.execution.mode": mode,
        "parallelism.default": "1",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    numbers = env.from_source(Ticks(), WatermarkStrategy.no_watermarks(), "ticks", Types.LONG())
    numbers.map(lambda value: value, Types.LONG()).sink_to(SparkSink(ledger.write))
    again = env.execute_async("ledger")
    wait_until(lambda: len(ledger.calls) > 5, "calls of the next driver", seconds=TIMEOUT_S)
    again.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(TIMEOUT_S)
    assert ledger.calls[3] == (last, rows)
    assert ledger.values() == [*range(len(ledger.values()))]


@pytest.mark.ci
def test_tables_are_handed_over_with_the_kinds_of_changes(tmp_path):
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "1")
    changes = [(RowKind.INSERT, "Ulm", 1), (RowKind.INSERT, "Bonn", 1)]
    changes += [(RowKind.UPDATE_BEFORE, "Ulm", 1), (RowKind.UPDATE_AFTER, "Ulm", 2)]
    rows = [Row.of_kind(kind, *values) for kind, *values in changes]
    env.execute_sql(
        "CREATE TABLE counts (shop STRING, orders BIGINT) WITH ('connector' = 'values', "
        f"'data-id' = '{register_values(rows)}', 'changelog-mode' = 'I,UB,UA,D')"
    )
    counts = env.sql_query("SELECT * FROM counts")
    with pytest.raises(UnsupportedQueryError, match="changes rows"):
        counts.foreach_checkpoint(lambda df, number: None)
    found = []

    def function(df, checkpoint_id):
        found.append((df.schema.simpleString(), sorted(map(tuple, df.collect()), key=str)))

    counts.foreach_checkpoint(function, row_kinds=True).wait()
    ((schema, rows),) = found
    assert schema == "struct<_row_kind:string,shop:string,orders:bigint>"
    assert rows == [
        ("+I", "Bonn", 1),
        ("+I", "Ulm", 1),
        ("+U", "Ulm", 2),
        ("-U", "Ulm", 1),
    ]


def test_a_session_table_and_views_are_at_hand_in_the_function(spark, tmp_path):
    """The function runs in the session of the program: it joins with its views, and writes tables of its own."""
    session = SparkSession(spark)
    session.createDataFrame([("Ulm", 89)], "shop string, code int").createOrReplaceTempView("codes")
    seen = []

    def function(df, checkpoint_id):
        codes = df.sparkSession.table("codes")
        seen.extend(map(tuple, df.join(codes, "shop").collect()))

    env = StreamTableEnvironment.create(StreamExecutionEnvironment.get_execution_environment())
    orders = env.from_elements([("Ulm", 1), ("Bonn", 2)], ["shop", "id"])
    orders.foreach_checkpoint(function).wait()
    assert seen == [("Ulm", 1, 89)]
    session.catalog.dropTempView("codes")
