"""Small files of a checkpoint and partition are compacted into larger ones before they become visible, exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.errors import ConfigurationError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, moments, protocol_faults
from tests.builders.modes import MODES

COLUMNS = "id BIGINT, s STRING, d DECIMAL(10, 2), at TIMESTAMP(3), k INT"
ROWS = 400


def tables(home: Path, mode: str, **sink: str) -> TableEnvironment:
    """Return an environment with a table of files, a row of `numbers` is a row of it."""
    configuration = Configuration()
    for key, value in {
        "penstock.execution.mode": mode,
        "parallelism.default": "2",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(home / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    found = TableEnvironment.create(settings.with_configuration(configuration).build())
    found.execute_sql(
        "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', "
        f"'fields.id.start' = '1', 'fields.id.end' = '{ROWS}', 'rows-per-second' = '{ROWS * 4}')"
    )
    given = {"connector": "filesystem", "path": str(home / "out"), **sink}
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    found.execute_sql(f"CREATE TABLE t ({COLUMNS}) PARTITIONED BY (k) WITH ({options})")
    return found


INSERT = (
    "INSERT INTO t SELECT id, CAST(id AS STRING), CAST(id AS DECIMAL(10, 2)) / 4, "
    "TIMESTAMPADD(SECOND, CAST(id AS INT), TIMESTAMP '2024-01-01 00:00:00'), CAST(MOD(id / 2, 2) AS INT) FROM numbers"
)


def check_rows(environment: TableEnvironment) -> None:
    with environment.execute_sql("SELECT id, s, d, at, k FROM t").collect() as found:
        rows = sorted(tuple(row) for row in found)
    assert [row[0] for row in rows] == list(range(1, ROWS + 1))
    assert all(str(row[0]) == row[1] and float(row[2]) == row[0] / 4 for row in rows)
    assert all(row[3].minute * 60 + row[3].second == row[0] for row in rows)


def sources(home: Path) -> dict[tuple[str, str], set[str]]:
    """Return the subtasks whose names files have, by partition and checkpoint; the first file gives the name."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in (home / "out").rglob("part-*"):
        _, subtask, checkpoint_id, *_ = path.name.split("-")
        found.setdefault((path.parent.name, checkpoint_id), set()).add(subtask)
    return found


@pytest.fixture(autouse=True)
def cluster():
    with MiniCluster():
        yield


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", ["csv", "json", "parquet", "orc", "avro"])
def test_a_partition_gets_one_file_of_a_checkpoint(tmp_path: Path, form: str, mode: str) -> None:
    environment = tables(tmp_path, mode, format=form, **{"auto-compaction": "true"})
    environment.execute_sql(INSERT).wait()
    files = list((tmp_path / "out").rglob("part-*"))
    assert len(files) == len(sources(tmp_path))
    check_rows(environment)


def test_files_are_not_larger_than_asked_for(tmp_path: Path) -> None:
    options = {"auto-compaction": "true", "compaction.file-size": "1 b"}
    environment = tables(tmp_path, "epochs", format="parquet", **options)
    environment.execute_sql(INSERT).wait()
    assert any(len(subtasks) == 2 for subtasks in sources(tmp_path).values())
    check_rows(environment)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("moment", ["before commit_sink", "after commit_sink", "before write_manifest"])  # fmt: skip
def test_rows_are_there_once_whatever_fails(tmp_path: Path, mode: str, moment: str) -> None:
    assert moment in moments(mode)
    environment = tables(tmp_path, mode, format="parquet", **{"auto-compaction": "true"})
    with protocol_faults(StepFault(moment, 1), StepFault(moment, 2)) as faults:
        environment.execute_sql(INSERT).wait()
    assert faults.struck
    assert not list((tmp_path / "out").rglob(".*"))
    check_rows(environment)


def test_files_that_replace_others_are_compacted_too(tmp_path: Path) -> None:
    environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    environment.get_config().set("parallelism.default", "2")
    given = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet'"
    environment.execute_sql(f"CREATE TABLE t (n INT) WITH ({given}, 'auto-compaction' = 'true')")
    for values in ("(1), (2), (3)", "(4), (5)"):
        environment.execute_sql(f"INSERT OVERWRITE t VALUES {values}").wait()
        assert len(list(tmp_path.glob("part-*"))) == 1
    with environment.execute_sql("SELECT n FROM t").collect() as rows:
        assert sorted(row[0] for row in rows) == [4, 5]


def test_a_size_that_is_none_is_refused(tmp_path: Path) -> None:
    options = {"auto-compaction": "true", "compaction.file-size": "large"}
    environment = tables(tmp_path, "epochs", format="parquet", **options)
    with pytest.raises(ConfigurationError, match=r"compaction\.file-size"):
        environment.execute_sql(INSERT)
