"""A driver that dies while partitions are committed and files compacted: a partition that is committed has all its rows, once."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.common import Configuration
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from penstock.testing.faults import EXIT_CODE, StepFault, protocol_faults
from tests.builders.modes import EPOCHS, PIPELINED
from tests.builders.steps import at_step
from tests.builders.waiting import wait_until

START = dt.datetime(2024, 1, 1)
ROWS_OF_A_FILE, ROWS_OF_AN_HOUR = 20, 60  # one each minute
FILES = 30
DEATHS = ("before commit_sink", "after commit_sink", "before write_manifest")


def give(home: Path) -> bool:
    """Add a file to the input; return whether there was one left."""
    number = len(list((home / "in").iterdir()))
    if number == FILES:
        return False
    first = number * ROWS_OF_A_FILE
    lines = [f"{n},{START + dt.timedelta(minutes=n)}\n" for n in range(first, first + ROWS_OF_A_FILE)]  # fmt: skip
    (home / f"{number:02}.csv").write_text("".join(lines))
    os.rename(home / f"{number:02}.csv", home / "in" / f"{number:02}.csv")
    return True


def start(home: Path, mode: str) -> Any:
    configuration = Configuration()
    for key, value in {
        "penstock.execution.mode": mode,
        "penstock.job-id": "0123456789abcdef0123456789abcdef",
        "parallelism.default": "1",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(home / "checkpoints"),
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(configuration).build())
    tables.execute_sql(
        f"""CREATE TABLE visits (id BIGINT, seen TIMESTAMP(3), WATERMARK FOR seen AS seen) WITH (
        'connector' = 'filesystem', 'path' = '{home / "in"}', 'format' = 'csv', 'source.monitor-interval' = '10 ms')"""
    )
    tables.execute_sql(
        f"""CREATE TABLE hours (id BIGINT, d STRING, h STRING) PARTITIONED BY (d, h) WITH (
        'connector' = 'filesystem', 'path' = '{home / "out"}', 'format' = 'parquet',
        'sink.parallelism' = '2', 'auto-compaction' = 'true',
        'sink.partition-commit.trigger' = 'partition-time', 'sink.partition-commit.delay' = '1 h',
        'sink.partition-commit.policy.kind' = 'success-file',
        'partition.time-extractor.timestamp-pattern' = '$d $h:00:00')"""
    )
    return tables.execute_sql(
        "INSERT INTO hours SELECT id, DATE_FORMAT(seen, 'yyyy-MM-dd'), DATE_FORMAT(seen, 'HH') FROM visits"
    )


def die(home: Path, mode: str, moment: str) -> None:
    """Run until the driver dies; every checkpoint brings a file."""
    give(home)
    begins = "before run_pipe" if mode == EPOCHS else "before trigger"
    fault = StepFault(moment, 6, "exit")
    with MiniCluster(), at_step(begins, lambda _: give(home)), protocol_faults(fault):
        start(home, mode).wait()


def rows_of(partition: Path) -> Counter[int]:
    files = partition.rglob("part-*")
    return Counter(number for each in files for number in pl.read_parquet(each)["id"])


def check_committed(home: Path) -> int:
    """Return how many partitions are committed; all of them are complete."""
    marks = list((home / "out").rglob("_SUCCESS"))
    for mark in marks:
        rows = rows_of(mark.parent)
        assert len(rows) == rows.total() == ROWS_OF_AN_HOUR
        assert len({number // ROWS_OF_AN_HOUR for number in rows}) == 1
    return len(marks)


@pytest.mark.parametrize("mode", [PIPELINED, pytest.param(EPOCHS, marks=pytest.mark.full)])
def test_a_partition_that_is_committed_has_all_its_rows_once(tmp_path: Path, mode: str) -> None:
    (tmp_path / "in").mkdir()
    for moment in DEATHS:
        command = [sys.executable, "-m", __name__, str(tmp_path), mode, moment]
        assert subprocess.run(command, check=False).returncode == EXIT_CODE
        check_committed(tmp_path)
    while give(tmp_path):
        pass
    rows = FILES * ROWS_OF_A_FILE
    with MiniCluster():
        client = start(tmp_path, mode).get_job_client()
        wait_until(lambda: len(rows_of(tmp_path / "out")) == rows)
        wait_until(lambda: check_committed(tmp_path) == rows // ROWS_OF_AN_HOUR - 1)
        client.stop_with_savepoint(True, str(tmp_path / "savepoints")).result(60)
    assert check_committed(tmp_path) == rows // ROWS_OF_AN_HOUR
    assert not list((tmp_path / "out").rglob(".*"))


if __name__ == "__main__":
    die(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
