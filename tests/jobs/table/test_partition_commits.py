"""Partitions of files are committed when their time has come, once their files are there, despite failures in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import state
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.connectors.base.source import SourceReader
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError, JobExecutionError
from penstock.sql.errors import ValidationError
from penstock.table import (
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableEnvironment,
)
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults
from penstock.time import clock
from tests.builders.endless import EndlessSource
from tests.builders.modes import MODES
from tests.builders.waiting import wait_until

HOUR_S = 3600
BY_TIME = {
    "sink.partition-commit.trigger": "partition-time",
    "sink.partition-commit.delay": "1 h",
    "sink.partition-commit.policy.kind": "success-file",
    "partition.time-extractor.timestamp-pattern": "$day $hour:00:00",
}
BY_CLOCK = {
    "sink.partition-commit.delay": "1 h",
    "sink.partition-commit.policy.kind": "success-file",
}
INSERT = (
    "INSERT INTO hours SELECT id, DATE_FORMAT(at, 'yyyy-MM-dd'), DATE_FORMAT(at, 'HH') FROM visits"
)


class Hours:
    """A job that writes visits to partitions of hours, its input and its output."""

    def __init__(self, home: Path, mode: str) -> None:
        self._home = home
        self._mode = mode
        self._files = 0
        (home / "in").mkdir()

    def environment(
        self, sink: dict[str, str], *, watched: bool = True, **more: str
    ) -> TableEnvironment:
        """Return an environment with both tables."""
        configuration = Configuration()
        for key, value in {
            "penstock.execution.mode": self._mode,
            "parallelism.default": "1",
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.dir": str(self._home / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "100",
            "restart-strategy.fixed-delay.delay": "0 ms",
            **more,
        }.items():
            configuration.set_string(key, value)
        settings = EnvironmentSettings.new_instance().in_streaming_mode()
        tables = TableEnvironment.create(settings.with_configuration(configuration).build())
        source = {"connector": "filesystem", "path": str(self._home / "in"), "format": "csv"}
        if watched:
            source["source.monitor-interval"] = "20 ms"
        tables.execute_sql(
            "CREATE TABLE visits (id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) "
            f"WITH ({options(source)})"
        )
        target = {"connector": "filesystem", "path": str(self._home / "out"), **sink}
        tables.execute_sql(
            "CREATE TABLE hours (id BIGINT, `day` STRING, `hour` STRING) PARTITIONED BY (`day`, `hour`) "
            f"WITH ({options({'format': 'parquet', **target})})"
        )
        return tables

    @contextmanager
    def running(self, sink: dict[str, str], **more: str) -> Iterator[Any]:
        """Run the job."""
        client = self.environment(sink, **more).execute_sql(INSERT).get_job_client()
        assert client is not None
        try:
            yield client
        finally:
            if not client.get_job_status().result().is_globally_terminal_state():
                client.cancel().result(60)

    def visit(self, number: int, at: str) -> None:
        """Give the job a row, in a file of its own."""
        self._files += 1
        hidden = self._home / f"{self._files}.csv"
        hidden.write_text(f"{number},2024-01-01 {at}:00\n")
        os.rename(hidden, self._home / "in" / hidden.name)

    def partition(self, hour: int) -> Path:
        """Return the directory of an hour."""
        return self._home / "out" / "day=2024-01-01" / f"hour={hour}"

    def files(self, hour: int) -> int:
        """Return how many files an hour has that can be read."""
        return len(list(self.partition(hour).glob("part-*")))

    def is_committed(self, hour: int) -> bool:
        """Whether an hour is complete."""
        return (self.partition(hour) / "_SUCCESS").exists()

    def rows(self) -> list[tuple[int, str]]:
        """Return the rows that can be read."""
        with (
            self.environment({}, watched=False)
            .execute_sql("SELECT id, `hour` FROM hours")
            .collect() as found
        ):
            return sorted((row[0], row[1]) for row in found)


def options(given: dict[str, str]) -> str:
    texts = {key: value.replace("'", "''") for key, value in given.items()}
    return ", ".join(f"'{key}' = '{value}'" for key, value in texts.items())


@pytest.fixture(autouse=True)
def cluster() -> Iterator[None]:
    with MiniCluster():
        yield


@pytest.fixture(params=MODES)
def hours(request: pytest.FixtureRequest, tmp_path: Path) -> Hours:
    return Hours(tmp_path, request.param)


def test_an_hour_is_committed_when_the_watermark_has_passed_its_end(hours: Hours) -> None:
    with hours.running({**BY_TIME, "sink.parallelism": "2"}):
        hours.visit(1, "10:30")
        wait_until(lambda: hours.files(10) == 1)
        for number in (1, 2):
            hours.visit(2, "11:00")  # not past the end, but at it
            wait_until(lambda number=number: hours.files(11) == number)
        assert not hours.is_committed(10)
        hours.visit(3, "11:01")
        wait_until(lambda: hours.is_committed(10))
        assert not hours.is_committed(11)
        assert hours.rows() == [(1, "10"), (2, "11"), (2, "11"), (3, "11")]


def test_a_late_row_makes_its_partition_be_committed_again(hours: Hours) -> None:
    with hours.running(BY_TIME):
        hours.visit(1, "10:30")
        hours.visit(2, "11:30")
        wait_until(lambda: hours.is_committed(10))
        (hours.partition(10) / "_SUCCESS").unlink()
        hours.visit(3, "10:45")
        wait_until(lambda: hours.is_committed(10))
        assert hours.rows() == [(1, "10"), (2, "11"), (3, "10")]
        assert not hours.is_committed(11)


def test_rows_that_would_wait_for_a_larger_file_are_committed_with_their_partition(
    hours: Hours,
) -> None:
    with hours.running({**BY_TIME, "format": "csv"}):
        hours.visit(1, "10:30")
        hours.visit(2, "11:30")
        wait_until(lambda: hours.is_committed(10))
        assert [each.read_text() for each in hours.partition(10).glob("part-*")] == ["1\n"]
        assert hours.files(11) == 0


@pytest.mark.parametrize(
    "moment",
    ["after write_manifest", "before commit_sink", "after commit_sink", "before write_manifest"],
)
def test_waiting_partitions_survive_a_failure(hours: Hours, moment: str) -> None:
    """The first fault strikes when an hour waits, the second one when it is committed."""
    faults = [StepFault(moment, 1), StepFault(moment, 3), StepFault(moment, 5)]
    with protocol_faults(*faults) as watched, hours.running(BY_TIME):
        hours.visit(1, "10:30")
        wait_until(lambda: hours.files(10) == 1)
        hours.visit(2, "11:30")
        wait_until(lambda: hours.is_committed(10))
        hours.visit(3, "12:30")
        wait_until(lambda: hours.is_committed(11))
        hours.visit(4, "12:40")
        wait_until(lambda: hours.files(12) >= 2)
        assert not hours.is_committed(12)
        assert hours.rows() == [(1, "10"), (2, "11"), (3, "12"), (4, "12")]
    assert watched.struck


@pytest.mark.parametrize("how", ["stopped", "beside", "edited"])
def test_waiting_partitions_are_part_of_a_savepoint(hours: Hours, tmp_path: Path, how: str) -> None:
    """The second job writes nothing to the hour that it commits, and has another number of writers."""
    directory = str(tmp_path / "savepoints")
    with hours.running(BY_TIME) as client:
        hours.visit(1, "10:30")
        wait_until(lambda: hours.files(10) == 1)
        if how == "beside":
            path = client.trigger_savepoint(directory).result(60)
        else:
            path = client.stop_with_savepoint(False, directory).result(60)
    assert not hours.is_committed(10)
    if how == "edited":
        path = state.edit(path).write(directory)
    recovery = {"execution.state-recovery.path": path}
    with hours.running({**BY_TIME, "sink.parallelism": "2"}, **recovery):
        hours.visit(2, "11:30")
        wait_until(lambda: hours.is_committed(10))
        assert not hours.is_committed(11)
        assert hours.rows() == [(1, "10"), (2, "11")]


@pytest.mark.parametrize("sink", [BY_TIME, BY_CLOCK], ids=["watermark", "clock"])
def test_drained_job_commits_everything_and_another_resumes(
    hours: Hours, tmp_path: Path, sink: dict[str, str]
) -> None:
    with hours.running(sink) as client:
        hours.visit(1, "10:30")
        wait_until(lambda: hours.files(10) == 1)
        assert not hours.is_committed(10)
        path = client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(60)
    assert hours.is_committed(10)
    (hours.partition(10) / "_SUCCESS").unlink()
    with hours.running(sink, **{"execution.state-recovery.path": path}):
        hours.visit(2, "10:31")
        wait_until(lambda: hours.files(10) == 2)
        hours.visit(3, "10:32")
        wait_until(lambda: hours.files(10) == 3)
        assert not hours.is_committed(10)


@pytest.mark.parametrize("sink", [BY_TIME, BY_CLOCK], ids=["watermark", "clock"])
def test_at_the_end_of_the_input_everything_is_committed(
    hours: Hours, sink: dict[str, str]
) -> None:
    hours.visit(1, "10:30")
    hours.visit(2, "23:30")
    hours.environment(sink, watched=False).execute_sql(INSERT).wait()
    assert hours.is_committed(10)
    assert hours.is_committed(23)
    assert hours.rows() == [(1, "10"), (2, "23")]


@pytest.fixture
def later() -> Iterator[Any]:
    """Puts the clock on by some seconds."""
    before = clock.set_reader(None)
    clock.set_reader(before)
    yield lambda seconds: clock.set_reader(lambda: before() + seconds)
    clock.set_reader(before)


def test_a_partition_is_committed_when_the_clock_has_passed_its_creation(
    hours: Hours, later: Any
) -> None:
    with hours.running(BY_CLOCK):
        hours.visit(1, "10:30")
        wait_until(lambda: hours.files(10) == 1)
        later(HOUR_S / 2)
        hours.visit(2, "11:30")
        wait_until(lambda: hours.files(11) == 1)
        assert not hours.is_committed(10)
        later(HOUR_S + 60)
        wait_until(lambda: hours.is_committed(10))
        assert not hours.is_committed(11)
        hours.visit(3, "10:31")
        wait_until(lambda: hours.files(10) == 2)
        (hours.partition(10) / "_SUCCESS").unlink()
        later(2 * HOUR_S + 120)
        wait_until(lambda: hours.is_committed(10))
        wait_until(lambda: hours.is_committed(11))
        assert hours.rows() == [(1, "10"), (2, "11"), (3, "10")]


def test_without_a_delay_a_partition_is_committed_by_every_checkpoint_that_writes_to_it(
    hours: Hours,
) -> None:
    policy = {"sink.partition-commit.policy.kind": "success-file"}
    with hours.running({**policy, "format": "csv"}):
        for number in (1, 2):
            hours.visit(number, "10:30")
            wait_until(lambda: hours.is_committed(10))
            assert hours.files(10) == number
            (hours.partition(10) / "_SUCCESS").unlink()
        assert hours.files(11) == 0


def test_a_partition_without_a_time_fails_the_job(hours: Hours) -> None:
    hours.visit(1, "10:30")
    tables = hours.environment({**BY_TIME, "partition.time-extractor.timestamp-pattern": "$hour"}, watched=False, **{"restart-strategy.type": "none"})  # fmt: skip
    with pytest.raises(JobExecutionError, match="'10' does not match yyyy-MM-dd"):
        tables.execute_sql(INSERT).wait()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"sink.partition-commit.trigger": "event-time"},
            "valid values are process-time, partition-time",
        ),
        (
            {"sink.partition-commit.policy.kind": "metastore,success-file"},
            "not registered in a metastore",
        ),
        ({"partition.time-extractor.kind": "custom"}, "Java classes"),
        ({**BY_TIME, "partition.time-extractor.timestamp-pattern": "$dy"}, "partitioned by 'dy'"),
        ({**BY_TIME, "partition.time-extractor.timestamp-pattern": "now"}, r"no \$column"),
        ({**BY_TIME, "partition.time-extractor.timestamp-formatter": "HH:mm"}, "no complete date"),
        (
            {**BY_TIME, "partition.time-extractor.timestamp-formatter": "yyyy-MM-dd'"},
            "unclosed quotation mark",
        ),
        ({**BY_TIME, "sink.partition-commit.watermark-time-zone": "Mars"}, "unknown time zone"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, given: dict[str, str], message: str
) -> None:
    tables = Hours(tmp_path, "epochs").environment(given)
    with pytest.raises(ConfigurationError, match=message):
        tables.execute_sql(INSERT)


def test_the_time_of_partitions_needs_partitions(tmp_path: Path) -> None:
    tables = Hours(tmp_path, "epochs").environment({})
    sink = {"connector": "filesystem", "path": str(tmp_path), "format": "csv", **BY_TIME}
    tables.execute_sql(f"CREATE TABLE plain (id BIGINT) WITH ({options(sink)})")
    with pytest.raises(ConfigurationError, match="PARTITIONED BY"):
        tables.execute_sql("INSERT INTO plain SELECT id FROM visits")


def test_the_time_of_partitions_needs_watermarks_where_there_is_no_end(tmp_path: Path) -> None:
    hours = Hours(tmp_path, "epochs")
    tables = hours.environment(BY_TIME)
    tables.execute_sql("CREATE TABLE ever (id BIGINT) WITH ('connector' = 'datagen')")
    with pytest.raises(ValidationError, match="needs watermarks, but the query has none"):
        tables.execute_sql("INSERT INTO hours SELECT id, '2024-01-01', '10' FROM ever")
    tables.execute_sql("INSERT INTO hours VALUES (1, '2024-01-01', '10')").wait()
    assert hours.is_committed(10)


def test_tables_with_these_options_can_be_read(tmp_path: Path) -> None:
    tables = Hours(tmp_path, "epochs").environment({**BY_TIME, "auto-compaction": "true"})
    (tmp_path / "out").mkdir()
    tables.explain_sql("SELECT * FROM hours")


def test_in_batch_mode_everything_is_committed_at_the_end(tmp_path: Path) -> None:
    hours = Hours(tmp_path, "epochs")
    hours.visit(1, "10:30")
    more = {"execution.runtime-mode": "BATCH"}
    tables = hours.environment({**BY_TIME, "format": "csv"}, watched=False, **more)
    tables.execute_sql(INSERT).wait()
    assert hours.is_committed(10)
    assert hours.files(10) == 1


class Endless(EndlessSource):
    """Is planned and never read."""

    def create_reader(self) -> SourceReader:
        raise AssertionError


@pytest.mark.parametrize("declared", [True, False])
def test_only_watermarks_of_a_stream_that_its_table_declares_count(
    tmp_path: Path, declared: bool
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(env)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    numbers = env.from_source(Endless(), strategy, "numbers", Types.LONG())
    schema = Schema.new_builder().column("f0", "BIGINT")
    if declared:
        schema.column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime")
        schema.watermark("at", "SOURCE_WATERMARK()")
    tables.create_temporary_view("numbers", tables.from_data_stream(numbers, schema.build()))
    sink = {"connector": "filesystem", "path": str(tmp_path), "format": "csv", **BY_TIME}
    tables.execute_sql(
        "CREATE TABLE hours (id BIGINT, `day` STRING, `hour` STRING) "
        f"PARTITIONED BY (`day`, `hour`) WITH ({options(sink)})"
    )
    insert = "INSERT INTO hours SELECT f0, '2024-01-01', '10' FROM numbers"
    if declared:
        tables.explain_sql(insert)
        return
    with pytest.raises(ValidationError, match="needs watermarks"):
        tables.explain_sql(insert)
