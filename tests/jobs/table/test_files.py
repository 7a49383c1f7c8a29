"""Tables of files: what SQL writes is what SQL reads, in every format, with partitions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigurationError, JobExecutionError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing.mini_cluster import MiniCluster

COLUMNS = "id BIGINT, s STRING, d DOUBLE, m DECIMAL(10, 2), b BOOLEAN, ts TIMESTAMP(3), day_ DATE"
ROWS = """
  (1, 'a,"b"', 1.5, 2.25, TRUE, TIMESTAMP '2024-01-01 10:00:00.123', DATE '2024-01-01'),
  (2, 'x', -0.5, -1.00, FALSE, TIMESTAMP '2024-01-02 00:00:00', DATE '2024-02-29')
"""


@pytest.fixture
def tables() -> TableEnvironment:
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def rows_of(tables: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    with tables.execute_sql(query).collect() as rows:
        return Counter(tuple(map(str, row)) for row in rows)


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc"])
def test_what_is_written_is_read(tables: TableEnvironment, tmp_path: Path, form: str) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = '{form}'"
    tables.execute_sql(f"CREATE TABLE t ({COLUMNS}) WITH ({given})")
    with MiniCluster():
        tables.execute_sql(f"INSERT INTO t VALUES {ROWS}").wait()
        found = rows_of(tables, "SELECT * FROM t")
        some = rows_of(tables, "SELECT m, id FROM t WHERE id > 1")
    assert found == rows_of_values()
    assert some == {("-1.00", "2"): 1}


def test_avro_files_are_written_and_read(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'avro'"
    tables.execute_sql(f"CREATE TABLE t (id BIGINT, s STRING, ts TIMESTAMP(3)) WITH ({given})")
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO t VALUES (1, 'a', TIMESTAMP '2024-01-01 10:00:00.123')"
        ).wait()
        found = rows_of(tables, "SELECT ts, id, s FROM t")
    assert found == {("2024-01-01 10:00:00.123000", "1", "a"): 1}


def rows_of_values() -> dict[tuple[str, ...], int]:
    return {
        ("1", 'a,"b"', "1.5", "2.25", "True", "2024-01-01 10:00:00.123000", "2024-01-01"): 1,
        ("2", "x", "-0.5", "-1.00", "False", "2024-01-02 00:00:00", "2024-02-29"): 1,
    }


def test_partitions_are_directories(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'parquet'"
    done = "'sink.partition-commit.policy.kind' = 'success-file'"
    tables.execute_sql(
        f"CREATE TABLE t (id BIGINT, dt STRING, hm STRING) PARTITIONED BY (dt, hm) WITH ({given}, {done})"
    )
    with MiniCluster():
        tables.execute_sql(
            "INSERT INTO t VALUES (1, '2024-01-01', '10:30'), (2, '2024-01-01', '10:31'), (3, '2024-01-02', CAST(NULL AS STRING))"
        ).wait()
        found = rows_of(tables, "SELECT hm, id, dt FROM t")
        counted = rows_of(tables, "SELECT dt, COUNT(*) FROM t WHERE hm = '10:30' GROUP BY dt")
    assert found == {
        ("10:30", "1", "2024-01-01"): 1,
        ("10:31", "2", "2024-01-01"): 1,
        ("None", "3", "2024-01-02"): 1,
    }
    assert counted == {("2024-01-01", "1"): 1}
    assert (tmp_path / "t/dt=2024-01-01/hm=10%3A30/_SUCCESS").exists()
    assert (tmp_path / "t/dt=2024-01-02/hm=__DEFAULT_PARTITION__").exists()


def test_a_line_that_is_no_row_fails_the_job_and_names_the_file(
    tables: TableEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("1,a\nx,b\n")
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv'"
    tables.execute_sql(f"CREATE TABLE t (id BIGINT, s STRING) WITH ({given})")
    with MiniCluster(), pytest.raises(JobExecutionError, match=r"rows\.csv"):
        rows_of(tables, "SELECT * FROM t")


def test_a_format_that_is_not_known_is_refused(tables: TableEnvironment, tmp_path: Path) -> None:
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parket'"
    tables.execute_sql(f"CREATE TABLE t (id BIGINT) WITH ({given})")
    with pytest.raises(ConfigurationError, match="one of csv, json, parquet"):
        tables.execute_sql("SELECT * FROM t")
